package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
)

// Merge takes the policy of one file and the target of another: a pull request is judged by the policy of its target
// branch, while each commit knows best how it is built and started. Neither argument is changed; the result shares their
// maps and lists.
func Merge(policy, target *File) *File {
	merged := *policy
	merged.Target, merged.target = target.Target, target.target
	return &merged
}

// Digest is the SHA-256, as 64 hex digits, over the policy: everything but target and baseline, defaults included. Formatting, comments,
// the order of keys and a default written out do not change it. A tolerance section that spells out the default list does:
// a named metric is a stronger wish than a default one.
func (f *File) Digest() string {
	hash := sha256.New()
	for _, line := range f.canonical() {
		fmt.Fprintln(hash, line)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// canonical lists the policy as "path = value" lines in the order of the structs.
func (f *File) canonical() []string {
	var lines []string
	v := reflect.ValueOf(f).Elem()
	for _, field := range fieldsOf(v.Type()) {
		if field.name != "target" && field.name != "baseline" {
			lines = appendLines(lines, field.name, v.Field(field.index))
		}
	}
	return lines
}

func appendLines(lines []string, path string, v reflect.Value) []string {
	if word, ok := reflect.TypeAssert[scalar](v.Addr()); ok {
		return append(lines, path+" = "+word.String())
	}
	switch value := v.Interface().(type) {
	case SLO:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			lines = append(lines, join(path, key)+" = "+written(unitOf(key), value[key]))
		}
		return lines
	case Tolerances:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			t := value[key]
			lines = append(lines, fmt.Sprintf("%s = %s %s force=%t named=%t", join(path, key), t.Relative, written(unitOf(key), t.Absolute), t.Force, t.Named))
		}
		return lines
	case Reset:
		if value.None {
			return append(lines, path+" = none")
		}
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			lines = append(lines, join(path, key)+" = "+strconv.Quote(value[key]))
		}
		return lines
	case []string, string:
		return append(lines, fmt.Sprintf("%s = %q", path, value))
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return lines
		}
		return appendLines(append(lines, path), path, v.Elem())
	case reflect.Struct:
		for _, field := range fieldsOf(v.Type()) {
			lines = appendLines(lines, join(path, field.name), v.Field(field.index))
		}
		return lines
	default:
		return append(lines, fmt.Sprintf("%s = %v", path, v.Interface()))
	}
}
