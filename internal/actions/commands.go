package actions

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf16"

	"github.com/sethvargo/go-githubactions"
)

// Commands speaks to the runner: outputs, the job summary, annotations. It is the only user of go-githubactions, which frames a
// value with a constant delimiter and panics when a file cannot be written; here a value that could leave its frame is an
// error, and so is a panic. It is not safe for concurrent use.
type Commands struct {
	action  *githubactions.Action
	summary string
}

// NewCommands writes annotations to w, and the rest to the files that the environment names.
func NewCommands(getenv func(string) string, w io.Writer) *Commands {
	return &Commands{
		action:  githubactions.New(githubactions.WithGetenv(getenv), githubactions.WithWriter(w)),
		summary: getenv("GITHUB_STEP_SUMMARY"),
	}
}

const (
	// delimiter is the one that go-githubactions frames every value with.
	delimiter = "_GitHubActionsFileCommandDelimeter_"
	// valueLimit bounds an output, bytes.
	valueLimit = 8 << 10
	// annotationLimit bounds an annotation, characters; GitHub cuts at 4,096.
	annotationLimit = 2000
	// summaryLimit is what a step's summary may hold in all, bytes. GitHub drops the whole text above 1 MiB.
	summaryLimit = 900 << 10
)

// Set sets an output of the step. A value is one line of at most 8 KiB; anything that could end its frame, and with it set
// another output, is an error and nothing is written.
func (c *Commands) Set(name, value string) error {
	switch {
	case len(value) > valueLimit:
		return fmt.Errorf("output %s: %d bytes, limit %d", name, len(value), valueLimit)
	case hasControl(value):
		return fmt.Errorf("output %s: a value is one line without control characters", name)
	case strings.Contains(value, delimiter):
		return fmt.Errorf("output %s: the value holds the delimiter of the file", name)
	}
	return caught(func() { c.action.SetOutput(name, value) })
}

// Summary appends Markdown to the job summary, as much as fits beside what the step wrote before.
func (c *Commands) Summary(markdown string) error {
	if c.summary == "" {
		return &MissingError{"GITHUB_STEP_SUMMARY"}
	}
	budget := summaryLimit
	if info, err := os.Stat(c.summary); err == nil {
		budget -= int(min(info.Size(), summaryLimit))
	}
	text := fit(markdown, budget, func(s string) int { return len(s) })
	if len(text) > budget {
		return fmt.Errorf("the job summary is full: %d bytes are left", budget)
	}
	return caught(func() { c.action.AddStepSummary(text) })
}

// Error, Warning and Notice write an annotation, which the runner shows on the page of the run. Line breaks in text are
// escaped; other control characters vanish.
func (c *Commands) Error(text string) error { return c.annotate(c.action.Errorf, text) }

// Warning is described at [Commands.Error].
func (c *Commands) Warning(text string) error { return c.annotate(c.action.Warningf, text) }

// Notice is described at [Commands.Error].
func (c *Commands) Notice(text string) error { return c.annotate(c.action.Noticef, text) }

func (c *Commands) annotate(write func(string, ...any), text string) error {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, oneLine(line, annotationLimit))
	}
	text = strings.Join(lines, "\n")
	if r := []rune(text); len(r) > annotationLimit {
		text = string(r[:annotationLimit]) + "…"
	}
	return caught(func() { write("%s", text) })
}

// caught turns a panic of the library into an error.
func caught(do func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			err = fmt.Errorf("%v", p)
		}
	}()
	do()
	return nil
}

// units counts UTF-16 code units, in which GitHub limits a comment.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
