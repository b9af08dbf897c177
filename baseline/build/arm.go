package build

import (
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// Arm is everything that makes an arm's server what it is.
type Arm struct {
	// Artefact is the artefact digest, 64 hex. Image is that of the container image, "sha256:" and 64 hex, or empty.
	Artefact string
	Image    string
	// Build and Start are the commands; Args is what the arm adds to Start.
	Build, Start string
	Args         []string
	// Env is what the configuration sets for the server, without PORT, TMPDIR and other values that differ by round. Of
	// names that proc.Secret knows the value does not enter the digest, since a digest of a short secret can be guessed.
	Env map[string]string
	// ReadyPath is the path that is asked for readiness.
	ReadyPath string
}

// ArmDigest returns 64 hex over an arm. Equal digests mean that both arms would start the same server.
func ArmDigest(a Arm) string {
	f := fields{sha256.New()}
	f.add("artefact", a.Artefact)
	f.add("image", a.Image)
	f.add("build", a.Build)
	f.add("start", a.Start)
	for _, arg := range a.Args {
		f.add("arg", arg)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		f.add("env", name)
		if !proc.Secret(name) {
			f.add("value", a.Env[name])
		}
	}
	f.add("ready", a.ReadyPath)
	return f.sum()
}
