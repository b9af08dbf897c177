package client

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes foreign text fit to be shown: one line, no control or invisible characters, valid UTF-8, at most limit
// bytes.
func clean[T string | []byte](foreign T, limit int) string {
	head := foreign[:min(len(foreign), 4*limit)]
	s := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		default:
			return -1
		}
	}, string(head))
	s = strings.Join(strings.Fields(s), " ")
	for len(s) > limit {
		_, size := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-size]
	}
	return s
}
