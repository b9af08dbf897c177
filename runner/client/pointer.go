package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// pointerRule looks at one value of a JSON answer. Its fields are those of the workload's assertion of that name.
type pointerRule struct {
	Path     string
	Equals   string
	Exists   *bool
	Type     string
	Shape    []int
	Min, Max string
}

// pointerCheck makes a check of a rule.
func pointerCheck(r pointerRule) (check, error) {
	var want any
	if r.Equals != "" {
		var err error
		if want, err = decodeValue([]byte(r.Equals)); err != nil {
			return check{}, fmt.Errorf("equals: %w", err)
		}
	}
	return onText("pointer "+r.Path, func(text []byte) string {
		root, err := decodeValue(text)
		if err != nil {
			return "the text is not one JSON value"
		}
		v, found := locate(root, r.Path)
		switch {
		case r.Exists != nil && *r.Exists != found:
			return fmt.Sprintf("exists: %t", found)
		case !found && r.Exists != nil:
			return ""
		case !found:
			return "no such value"
		case r.Equals != "" && !equalJSON(v, want):
			return "another value than " + r.Equals
		case r.Type != "" && typeOf(v) != r.Type:
			return fmt.Sprintf("a value of type %s, want %s", typeOf(v), r.Type)
		case r.Shape != nil && !slices.Equal(shapeOf(v), r.Shape):
			return fmt.Sprintf("shape %v, want %v", shapeOf(v), r.Shape)
		}
		return outside(v, r.Min, r.Max)
	}), nil
}

func decodeValue(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}

// locate follows a JSON Pointer (RFC 6901).
func locate(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	for token := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch at := v.(type) {
		case map[string]any:
			next, ok := at[token]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			v = at[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// equalJSON compares values; numbers by value, so that 1 equals 1.0.
func equalJSON(a, b any) bool {
	x, ok1 := number(a)
	y, ok2 := number(b)
	if ok1 && ok2 {
		return x.Cmp(y) == 0
	}
	return reflect.DeepEqual(a, b)
}

// number reads a JSON number exactly; one with an absurd exponent is none.
func number(v any) (*big.Rat, bool) {
	n, ok := v.(json.Number)
	if !ok || len(n) > 64 {
		return nil, false
	}
	if _, exp, has := strings.Cut(strings.ToLower(string(n)), "e"); has && len(exp) > 4 {
		return nil, false
	}
	return new(big.Rat).SetString(string(n))
}

func typeOf(v any) string {
	switch v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case json.Number:
		return "number"
	case bool:
		return "boolean"
	default:
		return "null"
	}
}

// shapeOf is the length of an array and of the first elements' arrays in it.
func shapeOf(v any) []int {
	var shape []int
	for {
		list, ok := v.([]any)
		if !ok {
			return shape
		}
		shape = append(shape, len(list))
		if len(list) == 0 {
			return shape
		}
		v = list[0]
	}
}

// outside says how a value breaks its bounds, "" when it does not.
func outside(v any, low, high string) string {
	if low == "" && high == "" {
		return ""
	}
	n, ok := number(v)
	if !ok {
		return "not a number"
	}
	if bound, ok := number(json.Number(low)); ok && n.Cmp(bound) < 0 {
		return "below " + low
	}
	if bound, ok := number(json.Number(high)); ok && n.Cmp(bound) > 0 {
		return "above " + high
	}
	return ""
}
