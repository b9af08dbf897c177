package build

import "fmt"

// UsageError says that the comparison asked for does not exist. Its text names the way out.
type UsageError struct{ Text string }

// Error returns the text.
func (e *UsageError) Error() string { return e.Text }

func usagef(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// FailedError says that a build command did not give a build.
type FailedError struct {
	// Exit is the command's exit code, 128 + n after signal n; 0 when it ended well and left nothing under its outputs.
	Exit int
	// Tail holds the last lines of the build's log, masked and cleaned; at most 50.
	Tail []string
	// Text is one sentence.
	Text string
}

// Error returns the text.
func (e *FailedError) Error() string { return e.Text }
