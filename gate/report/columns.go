package report

import (
	"slices"
	"strings"
)

// lastColumn is the narrowest last column of a table; its text wraps.
const lastColumn = 14

// layout is a table's columns as a terminal shows them.
type layout struct {
	keep   []int
	widths []int
	gap    int
	// last is the width left for the last column.
	last int
}

// table writes aligned columns. Where the width does not take them, spare columns go to a line below each row; where it
// still does not, each row becomes a record.
func (t *terminal) table(g *grid) {
	cells := t.texts(g)
	for _, try := range []struct {
		narrow bool
		gap    int
	}{{false, 2}, {true, 2}, {true, 1}} {
		if l, ok := t.lay(g, cells, try.narrow, try.gap); ok {
			t.aligned(g, cells, l)
			return
		}
	}
	t.records(cells)
}

// texts are the cells as plain text, the head first.
func (t *terminal) texts(g *grid) [][]string {
	cells := [][]string{make([]string, len(g.head))}
	for i, h := range g.head {
		cells[0][i] = t.say(h)
	}
	for _, row := range g.rows {
		line := make([]string, len(row))
		for i, w := range row {
			line[i] = t.say(w.plain())
		}
		cells = append(cells, line)
	}
	return cells
}

// lay fits the columns into the width; false when they do not fit.
func (t *terminal) lay(g *grid, cells [][]string, narrow bool, gap int) (layout, bool) {
	l := layout{widths: make([]int, len(g.head)), gap: gap}
	used := 0
	for i := range g.head {
		if narrow && slices.Contains(g.spare, i) {
			continue
		}
		for _, row := range cells {
			l.widths[i] = max(l.widths[i], columns(row[i]))
		}
		l.keep = append(l.keep, i)
		used += l.widths[i] + gap
	}
	end := l.widths[l.keep[len(l.keep)-1]]
	l.last = min(end, t.width-(used-end-gap))
	return l, l.last >= min(end, lastColumn)
}

func (t *terminal) aligned(g *grid, cells [][]string, l layout) {
	for n, row := range cells {
		var text strings.Builder
		end := l.keep[len(l.keep)-1]
		for _, i := range l.keep[:len(l.keep)-1] {
			pad := strings.Repeat(" ", l.widths[i]-columns(row[i]))
			if g.align[i] == 'r' {
				text.WriteString(pad + row[i])
			} else {
				text.WriteString(row[i] + pad)
			}
			text.WriteString(strings.Repeat(" ", l.gap))
		}
		indent := strings.Repeat(" ", columns(text.String()))
		for i, part := range wrapped(row[end], l.last) {
			if i == 0 {
				t.b.WriteString(strings.TrimRight(text.String()+part, " ") + "\n")
				continue
			}
			t.b.WriteString(indent + part + "\n")
		}
		if n > 0 {
			t.below(g, cells[0], row, l)
		}
	}
}

// below writes the spare columns of a row that hold something.
func (t *terminal) below(g *grid, head, row []string, l layout) {
	var parts []string
	for _, i := range g.spare {
		if !slices.Contains(l.keep, i) && row[i] != "-" {
			parts = append(parts, head[i]+" "+row[i])
		}
	}
	if len(parts) > 0 {
		t.wrap(strings.Join(parts, " · "), "    ", "    ")
	}
}

// records writes each row as "first: last", and what lies between on lines below it.
func (t *terminal) records(cells [][]string) {
	head := cells[0]
	last := len(head) - 1
	for _, row := range cells[1:] {
		t.wrap(row[0]+": "+row[last], "", "    ")
		var parts []string
		for i := 1; i < last; i++ {
			if row[i] != "-" {
				parts = append(parts, head[i]+" "+row[i])
			}
		}
		t.wrap(strings.Join(parts, " · "), "    ", "    ")
	}
}

// wrapped breaks text at spaces into lines of at most limit columns; a longer word is cut. It returns at least one line.
func wrapped(s string, limit int) []string {
	lines := []string{""}
	for word := range strings.SplitSeq(s, " ") {
		for word != "" {
			at := len(lines) - 1
			used := columns(lines[at])
			switch {
			case used > 0 && used+1+columns(word) <= limit:
				lines[at] += " " + word
				word = ""
			case used > 0:
				lines = append(lines, "")
			default:
				head := cutAt(word, limit)
				lines[at], word = head, word[len(head):]
			}
		}
	}
	return lines
}
