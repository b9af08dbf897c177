package workload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
)

// canonical is the one way to write v as JSON: keys sorted by bytes, no white space, integers only, strings with the
// shortest legal escapes and no Unicode normalisation. Values that marshal with omitempty are absent, never null.
func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	return appendCanonical(make([]byte, 0, len(raw)), tree)
}

func appendCanonical(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case map[string]any:
		return appendObject(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendCanonical(b, x); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case string:
		return appendString(b, v), nil
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return nil, fmt.Errorf("%s is not an integer", v)
		}
		return append(b, v...), nil
	case bool:
		return fmt.Appendf(b, "%t", v), nil
	default:
		return append(b, "null"...), nil
	}
}

func appendObject(b []byte, v map[string]any) ([]byte, error) {
	b = append(b, '{')
	for i, key := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		var err error
		if b, err = appendCanonical(b, v[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// textLine is one line of texts.jsonl.
type textLine struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Digest is "sha256:" and 64 hex over the canonical form of the manifest without its derived fields, of turns.jsonl and
// of texts.jsonl. It is computed anew on each call. [Open] has compared it with the manifest's.
func (w *Workload) Digest() string {
	h := sha256.New()
	h.Write([]byte("tailgate-workload/1\n"))
	m := w.Manifest
	m.Fidelity, m.Description, m.Created, m.Digest = nil, "", "", ""
	writeCanonical(h, m)

	turns := sha256.New()
	for i := range w.Turns {
		writeCanonical(turns, &w.Turns[i])
	}
	fmt.Fprintf(h, "%x\n", turns.Sum(nil))

	if len(w.Texts) == 0 {
		h.Write([]byte("\n"))
	} else {
		texts := sha256.New()
		for _, id := range slices.Sorted(maps.Keys(w.Texts)) {
			writeCanonical(texts, textLine{ID: id, Text: w.Texts[id]})
		}
		fmt.Fprintf(h, "%x\n", texts.Sum(nil))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// writeCanonical adds a line to a hash. The types written hold no float, so that the encoding cannot fail; if one ever
// does, the digest is of the error and matches nothing.
func writeCanonical(h hash.Hash, v any) {
	b, err := canonical(v)
	if err != nil {
		b = []byte(err.Error())
	}
	h.Write(append(b, '\n'))
}
