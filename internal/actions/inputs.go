package actions

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CommentMode says whether the report becomes a comment on the pull request.
type CommentMode string

// The comment modes. Auto posts where it can and degrades to a warning elsewhere; Always makes a comment that cannot be posted
// the error of the publish step; Never leaves the report to the job summary.
const (
	CommentAuto   CommentMode = "auto"
	CommentAlways CommentMode = "always"
	CommentNever  CommentMode = "never"
)

// Inputs are the action's inputs, checked. An empty string or 0 means that the input was not given, and that .tailgate.yaml or
// a built-in default decides.
type Inputs struct {
	// Config is the path of .tailgate.yaml inside the repository, with forward slashes.
	Config string
	// Strategy is "merge-base" or "ref". BaseRef and HeadRef are refs, unchecked: git refuses what is no ref.
	Strategy         string
	BaseRef, HeadRef string
	// Workload overrides the workload of the file, a path inside the repository. WorkloadDigest is "sha256:" and 64 hex: the
	// workload must have it.
	Workload, WorkloadDigest string
	// Gate is "pr" or "release", what the verdict is for; a release needs WorkloadDigest.
	Gate string
	// Rounds is the smallest number of pairs, 3 to 12; 0 leaves it to the file.
	Rounds  int
	Comment CommentMode
	// Key keeps several gates on one pull request apart: words of lower-case letters and digits joined by single dashes, at
	// most 40 characters.
	Key string
	// OutputDir is the run folder to create, absolute.
	OutputDir string
	// ServiceEnv lists further variables that may reach builds and servers.
	ServiceEnv []string
}

// InputError is an input whose value cannot be used. It is the workflow's mistake: nothing was measured.
type InputError struct {
	// Name is the input as action.yml spells it, Value what it was given, cleaned; Want says what it takes.
	Name, Value, Want string
}

// Error names the input, its value and what it takes.
func (e *InputError) Error() string {
	return fmt.Sprintf("input %s: %q: want %s", e.Name, e.Value, e.Want)
}

const (
	minRounds, maxRounds = 3, 12
	// keyLimit bounds a comment key, characters.
	keyLimit = 40
	// shownValue bounds what an error repeats of a bad value, characters.
	shownValue = 80
)

var (
	keyPattern    = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	notKey        = regexp.MustCompile(`[^a-z0-9]+`)
	digestPattern = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	gatePattern   = regexp.MustCompile(`^(pr|release)$`)
	namePattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// ReadInputs reads the inputs from the variables that action.yml maps them to: base-ref is INPUT_BASE_REF. job fills the
// defaults that depend on it. The error is an [InputError].
func ReadInputs(lookup func(string) (string, bool), job Job) (Inputs, error) {
	r := reader{lookup: lookup}
	in := Inputs{
		Config:   r.path("config", ".tailgate.yaml"),
		Strategy: r.enum("base-strategy", "merge-base", "ref"),
		BaseRef:  r.text("base-ref"),
		HeadRef:  r.text("head-ref"),
		Workload: r.path("workload", ""),
		Gate:     r.match("gate", gatePattern, "pr or release"),
		Rounds:   r.number("rounds", minRounds, maxRounds),
		Comment:  CommentMode(r.enum("comment", string(CommentAuto), string(CommentAlways), string(CommentNever))),
		Key:      r.key("comment-key", job),
	}
	in.WorkloadDigest = r.match("workload-digest", digestPattern, "sha256: and 64 hexadecimal digits")
	if in.Gate == "release" && in.WorkloadDigest == "" {
		r.refuse("workload-digest", "", "the workload's digest, which gate: release asks for")
	}
	in.OutputDir = r.outputDir(job, in.Key)
	in.ServiceEnv = r.names("service-env")
	return in, r.err
}

// reader reads inputs and keeps the first error.
type reader struct {
	lookup func(string) (string, bool)
	err    error
}

// text is an input without the white space around it.
func (r *reader) text(name string) string {
	v, _ := r.lookup("INPUT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	return strings.TrimSpace(v)
}

func (r *reader) refuse(name, value, want string) {
	if r.err == nil {
		r.err = &InputError{Name: name, Value: oneLine(value, shownValue), Want: want}
	}
}

// enum is one of the words; empty is the first.
func (r *reader) enum(name string, words ...string) string {
	v := r.text(name)
	if v == "" {
		return words[0]
	}
	if !slices.Contains(words, v) {
		r.refuse(name, v, strings.Join(words, " or "))
	}
	return v
}

func (r *reader) match(name string, pattern *regexp.Regexp, want string) string {
	v := r.text(name)
	if v != "" && !pattern.MatchString(v) {
		r.refuse(name, v, want)
	}
	return v
}

// path is a path inside the repository.
func (r *reader) path(name, otherwise string) string {
	v := r.text(name)
	if v == "" {
		return otherwise
	}
	clean := filepath.ToSlash(filepath.Clean(v))
	if filepath.IsAbs(v) || !fs.ValidPath(clean) || clean == "." || hasControl(v) {
		r.refuse(name, v, "a path inside the repository")
	}
	return clean
}

func (r *reader) number(name string, low, high int) int {
	v := r.text(name)
	if v == "" {
		return 0
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		r.refuse(name, v, fmt.Sprintf("a whole number from %d to %d", low, high))
	}
	return n
}

// key is the comment key, by default the workflow and the job.
func (r *reader) key(name string, job Job) string {
	v := r.text(name)
	if v == "" {
		return slug(job.Workflow + " " + job.Name)
	}
	if len(v) > keyLimit || !keyPattern.MatchString(v) {
		r.refuse(name, v, fmt.Sprintf("lower-case letters and digits joined by single dashes, at most %d characters", keyLimit))
	}
	return v
}

func slug(s string) string {
	s = strings.Trim(notKey.ReplaceAllString(strings.ToLower(s), "-"), "-")
	if len(s) > keyLimit {
		s = strings.Trim(s[:keyLimit], "-")
	}
	if s == "" {
		return "tailgate"
	}
	return s
}

// outputDir is the run folder: below the runner's temporary folder, unless a path is given.
func (r *reader) outputDir(job Job, key string) string {
	const name = "output-dir"
	v := r.text(name)
	if v == "" {
		return filepath.Join(job.Temp, "tailgate", fmt.Sprintf("%s-%d-%s", job.RunID, job.Attempt, key))
	}
	if hasControl(v) {
		r.refuse(name, v, "a path")
	}
	if !filepath.IsAbs(v) {
		v = filepath.Join(job.Workspace, v)
	}
	return filepath.Clean(v)
}

// names is a list of names of variables, separated by commas or white space.
func (r *reader) names(name string) []string {
	list := strings.FieldsFunc(r.text(name), func(c rune) bool { return c == ',' || c == ' ' || c == '\t' || c == '\r' || c == '\n' })
	for _, v := range list {
		switch {
		case !namePattern.MatchString(v):
			r.refuse(name, v, "names of variables, separated by commas")
		case strings.HasPrefix(v, "GITHUB_"), strings.HasPrefix(v, "ACTIONS_"), strings.HasPrefix(v, "INPUT_"):
			r.refuse(name, v, "no variable of the runner's own: builds and servers never see those")
		}
	}
	return list
}
