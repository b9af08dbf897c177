package report

import (
	"fmt"
	"strings"
)

// span is a piece of a line. What may be markup depends on the surface, so a span carries its kind, not its escapes.
type span struct {
	kind spanKind
	text string
}

type spanKind int

const (
	// ours is text of this package: numbers, labels, sentences. It is printed as it is.
	ours spanKind = iota
	// foreign is text of others, already cleaned. Surfaces escape it.
	foreign
	// code is a digest, name or command, already cleaned.
	code
	// strong is ours with weight.
	strong
)

// words is a line: spans one after the other.
type words []span

// say formats text of ours. Strings among the arguments must be ours too, or [inert].
func say(format string, args ...any) span { return span{ours, fmt.Sprintf(format, args...)} }

// quote cleans foreign text of at most limit characters.
func quote(s string, limit int) span { return span{foreign, clean(s, limit)} }

// name is a foreign name in code type.
func name(s string) span { return span{code, clean(s, nameCap)} }

func bold(s string) span { return span{strong, s} }

// The bounds of foreign text inside a span of ours. They cannot be forged: clean removes control characters.
const inertStart, inertEnd = "\x02", "\x03"

// inert marks a foreign word, such as the reason why a number is missing, that stands in the middle of our own text.
func inert(s string, limit int) string { return inertStart + clean(s, limit) + inertEnd }

// plain is the line without any markup.
func (w words) plain() string {
	var b strings.Builder
	for _, part := range w {
		b.WriteString(part.text)
	}
	return inertMarks.Replace(b.String())
}

var inertMarks = strings.NewReplacer(inertStart, "", inertEnd, "")

// block is one part of the document.
type block struct {
	kind  blockKind
	title string
	line  words
	table *grid
	log   []string
	// inner are the blocks of a fold.
	inner []block
	// webOnly blocks are left out on a terminal, terminalOnly blocks in Markdown.
	webOnly, terminalOnly bool
}

// without returns the blocks that are not hidden, at every depth.
func without(blocks []block, hidden func(block) bool) []block {
	var out []block
	for _, b := range blocks {
		if hidden(b) {
			continue
		}
		b.inner = without(b.inner, hidden)
		out = append(out, b)
	}
	return out
}

type blockKind int

const (
	// verdictLine is line 1.
	verdictLine blockKind = iota
	// bullet is one line of a list.
	bullet
	// tableBlock is a grid; logBlock a fenced log; foldBlock a part that opens on demand.
	tableBlock
	logBlock
	foldBlock
	// paragraph is a line of its own; markerBlock the machine-readable last line of a comment.
	paragraph
	markerBlock
)

// grid is a table. Align holds one of l, r, c per column.
type grid struct {
	head  []string
	align string
	// spare are the columns that a narrow terminal shows on a line below the row.
	spare []int
	rows  [][]words
}

func (g *grid) add(cells ...words) { g.rows = append(g.rows, cells) }

// cell is a table cell of our own text.
func cell(format string, args ...any) words { return words{say(format, args...)} }

func line(parts ...span) block { return block{kind: bullet, line: parts} }

func section(title string, webOnly bool, inner ...block) block {
	return block{kind: foldBlock, title: title, inner: inner, webOnly: webOnly}
}

func table(g *grid) block { return block{kind: tableBlock, table: g} }
