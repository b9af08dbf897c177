package record

// Build is what a build left behind.
type Build struct {
	// Command is what made it, secrets masked; empty when the checkout is the build.
	Command string `json:"command,omitempty"`
	Exit    int    `json:"exit"`
	// SHA256 is the artefact digest, 64 hex; empty when the build failed.
	SHA256  string  `json:"sha256,omitempty"`
	Seconds float64 `json:"seconds"`
	// Files counts the files under the digest.
	Files int `json:"files,omitempty"`
	// Cached says that the outputs were taken from the build cache; Seconds is then how long that took.
	Cached bool `json:"cached,omitempty"`
	// Toolchain is what the commands of target.toolchain said of the tools.
	Toolchain []Tooling `json:"toolchain,omitempty"`
	// Image is the digest of the container image, "sha256:" and 64 hex; empty where the file names no command for it.
	Image string `json:"image,omitempty"`
}

// Tooling is one command that names a tool of the build, and what it printed: one line, masked and cleaned, cut at 2,000 bytes.
type Tooling struct {
	Command string `json:"command"`
	Output  string `json:"output"`
}
