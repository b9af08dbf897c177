package config

import "reflect"

// field is one key of a section, from the struct tags.
type field struct {
	name, doc, enum string
	index           int
	of              reflect.Type
}

// fieldsOf lists the keys of a struct in order.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		if name := f.Tag.Get("yaml"); name != "" {
			fields = append(fields, field{name, f.Tag.Get("doc"), f.Tag.Get("enum"), i, f.Type})
		}
	}
	return fields
}

func names(fields []field) []string {
	list := make([]string, len(fields))
	for i, f := range fields {
		list[i] = f.name
	}
	return list
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// label names a path in a sentence; the root is "the file".
func label(path string) string {
	if path == "" {
		return "the file"
	}
	return path
}

// within prefixes a message about a key with the section it stands in.
func within(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}
