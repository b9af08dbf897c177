package build

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// nearRefs is how many similar names an error lists; maxRefs how many refs are looked at for them.
	nearRefs, maxRefs = 3, 5000
	// refLimit bounds what is shown of a ref, in bytes.
	refLimit = 100
)

var (
	hash       = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)
	navigation = regexp.MustCompile(`([~^][0-9]*)+$`) // HEAD~2, main^
)

// errUnknown says that a well-formed ref names no commit.
var errUnknown = errors.New("unknown ref")

// check refuses what is no ref before git sees it: an option in disguise, or a name that git forbids.
func (r *repository) check(ctx context.Context, ref string) error {
	shown := proc.Clean(ref, refLimit)
	if strings.HasPrefix(ref, "-") {
		return usagef("ref %q starts with a dash; name a branch, a tag or a commit", shown)
	}
	name := navigation.ReplaceAllString(ref, "")
	_, err := r.run(ctx, nil, "check-ref-format", "--allow-onelevel", name)
	if _, refused := said(err); refused {
		return usagef("%q is no ref; name a branch, a tag or a commit", shown)
	}
	return err
}

// commit returns the commit that a checked ref names, or errUnknown.
func (r *repository) commit(ctx context.Context, ref string) (string, error) {
	out, err := r.text(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if _, refused := said(err); refused || (err == nil && !hash.MatchString(out)) {
		return "", errUnknown
	}
	return out, err
}

// resolve makes a commit of a ref. A name that is a branch and a tag on different commits is refused: whichever git
// prefers would be the wrong one for somebody.
func (r *repository) resolve(ctx context.Context, ref, flag string) (string, error) {
	if err := r.check(ctx, ref); err != nil {
		return "", err
	}
	commit, err := r.commit(ctx, ref)
	if errors.Is(err, errUnknown) {
		return "", r.unknown(ctx, ref, flag)
	}
	if err != nil {
		return "", err
	}
	branch, errBranch := r.commit(ctx, "refs/heads/"+ref)
	tag, errTag := r.commit(ctx, "refs/tags/"+ref)
	if errBranch == nil && errTag == nil && branch != tag {
		return "", usagef("%s is a branch and a tag, on different commits; name refs/heads/%s or refs/tags/%s", ref, ref, ref)
	}
	return commit, nil
}

// unknown explains a ref that names no commit.
func (r *repository) unknown(ctx context.Context, ref, flag string) error {
	text := "%s: %q names no commit here"
	out, err := r.text(ctx, "for-each-ref", "--format=%(refname:short)", "--count=5000", "--sort=-creatordate")
	if err == nil {
		if near := nearest(ref, strings.Fields(out)); len(near) > 0 {
			text += "; did you mean " + strings.ReplaceAll(strings.Join(near, " or "), "%", "%%") + "?"
		}
	}
	if shallow, err := r.shallow(ctx); err == nil && len(shallow) > 0 {
		text += " The clone is shallow: " + mendShallow
	}
	return usagef(text, flag, proc.Clean(ref, refLimit))
}

// nearest returns the names that are closest to ref: first those that end in it (origin/main for main), then by edit
// distance, at most a third of its length.
func nearest(ref string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for _, name := range names[:min(len(names), maxRefs)] {
		d := distance(ref, name)
		if strings.HasSuffix(name, "/"+ref) {
			d = 0
		}
		if d <= max(1, len(ref)/3) {
			found = append(found, candidate{proc.Clean(name, refLimit), d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var near []string
	for _, c := range found[:min(len(found), nearRefs)] {
		near = append(near, c.name)
	}
	return near
}

// distance is the Levenshtein distance of two names, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal, row[j+1] = row[j+1], min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
