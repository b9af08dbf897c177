package config

import (
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Stored is the text of a file as it may be kept: show gets each value with its path, such as "target.env.HF_TOKEN" or
// "arms.head.args[0]", and each comment with an empty path, and returns what is to stand there. Keys, and what show leaves
// as it is, keep their form; only white space at the end of a line may be lost. Text of which show changes nothing is returned
// as it is. An error is an [*Error], and says that the text is no YAML or that it could not be rewritten.
func Stored(name string, data []byte, show func(path, text string) string) ([]byte, error) {
	tokens, body, err := tree(name, data)
	if err != nil {
		return nil, err
	}
	w := rewriting{show: show, origins: map[*token.Token]string{}}
	w.node(body, "")
	for _, t := range tokens {
		if t.Type == token.CommentType {
			w.replace(t, show("", t.Origin))
		}
	}
	if len(w.origins) == 0 {
		return data, nil
	}
	var out strings.Builder
	for _, t := range tokens {
		text, changed := w.origins[t]
		if !changed {
			text = t.Origin
		}
		out.WriteString(text)
	}
	if !strings.HasSuffix(out.String(), "\n") {
		out.WriteByte('\n')
	}
	// What it says now must be what was asked for, value by value.
	_, again, err := tree(name, []byte(out.String()))
	if err == nil {
		check := rewriting{show: func(_, text string) string { return text }}
		check.node(again, "")
		if strings.Join(check.said, "\n") == strings.Join(w.said, "\n") {
			return []byte(out.String()), nil
		}
	}
	return nil, (&source{name: name, at: map[string]place{}}).fault("", "the file cannot be kept with its secrets masked", "write each value in the line of its key, in double quotes")
}

// rewriting walks a tree that [Parse] has read, and collects what is to stand in it.
type rewriting struct {
	show func(path, text string) string
	// origins is the new source text of the tokens that change.
	origins map[*token.Token]string
	// said lists paths and values as they are to be.
	said []string
}

func (w *rewriting) node(n ast.Node, path string) {
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, entry := range n.Values {
			w.node(entry, path)
		}
	case *ast.MappingValueNode:
		w.node(n.Value, join(path, keyOf(n)))
	case *ast.SequenceNode:
		for i, item := range n.Values {
			w.node(item, path+"["+strconv.Itoa(i)+"]")
		}
	default:
		w.leaf(n, path)
	}
}

func (w *rewriting) leaf(n ast.Node, path string) {
	text, ok := wordOf(n)
	if !ok {
		return // a key without a value
	}
	shown := w.show(path, text)
	w.said = append(w.said, strconv.Quote(path)+": "+strconv.Quote(shown))
	if shown == text {
		return
	}
	t := n.GetToken()
	if block, ok := n.(*ast.LiteralNode); ok {
		// The text goes into the line of its mark; of its own lines the indent of what follows them is left.
		t = block.Start
		lines := block.Value.GetToken()
		indent := lines.Origin[strings.LastIndexByte(lines.Origin, '\n')+1:]
		if strings.TrimLeft(indent, " ") != "" {
			indent = "" // nothing follows
		}
		w.replace(lines, indent)
	}
	lead, trail := around(t.Origin)
	w.replace(t, lead+strconv.Quote(shown)+trail)
}

func (w *rewriting) replace(t *token.Token, text string) {
	if text != t.Origin {
		w.origins[t] = text
	}
}

// around is the white space before and after a token's text.
func around(origin string) (lead, trail string) {
	const white = " \t\r\n"
	rest := strings.TrimLeft(origin, white)
	return origin[:len(origin)-len(rest)], rest[len(strings.TrimRight(rest, white)):]
}
