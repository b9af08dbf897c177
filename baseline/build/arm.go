package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// Arm is everything that makes an arm's server what it is.
type Arm struct {
	// Artefact is the artefact digest, 64 hex.
	Artefact string
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
	h := sha256.New()
	field := func(name, value string) {
		// The length keeps "ab"+"c" and "a"+"bc" apart. A hash never fails to write.
		_, _ = fmt.Fprintf(h, "%s %d %s\n", name, len(value), value)
	}
	field("artefact", a.Artefact)
	field("build", a.Build)
	field("start", a.Start)
	for _, arg := range a.Args {
		field("arg", arg)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Env)) {
		field("env", name)
		if !proc.Secret(name) {
			field("value", a.Env[name])
		}
	}
	field("ready", a.ReadyPath)
	return hex.EncodeToString(h.Sum(nil))
}
