package config

import (
	"fmt"
	"slices"
	"strings"
)

// Error is one mistake in a file, with its place and the way out.
type Error struct {
	// File is the name given to [Parse]. Line and Column are 1-based.
	File         string
	Line, Column int
	// Text says what is wrong; Hint what to write instead, empty when there is nothing to add.
	Text, Hint string
}

// Error prints "file:line:column: text; hint".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
	if e.Hint != "" {
		s += "; " + e.Hint
	}
	return s
}

// place is a position in a file, 1-based.
type place struct{ line, column int }

// source remembers where each key's value stood.
type source struct {
	name string
	at   map[string]place
}

func (s source) has(path string) bool {
	_, ok := s.at[path]
	return ok
}

// fault is the error at a path, or at the closest section that the file does have.
func (s source) fault(path, text, hint string) *Error {
	where := place{1, 1}
	for p := path; p != ""; {
		if at, ok := s.at[p]; ok {
			where = at
			break
		}
		p = p[:max(0, strings.LastIndexByte(p, '.'))]
	}
	return &Error{File: s.name, Line: where.line, Column: where.column, Text: text, Hint: hint}
}

// shown quotes a word of the file for a message: one line, no control characters, at most 60 characters.
func shown(word string) string {
	runes := []rune(word)
	if len(runes) > 60 {
		word = string(runes[:60]) + "…"
	}
	return fmt.Sprintf("%q", word)
}

// unknown explains a key that the format does not have.
func unknown(key string, allowed []string) (text, hint string) {
	text = "unknown key " + shown(key)
	if near := nearest(key, allowed); near != "" {
		hint = fmt.Sprintf("did you mean %q? ", near)
	}
	return text, hint + "allowed here: " + strings.Join(allowed, ", ")
}

// nearest is the allowed word with the smallest edit distance, empty when none is close enough to be a slip.
func nearest(word string, allowed []string) string {
	if len(word) > 60 {
		return ""
	}
	best, distance := "", len(word)/2+1
	for _, candidate := range allowed {
		if d := edits(word, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// edits is the Levenshtein distance of two short words, by bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := slices.Clone(row)
		row[0] = i + 1
		for j := range len(b) {
			swap := before[j]
			if a[i] != b[j] {
				swap++
			}
			row[j+1] = min(swap, before[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
