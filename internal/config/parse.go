package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxBytes bounds a file: the policy of a pull request is read from somebody else's commit.
const maxBytes = 64 << 10

// maxDepth bounds brackets within brackets. The format needs four; the parser's time grows with the square of the depth.
const maxDepth = 32

// Parse reads a .tailgate.yaml, applies the defaults and checks every value. Name stands in errors for the file. Every error
// is an [*Error] with a line from 1. What only a full run needs (a workload, a start command) is left to [File.Runnable], so
// that a file may hold a policy alone.
func Parse(name string, data []byte) (*File, error) {
	_, body, err := tree(name, data)
	if err != nil {
		return nil, err
	}
	d := &decoder{source: source{name: name, at: map[string]place{}}}
	f := Default()
	f.Version = 0
	if err := d.node(body, reflect.ValueOf(f).Elem(), "", ""); err != nil {
		return nil, err
	}
	f.policy, f.target = d.source, d.source
	f.derive()
	if err := f.check(); err != nil {
		return nil, err
	}
	return f, nil
}

// tree is the file's one document, and the tokens it was made of.
func tree(name string, data []byte) (token.Tokens, ast.Node, error) {
	start := source{name: name}
	if len(data) > maxBytes {
		return nil, nil, start.fault("", fmt.Sprintf("the file has %d bytes", len(data)), fmt.Sprintf("at most %d are read", maxBytes))
	}
	tokens := lexer.Tokenize(string(data))
	if at, deep := tooDeep(tokens); deep {
		return nil, nil, &Error{name, at.line, at.column, fmt.Sprintf("more than %d brackets within each other", maxDepth), "the format needs four"}
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, nil, syntax(name, err)
	}
	if len(file.Docs) > 1 {
		e := start.fault("", "the file has more than one document", "remove what follows the line ---")
		if dashes := file.Docs[1].Start; dashes != nil && dashes.Position != nil {
			e.Line, e.Column = max(1, dashes.Position.Line), max(1, dashes.Position.Column)
		}
		return nil, nil, e
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil || file.Docs[0].Body.Type() == ast.NullType {
		return nil, nil, start.fault("", "the file is empty", "begin with: version: 1")
	}
	return tokens, file.Docs[0].Body, nil
}

// tooDeep finds the first bracket beyond [maxDepth].
func tooDeep(tokens token.Tokens) (place, bool) {
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		default:
		}
		if depth > maxDepth {
			return place{max(1, t.Position.Line), max(1, t.Position.Column)}, true
		}
	}
	return place{}, false
}

// syntax turns the parser's error into ours.
func syntax(name string, err error) *Error {
	e := &Error{File: name, Line: 1, Column: 1, Text: "not YAML: " + firstLine(err.Error())}
	if broken, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		e.Text = "not YAML: " + firstLine(broken.Message)
		if t := broken.Token; t != nil && t.Position != nil {
			e.Line, e.Column = max(1, t.Position.Line), max(1, t.Position.Column)
		}
	}
	return e
}

// firstLine cleans a foreign message for one line.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	quoted := shown(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// position is where a node's first token stands.
func position(n ast.Node) (place, bool) {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		n = m.Values[0].Key
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{}, false
	}
	return place{max(1, t.Position.Line), max(1, t.Position.Column)}, true
}
