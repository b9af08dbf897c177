package proc

import (
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// tailWindow is how many bytes at a log's end are read for its last lines.
	tailWindow = 1 << 20
	// tailLine is the longest line shown, in bytes.
	tailLine = 2000
)

// escapes matches terminal control sequences: CSI (colours, cursor) and OSC (titles, links).
var escapes = regexp.MustCompile("\x1b(\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(\x07|\x1b\\\\))")

// Clean makes foreign text fit to be shown on one line: no terminal sequences, control or bidirectional characters, no
// invalid UTF-8, at most limit bytes (a cut is marked by "…"). A tab or line break becomes a space.
func Clean(s string, limit int) string {
	s = escapes.ReplaceAllString(s, "")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= limit {
		return s
	}
	cut := max(limit-len("…"), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// Tail returns the last n lines of a log, masked and cleaned, oldest first. A carriage return ends a line. Only the last
// MiB is read; a line that starts before it is left out, since a secret might be cut there. A log that cannot be read
// has no lines.
func Tail(path string, n int, m *Mask) []string {
	text, whole, err := lastBytes(path)
	if err != nil || n <= 0 {
		return nil
	}
	text = strings.ReplaceAll(m.String(text), "\r\n", "\n")
	lines := strings.FieldsFunc(text, isBreak)
	if !whole && len(lines) > 0 {
		lines = lines[1:]
	}
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		// Once more after cleaning: a secret interrupted by a colour code is whole only now.
		lines[i] = Clean(m.String(Clean(line, len(line))), tailLine)
	}
	return lines
}

// lastBytes reads the end of a file and says whether that is all of it.
func lastBytes(path string) (text string, whole bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	from := max(0, info.Size()-tailWindow)
	data, err := io.ReadAll(io.NewSectionReader(f, from, tailWindow))
	return string(data), from == 0, err
}
