package client

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// signs are what shows an answer of a dialect.
type signs struct {
	// says describes them to people.
	says string
	// within names the list whose first item is looked at, empty for the event itself. What is looked at has all of all and,
	// unless that is empty, one of any.
	within   string
	all, any []string
}

// sight is the beginning of an answer, taken apart as far as its first JSON object goes.
type sight struct {
	keys, inner map[string]bool
	anthropic   bool
}

// sightOf finds the first JSON object of an answer: in the data of an event, or where the body begins. The body may be cut
// anywhere.
func sightOf(body []byte) sight {
	s := sight{keys: map[string]bool{}, inner: map[string]bool{}}
	s.anthropic = bytes.Contains(body, []byte("event: message_start"))
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		data, isData := bytes.CutPrefix(line, []byte("data:"))
		if isData {
			line = bytes.TrimSpace(data)
		}
		if !bytes.HasPrefix(line, []byte("{")) {
			continue
		}
		var w walk
		w.open(line)
		w.object(func(name []byte) {
			s.keys[string(name)] = true
			if string(name) == "choices" {
				w.array(func() { w.object(func(name []byte) { s.inner[string(name)] = true }) })
			}
		})
		return s
	}
	return s
}

func (g signs) match(s sight) bool {
	if g.says == "" {
		return false
	}
	keys := s.keys
	if g.within != "" {
		if !s.keys[g.within] {
			return false
		}
		keys = s.inner
	}
	for _, k := range g.all {
		if !keys[k] {
			return false
		}
	}
	return len(g.any) == 0 || slices.ContainsFunc(g.any, func(k string) bool { return keys[k] })
}

// looksLike says which other dialect a body seems to be of, "" when it looks like none, or like the one that was asked.
func (d *dialect) looksLike(body []byte) string {
	s := sightOf(body)
	switch {
	case s.anthropic:
		return "the answer looks like Anthropic's messages API, which tailgate does not speak"
	case bytes.HasPrefix(bytes.ToLower(bytes.TrimSpace(body)), []byte("<")):
		return "the answer looks like a web page: is this the address of the service itself?"
	}
	for _, other := range dialects() {
		if other.signs.match(s) {
			if other.name == d.name {
				return ""
			}
			return fmt.Sprintf("the answer looks like %s: %s", other.name, other.signs.says)
		}
	}
	return ""
}

// refusal finds in the message of a refused request the field that other dialects would have sent.
func (d *dialect) refusal(message []byte) string {
	text := strings.ToLower(faultText(message))
	if !strings.Contains(text, "missing") && !strings.Contains(text, "required") && !strings.Contains(text, "not found") {
		return ""
	}
	var fits []string
	missed := ""
	for _, other := range dialects() {
		field := cmp.Or(other.terms.messages, other.terms.prompt)
		if field == "" || field == d.terms.messages || field == d.terms.prompt || missed != "" && field != missed {
			continue
		}
		for _, quote := range []string{"`", "\"", "'"} {
			if strings.Contains(text, quote+field+quote) {
				missed = field
				fits = append(fits, other.name)
				break
			}
		}
	}
	if missed == "" {
		return ""
	}
	return fmt.Sprintf("the server misses the field %s: try --dialect %s", missed, strings.Join(fits, " or "))
}

// hint says, from what an exchange left behind, how the service may want to be asked instead; "" when nothing shows it.
func (x *exchange) hint(s *record.Sample) string {
	d := x.c.speaks
	switch {
	case x.head.status == 0:
		return ""
	case noSuchPath(s):
		path, _, _ := strings.Cut(x.c.path(x.r.want.stream), "?")
		return fmt.Sprintf("%d at %s: give the whole URL with its path, or try another --dialect of %s", s.Status, clean(path, 128), strings.Join(Dialects(), ", "))
	case s.Class == record.HTTP4xx:
		return d.refusal(x.errorBody)
	case s.Class == record.Malformed, s.Class == record.Truncated, s.Class == record.EmptyOutput, slices.Contains(s.Flags, FlagNotStreamed):
		return d.looksLike(x.ans.head)
	default:
		return ""
	}
}

// looks is the best hint there is after a request that may have gone to the wrong door: what the answer shows, or, where the
// server has no such path, what it has instead.
func (c *Client) looks(ctx context.Context, x *exchange, s *record.Sample) string {
	if noSuchPath(s) {
		return cmp.Or(c.identify(ctx), x.hint(s))
	}
	return x.hint(s)
}

// noSuchPath reports whether the server knows neither path nor method, rather than not the model.
func noSuchPath(s *record.Sample) bool {
	return (s.Status == http.StatusNotFound || s.Status == http.StatusMethodNotAllowed) && !strings.Contains(strings.ToLower(s.Detail), "model")
}

// identifyLimit bounds the search for the dialect of a server.
const identifyLimit = 3 * time.Second

// identify asks a server that does not know the dialect's path for the model lists of the others. It sends no inference.
func (c *Client) identify(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, identifyLimit)
	defer cancel()
	asked := map[string]bool{c.speaks.catalog.path: true}
	for _, d := range dialects() {
		list := d.catalog
		if list.path == "" || list.post || asked[list.path] {
			continue
		}
		asked[list.path] = true
		status, body, err := c.lookUp(ctx, http.MethodGet, list.path, "")
		if err != nil || status != http.StatusOK {
			continue
		}
		if names := list.names(body); len(names) > 0 && names[0] != "" {
			return fmt.Sprintf("the server lists model %s at %s: try --dialect %s", clean(names[0], 64), list.path, d.name)
		}
	}
	return ""
}
