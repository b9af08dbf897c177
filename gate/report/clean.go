package report

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Caps on foreign text, in characters.
const (
	nameCap    = 80
	messageCap = 200
)

// zwj breaks what a forge would turn into a link. It is the only invisible character in a report, and always ours: clean
// removes those that came from outside.
const zwj = "\u200d"

// clean makes foreign text one line of visible characters, at most limit of them: control, bidirectional and zero-width
// characters are removed, runs of space become one. Invalid UTF-8 becomes U+FFFD.
func clean(s string, limit int) string {
	var b strings.Builder
	n, space := 0, false
	for _, r := range s {
		switch {
		case unicode.IsSpace(r):
			space = b.Len() > 0
			continue
		case hidden(r):
			continue
		}
		need := 1
		if space {
			need = 2
		}
		if n+need > limit-1 && moreThan(s, limit) {
			b.WriteRune('…')
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
		n += need
	}
	return b.String()
}

// moreThan reports whether s has more visible characters than limit, counting every space.
func moreThan(s string, limit int) bool {
	n := 0
	for _, r := range s {
		if hidden(r) && !unicode.IsSpace(r) {
			continue
		}
		if n++; n > limit {
			return true
		}
	}
	return false
}

// hidden reports whether a character has no shape of its own or steers others: controls, formats (bidirectional marks,
// zero-width characters, tags), private use, surrogates, variation selectors and the blank fillers.
func hidden(r rune) bool {
	switch {
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	case r == 0x034F, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x2800, r == 0x3164, r == 0xFFA0:
		return true
	default:
		return false
	}
}

var (
	// markup are the characters that mean something to GitHub's Markdown.
	markup = strings.NewReplacer(
		`\`, `\\`, "`", "\\`", `|`, `\|`, `*`, `\*`, `_`, `\_`, `~`, `\~`, `[`, `\[`, `]`, `\]`, `<`, `\<`, `>`, `\>`,
		`&`, `\&`, `#`, `\#`+zwj, `$`, `\$`, `!`, `\!`, `@`, `@`+zwj,
	)
	// hashes are what a forge takes for a commit; reference is GH-1; host is what it links without
	// a scheme.
	hashes    = regexp.MustCompile(`[0-9A-Fa-f]{7,}`)
	reference = regexp.MustCompile(`(?i)(gh)-`)
	host      = regexp.MustCompile(`(?i)(www)\.`)
)

// markdown escapes foreign text for GitHub Markdown: no markup, no tag, no entity, and nothing that the forge would turn
// into a mention, reference, commit or link.
func markdown(s string) string {
	s = hashes.ReplaceAllStringFunc(s, func(hex string) string {
		var b strings.Builder
		for i, r := range hex {
			if i > 0 && i%6 == 0 {
				b.WriteString(zwj)
			}
			b.WriteRune(r)
		}
		return b.String()
	})
	s = reference.ReplaceAllString(s, "$1-"+zwj)
	s = breakColons(s)
	s = host.ReplaceAllString(s, "$1"+zwj+".")
	return markup.Replace(s)
}

// breakColons breaks https:// and :emoji:, and leaves a colon before a space alone.
func breakColons(s string) string {
	parts := strings.Split(s, ":")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" && parts[i][0] != ' ' || parts[i] == "" && i < len(parts)-1 {
			parts[i] = zwj + parts[i]
		}
	}
	return strings.Join(parts, ":")
}

// codeText makes text safe inside a code span: it holds neither backticks nor, in a table, bars.
func codeText(s string) string { return codeMarks.Replace(s) }

var codeMarks = strings.NewReplacer("`", "'", "|", "¦")

// logLine cleans one line of a log for a fence: spacing is kept, tabs become spaces.
func logLine(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		switch {
		case r == '\t':
			r = ' '
		case hidden(r) || r == '\n' || r == '\r':
			continue
		}
		if n++; n > messageCap {
			b.WriteRune('…')
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ")
}

// fence is a run of backticks longer than any in the lines.
func fence(lines []string) string {
	longest := 2
	for _, line := range lines {
		run := 0
		for _, r := range line {
			if r == '`' {
				run++
				longest = max(longest, run)
			} else {
				run = 0
			}
		}
	}
	return strings.Repeat("`", longest+1)
}

// plainASCII replaces our own typography; whatever foreign text still holds beyond ASCII becomes "?".
func plainASCII(s string) string {
	s = typography.Replace(s)
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, s)
}

var typography = strings.NewReplacer("—", "-", "–", "-", "→", "->", "·", "|", "±", "+/-", "µ", "u", "°", " deg ", "…", "...", "¦", "|")
