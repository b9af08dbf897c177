package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	toolchainKey = "target.toolchain"
	imageKey     = "target.image_digest"
	// shownLimit is the most that is kept in the record of what a command printed, bytes.
	shownLimit = 2000
)

// toolchain asks the tools what they are and puts that on record. What they printed is returned for the cache's key; known
// is false when one of them failed. Many tools name their version on standard error, so that counts too.
func toolchain(ctx context.Context, o Options, b *record.Build) (printed []string, known bool, err error) {
	mask := proc.NewMask(o.Env)
	for _, command := range o.Toolchain {
		text, err := capture(ctx, o, toolchainKey, "exec 2>&1\n"+command)
		failed, ok := errors.AsType[*FailedError](err)
		switch {
		case ok:
			o.Note("toolchain_failed", fmt.Sprintf("%q: %s; the build cache is off for this arm", proc.Clean(mask.String(command), shownLimit), failed.Text))
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		printed = append(printed, text)
		b.Toolchain = append(b.Toolchain, record.Tooling{
			Command: proc.Clean(mask.String(command), shownLimit), Output: proc.Clean(mask.String(text), shownLimit),
		})
	}
	return printed, true, nil
}

var imagePattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// ImageDigest asks by o.Image which container image the start command runs. An answer that is no digest is a [FailedError]:
// a tag alone may name another image tomorrow.
func ImageDigest(ctx context.Context, o Options) (string, error) {
	text, err := capture(ctx, o, imageKey, o.Image)
	if err := cmp.Or(err, proc.MaskFile(o.LogPath, proc.NewMask(o.Env))); err != nil {
		return "", err
	}
	if !imagePattern.MatchString(text) {
		shown := proc.Clean(proc.NewMask(o.Env).String(text), 100)
		return "", &FailedError{Text: fmt.Sprintf("%s printed %q, not sha256: and 64 hex digits; docker image inspect --format '{{.Id}}' IMAGE prints them", imageKey, shown)}
	}
	return text, nil
}

var containerRun = regexp.MustCompile(`(^|[\s;&|(])(docker|podman|nerdctl)\s+(container\s+)?run\s`)

// Unpinned reports whether a start command runs a container image that nothing pins: neither a digest in the command nor
// the arm's image digest.
func Unpinned(start, image string) bool {
	return image == "" && containerRun.MatchString(start+" ") && !strings.Contains(start, "@sha256:")
}
