package actions

import (
	"io"
	"strings"
	"sync"
	"unicode"
)

// Log passes lines on to a job's log so that none of them is a command to the runner, whatever text of a branch, a server or
// a build stands in it. Groups are let through: they fold lines and do nothing else. It is safe for concurrent use.
type Log struct {
	mu sync.Mutex
	w  io.Writer
	// open is the line that no break has ended yet.
	open []byte
	// cr is true when the last character was a CR: an LF after it ends no second line.
	cr bool
}

// lineLimit bounds a line of the log, bytes; a longer one is broken.
const lineLimit = 16 << 10

// NewLog writes to w, a line at a time. Close passes on what no line break has ended.
func NewLog(w io.Writer) *Log { return &Log{w: w} }

// Write takes text in any pieces. LF, CR and CR LF end a line, as for the runner. The error is w's.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range p {
		lineEnd := c == '\r' || c == '\n' && !l.cr
		l.cr = c == '\r'
		if c != '\r' && c != '\n' {
			l.open = append(l.open, c)
		}
		if lineEnd || len(l.open) == lineLimit {
			if err := l.pass(); err != nil {
				return i, err
			}
		}
	}
	return len(p), nil
}

// Close passes on the last line. It does not close w.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == 0 {
		return nil
	}
	return l.pass()
}

func (l *Log) pass() error {
	_, err := io.WriteString(l.w, inert(string(l.open))+"\n")
	l.open = l.open[:0]
	return err
}

// inert is a line that the runner only prints. It obeys "::name::" at the start of a line, white space before it or not, and
// "##[name]" anywhere. Characters without a shape go first, so that none hides a prefix.
func inert(line string) string {
	line = strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, line)
	line = strings.ReplaceAll(line, "##[", "# #[")
	start := strings.TrimLeftFunc(line, unicode.IsSpace)
	if !strings.HasPrefix(start, "::") || strings.HasPrefix(start, "::group::") || strings.TrimRight(start, " ") == "::endgroup::" {
		return line
	}
	return "| " + line
}
