package report

// columns is how many terminal columns a text takes: two for wide characters.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

// runeColumns knows the wide blocks that occur in practice: CJK, Hangul, full-width forms and pictographs.
func runeColumns(r rune) int {
	switch {
	case r < 0x1100:
		return 1
	case r <= 0x115F, r >= 0x2E80 && r <= 0xA4CF, r >= 0xAC00 && r <= 0xD7A3, r >= 0xF900 && r <= 0xFAFF,
		r >= 0xFE30 && r <= 0xFE6F, r >= 0xFF00 && r <= 0xFF60, r >= 0xFFE0 && r <= 0xFFE6, r >= 0x1F300 && r <= 0x1FAFF,
		r >= 0x20000 && r <= 0x3FFFD, r == 0x2705, r == 0x274C, r == 0x2754, r == 0x26D4:
		return 2
	default:
		return 1
	}
}

// cutAt returns the longest prefix that fits a number of columns, at least one character.
func cutAt(s string, limit int) string {
	n := 0
	for i, r := range s {
		if n += runeColumns(r); n > limit && i > 0 {
			return s[:i]
		}
	}
	return s
}

// cutColumns shortens a line to a number of columns.
func cutColumns(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	return cutAt(s, limit-1) + "~"
}
