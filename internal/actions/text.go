package actions

import (
	"strings"
	"unicode"
)

// oneLine makes foreign text one line of visible characters, at most limit of them: white space becomes a space, control,
// format and private characters vanish.
func oneLine(s string, limit int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			r = ' '
		case !unicode.IsGraphic(r):
			continue
		}
		if n == limit {
			return b.String() + "…"
		}
		b.WriteRune(r)
		n++
	}
	return strings.TrimSpace(b.String())
}

// hasControl reports whether s holds a control character; line breaks are among them.
func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
