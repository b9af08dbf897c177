package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// maxWord is the longest text that a strict reader takes, bytes.
const maxWord = 4096

// strict reads one JSON value into a struct whose every key must be there once, known and of its kind, and remembers in which
// line each stood.
type strict struct {
	name string
	data []byte
	dec  *json.Decoder
	// lines holds the line of each value by its path. at and line are how far they were counted.
	lines map[string]int
	at    int
	line  int
}

func newStrict(name string, data []byte) *strict {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return &strict{name: name, data: data, dec: dec, lines: map[string]int{}, line: 1}
}

// decode checks the shape of the file against v's type and fills v.
func (s *strict) decode(v any) error {
	if err := s.value("", reflect.TypeOf(v).Elem()); err != nil {
		return err
	}
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		return s.fault("", "something follows the value")
	}
	if err := json.Unmarshal(s.data, v); err != nil {
		return s.fault("", err.Error())
	}
	return nil
}

// lineOf is the line of a value, or of the closest one around it that the file has.
func (s *strict) lineOf(path string) int {
	for {
		if line, ok := s.lines[path]; ok {
			return line
		}
		if path == "" {
			return 1
		}
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
}

func (s *strict) fault(path, text string) *CalibrationError {
	return &CalibrationError{File: s.name, Line: s.here(), Field: path, Text: text}
}

// here is the line the decoder has come to.
func (s *strict) here() int {
	if to := int(s.dec.InputOffset()); to > s.at {
		s.line += bytes.Count(s.data[s.at:to], []byte{'\n'})
		s.at = to
	}
	return s.line
}

// token reads on; a broken file is said where it breaks.
func (s *strict) token(path string) (json.Token, error) {
	token, err := s.dec.Token()
	if err == nil {
		return token, nil
	}
	if broken, ok := errors.AsType[*json.SyntaxError](err); ok {
		line := 1 + bytes.Count(s.data[:min(int(broken.Offset), len(s.data))], []byte{'\n'})
		return nil, &CalibrationError{File: s.name, Line: line, Field: path, Text: "not JSON: " + err.Error()}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &CalibrationError{File: s.name, Line: 1 + bytes.Count(s.data, []byte{'\n'}), Field: path, Text: "the file ends early"}
	}
	return nil, s.fault(path, "not JSON: "+err.Error())
}

// Types that are read in a way of their own.
var (
	valueType = reflect.TypeFor[Value]()
	timeType  = reflect.TypeFor[time.Time]()
)

// value checks the next value against a type.
func (s *strict) value(path string, t reflect.Type) error {
	token, err := s.token(path)
	if err != nil {
		return err
	}
	s.lines[path] = s.here()
	if t == valueType {
		t = reflect.TypeFor[wireValue]()
	}
	if t.Kind() == reflect.Pointer {
		if token == nil {
			return nil
		}
		t = t.Elem()
	}
	open, _ := token.(json.Delim)
	switch {
	case t == timeType:
		word, ok := token.(string)
		if _, err := time.Parse(time.RFC3339Nano, word); !ok || err != nil {
			return s.fault(path, "not a time such as 2026-03-04T10:15:00Z")
		}
		return nil
	case t.Kind() == reflect.Struct && open == '{', t.Kind() == reflect.Map && open == '{':
		return s.object(path, t)
	case t.Kind() == reflect.Slice && open == '[':
		return s.list(path, t)
	default:
		return s.scalar(path, t, token)
	}
}

func (s *strict) scalar(path string, t reflect.Type, token json.Token) error {
	number, isNumber := token.(json.Number)
	switch t.Kind() {
	case reflect.String:
		word, ok := token.(string)
		if !ok {
			return s.fault(path, "want text")
		}
		if len(word) > maxWord {
			return s.fault(path, fmt.Sprintf("a text of %d bytes, at most %d are read", len(word), maxWord))
		}
	case reflect.Int, reflect.Int64:
		if _, err := strconv.ParseInt(string(number), 10, 64); !isNumber || err != nil {
			return s.fault(path, "want a whole number")
		}
	case reflect.Float64:
		if _, err := strconv.ParseFloat(string(number), 64); !isNumber || err != nil {
			return s.fault(path, "want a number")
		}
	case reflect.Bool:
		if _, ok := token.(bool); !ok {
			return s.fault(path, "want true or false")
		}
	case reflect.Slice:
		return s.fault(path, "want a list")
	default:
		return s.fault(path, "want an object")
	}
	return nil
}

// key is one key of a struct.
type key struct {
	of       reflect.Type
	optional bool
}

func fieldsByName(t reflect.Type) map[string]key {
	keys := map[string]key{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			keys[name] = key{f.Type, strings.Contains(options, "omit")}
		}
	}
	return keys
}

func (s *strict) object(path string, t reflect.Type) error {
	var keys map[string]key
	if t.Kind() == reflect.Struct {
		keys = fieldsByName(t)
	}
	begins := s.here()
	seen := map[string]bool{}
	for s.dec.More() {
		token, err := s.token(path)
		if err != nil {
			return err
		}
		name, _ := token.(string)
		at := name
		if path != "" {
			at = path + "." + name
		}
		k, known := keys[name]
		switch {
		case seen[name]:
			return s.fault(clip(at), "is there twice")
		case len(name) > maxWord:
			return s.fault(path, "a key is too long")
		case keys == nil:
			k = key{of: t.Elem()}
		case !known:
			return s.fault(path, fmt.Sprintf("unknown key %.80q", name))
		}
		seen[name] = true
		if err := s.value(at, k.of); err != nil {
			return err
		}
	}
	if name := missingKey(t, seen); name != "" {
		return &CalibrationError{File: s.name, Line: begins, Field: path, Text: fmt.Sprintf("the key %q is missing", name)}
	}
	_, err := s.token(path)
	return err
}

// missingKey is the first key, in the order of the struct, that must be there and was not seen; empty for none.
func missingKey(t reflect.Type, seen map[string]bool) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	keys := fieldsByName(t)
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if k, ok := keys[name]; ok && !k.optional && !seen[name] {
			return name
		}
	}
	return ""
}

func (s *strict) list(path string, t reflect.Type) error {
	for i := 0; s.dec.More(); i++ {
		if err := s.value(path+"["+strconv.Itoa(i)+"]", t.Elem()); err != nil {
			return err
		}
	}
	_, err := s.token(path)
	return err
}
