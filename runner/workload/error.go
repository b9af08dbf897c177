package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Error is something wrong with a workload or a trace, with the place where it stands.
type Error struct {
	// File is the base name; Line counts from 1, 0 when the whole file is meant. Field is empty when the line is.
	File  string
	Line  int
	Field string
	Text  string
}

// Error is file:line, the field and what is wrong, as far as they are known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if e.File != "" {
		b.WriteString(": ")
	}
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	b.WriteString(e.Text)
	return b.String()
}

// at puts a file and line on an error of the reader. The text is bounded: it may quote foreign input.
func at(file string, line int, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		placed := *e
		placed.File, placed.Line = file, line
		return &placed
	}
	e := &Error{File: file, Line: line, Text: err.Error()}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		e.Field = t.Field
		e.Text = fmt.Sprintf("want %s, not a JSON %s", wanted(t.Type.String()), t.Value)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		e.Text = "the JSON value is cut short"
	}
	e.Text = clip(strings.TrimPrefix(e.Text, "json: "), 300)
	return e
}

// wanted says in words what a Go type takes.
func wanted(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.Contains(goType, "int"), strings.HasSuffix(goType, "Duration"):
		return "an integer in range"
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	default:
		return "an object"
	}
}

// clip shortens foreign text to n bytes at most, never inside a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func fieldError(field, format string, args ...any) *Error {
	return &Error{Field: field, Text: fmt.Sprintf(format, args...)}
}
