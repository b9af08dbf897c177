package report

import (
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
)

// minWidth is the narrowest terminal a report is laid out for.
const minWidth = 80

// terminal lays blocks out in columns of a fixed width.
type terminal struct {
	b     strings.Builder
	width int
	ascii bool
	color string
}

// toText renders blocks for a terminal.
func toText(word string, blocks []block, v gate.Verdict, o Options) string {
	t := &terminal{width: max(minWidth, o.Width), ascii: o.ASCII}
	if o.Color {
		t.color = colorOf(v)
	}
	if o.ASCII {
		word = asciiWord(v) + " " + word[strings.IndexByte(word, ' ')+1:]
	}
	t.blocks(word, without(blocks, func(b block) bool { return b.webOnly }))
	return t.b.String()
}

// colorOf is the colour that repeats a verdict; it never carries meaning alone.
func colorOf(v gate.Verdict) string {
	switch v {
	case gate.Pass:
		return "\x1b[32m"
	case gate.Fail:
		return "\x1b[31m"
	case gate.Inconclusive:
		return "\x1b[33m"
	case gate.Invalid:
		return "\x1b[35m"
	default:
		return "\x1b[2m"
	}
}

// asciiWord replaces the glyph.
func asciiWord(v gate.Verdict) string {
	switch v {
	case gate.Pass:
		return "[PASS]"
	case gate.Fail:
		return "[FAIL]"
	case gate.Inconclusive:
		return "[????]"
	case gate.Invalid:
		return "[VOID]"
	default:
		return "[----]"
	}
}

func (t *terminal) blocks(word string, blocks []block) {
	for i, part := range blocks {
		if i > 0 && (part.kind != bullet || blocks[i-1].kind != bullet) {
			t.b.WriteByte('\n')
		}
		switch part.kind {
		case verdictLine:
			// Line 1 is one line whatever the width: scripts read it.
			t.b.WriteString(t.paint(t.say(word)) + t.say(" — "+part.line.plain()) + "\n")
		case bullet:
			t.wrap(part.line.plain(), "", "  ")
		case paragraph:
			t.wrap(part.line.plain(), "", "")
		case tableBlock:
			t.table(part.table)
		case logBlock:
			t.wrap(part.line.plain()+":", "", "")
			for _, text := range part.log {
				t.b.WriteString("  | " + cutColumns(t.say(text), t.width-4) + "\n")
			}
		case foldBlock:
			t.b.WriteString(t.say(part.title) + "\n")
			t.blocks(word, part.inner)
		case markerBlock:
		}
	}
}

func (t *terminal) say(s string) string {
	if t.ascii {
		return plainASCII(s)
	}
	return s
}

func (t *terminal) paint(s string) string {
	if t.color == "" {
		return s
	}
	return t.color + s + "\x1b[0m"
}

// wrap writes text in lines of the width, the first after one indent, the others after another.
func (t *terminal) wrap(s, first, indent string) {
	for i, part := range wrapped(t.say(s), t.width-len(indent)) {
		if i == 0 {
			t.b.WriteString(first + part + "\n")
			continue
		}
		t.b.WriteString(indent + part + "\n")
	}
}
