package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ParseConfig reads one JSON object over the values of [Default] and checks it. An unknown key is an error that gives
// its path and the nearest known key; a wrong value is one that names the key and the rule.
func ParseConfig(data []byte) (Config, error) {
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", position(data, err))
	}
	if _, ok := tree.(map[string]any); !ok {
		return Config{}, errors.New("configuration: must be one JSON object")
	}
	if err := checkKeys("", tree, reflect.TypeFor[Config]()); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	cfg := Default()
	if err := json.Unmarshal(data, &cfg); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", position(data, err))
	}
	if err := cfg.check(); err != nil {
		return Config{}, fmt.Errorf("configuration: %w", err)
	}
	return cfg, nil
}

// position adds line and column where the decoder knows the place.
func position(data []byte, err error) error {
	var offset int64
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	} else if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = kind.Offset
	} else {
		return err
	}
	before := string(data[:min(int(offset), len(data))])
	line := strings.Count(before, "\n") + 1
	column := len(before) - strings.LastIndexByte(before, '\n') - 1
	return fmt.Errorf("line %d, column %d: %w", line, max(column, 1), err)
}

// checkKeys walks the decoded tree beside the type it is meant for. encoding/json can refuse unknown keys too, but it
// knows neither their path nor their neighbours, and it takes a key in the wrong case.
func checkKeys(path string, tree any, t reflect.Type) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch node := tree.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return nil // the decoder says it better
		}
		for i, item := range node {
			if err := checkKeys(fmt.Sprintf("%s[%d]", path, i), item, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		if t.Kind() != reflect.Struct {
			return nil
		}
		known := keysOf(t)
		for _, key := range slices.Sorted(maps.Keys(node)) {
			field, ok := known[key]
			if !ok {
				return unknownKey(path, key, slices.Sorted(maps.Keys(known)))
			}
			if err := checkKeys(join(path, key), node[key], field); err != nil {
				return err
			}
		}
	}
	return nil
}

// keysOf lists the JSON keys of a struct with their types, embedded structs flattened as encoding/json flattens them.
func keysOf(t reflect.Type) map[string]reflect.Type {
	keys := make(map[string]reflect.Type)
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		keys[name] = f.Type
	}
	return keys
}

func unknownKey(path, key string, known []string) error {
	best, distance := "", len(key)/2+1 // farther than half the word is no typing error
	for _, k := range known {
		if d := editDistance(key, k); d < distance {
			best, distance = k, d
		}
	}
	where := clip(join(path, key), 120)
	if best == "" {
		return fmt.Errorf("unknown key %q", where)
	}
	return fmt.Errorf("unknown key %q: did you mean %q?", where, best)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// editDistance is Levenshtein's, by bytes, in one row.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
