package report

import "strings"

// toMarkdown renders blocks for GitHub. Bullets in a row form one list; a blank line stands between all other blocks.
func toMarkdown(word string, blocks []block) string {
	var b strings.Builder
	writeMarkdown(&b, word, without(blocks, func(b block) bool { return b.terminalOnly }))
	return b.String()
}

func writeMarkdown(b *strings.Builder, word string, blocks []block) {
	for i, part := range blocks {
		if i > 0 && (part.kind != bullet || blocks[i-1].kind != bullet) && part.kind != markerBlock {
			b.WriteByte('\n')
		}
		switch part.kind {
		case verdictLine:
			b.WriteString("**" + word + "** — " + inline(part.line, false) + "\n")
		case bullet:
			b.WriteString("- " + inline(part.line, false) + "\n")
		case paragraph:
			b.WriteString(inline(part.line, false) + "\n")
		case tableBlock:
			markdownTable(b, part.table)
		case logBlock:
			ticks := fence(part.log)
			b.WriteString(inline(part.line, false) + ":\n\n" + ticks + "text\n" + strings.Join(part.log, "\n") + "\n" + ticks + "\n")
		case foldBlock:
			b.WriteString("<details><summary>" + part.title + "</summary>\n\n")
			writeMarkdown(b, word, part.inner)
			b.WriteString("\n</details>\n")
		case markerBlock:
			b.WriteString("<!-- " + part.line.plain() + " -->\n")
		}
	}
}

// inline renders spans; in a table bars must not end the cell.
func inline(w words, inTable bool) string {
	var b strings.Builder
	for _, part := range w {
		switch part.kind {
		case foreign:
			b.WriteString(markdown(part.text))
		case code:
			if part.text != "" {
				b.WriteString("`" + codeText(part.text) + "`")
			}
		case strong:
			b.WriteString("**" + part.text + "**")
		case ours:
			writeOurs(&b, part.text, inTable)
		}
	}
	return b.String()
}

// writeOurs writes text of ours as it is, and escapes the foreign words in it.
func writeOurs(b *strings.Builder, text string, inTable bool) {
	for text != "" {
		own, rest, found := strings.Cut(text, inertStart)
		if inTable {
			own = strings.ReplaceAll(own, "|", `\|`)
		}
		b.WriteString(own)
		if !found {
			return
		}
		word, after, _ := strings.Cut(rest, inertEnd)
		b.WriteString(markdown(word))
		text = after
	}
}

func markdownTable(b *strings.Builder, g *grid) {
	b.WriteString("| " + strings.Join(g.head, " | ") + " |\n|")
	for _, side := range g.align {
		b.WriteString(map[rune]string{'l': "---|", 'r': "--:|", 'c': ":-:|"}[side])
	}
	b.WriteByte('\n')
	for _, row := range g.rows {
		b.WriteByte('|')
		for _, w := range row {
			b.WriteString(" " + inline(w, true) + " |")
		}
		b.WriteByte('\n')
	}
}
