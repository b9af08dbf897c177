package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Schema is the JSON Schema of the format, generated from the structs, so that editors complete and check. It is stricter
// than nothing and laxer than [Parse]: ranges and demands across keys are Parse's alone.
func Schema() []byte {
	root := schemaOf(reflect.TypeFor[File](), "", "")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = ".tailgate.yaml"
	root["required"] = []string{"version"}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		panic("config: the schema of our own structs cannot be written: " + err.Error())
	}
	return out.Bytes()
}

// schemaOf describes one type. Maps marshal with sorted keys, so the bytes are the same each time.
func schemaOf(t reflect.Type, doc, enum string) map[string]any {
	s := map[string]any{}
	if doc != "" {
		s["description"] = doc
	}
	if word, ok := reflect.TypeAssert[scalar](reflect.New(t)); ok {
		return withForm(s, word.form())
	}
	switch t {
	case reflect.TypeFor[SLO]():
		return withKeys(s, sloKeys(), func(key string) map[string]any { return withForm(map[string]any{}, formOf(unitOf(key))) })
	case reflect.TypeFor[Tolerances]():
		return withKeys(s, toleranceKeys(), toleranceSchema)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), doc, enum)
	case reflect.Struct:
		if t == reflect.TypeFor[Reset]() && doc != "" {
			s["oneOf"] = []any{map[string]any{"type": "string", "enum": []string{"none"}}, schemaOf(t, "", "")}
			return s
		}
		properties := map[string]any{}
		for _, f := range fieldsOf(t) {
			properties[f.name] = schemaOf(f.of, f.doc, f.enum)
		}
		s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	case reflect.Map:
		s["type"], s["additionalProperties"] = "object", map[string]any{"type": []string{"string", "number", "boolean"}}
	case reflect.Slice:
		s["type"], s["items"] = "array", map[string]any{"type": []string{"string", "number", "boolean"}}
	case reflect.Int:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"] = "number"
	case reflect.Bool:
		s["type"] = "boolean"
	default:
		s["type"] = "string"
		if enum != "" {
			s["enum"] = strings.Split(enum, "|")
		}
	}
	return s
}

func withForm(s map[string]any, as form) map[string]any {
	s["type"], s["pattern"] = "string", as.pattern
	if as.name == durationForm.name {
		s["type"] = []string{"string", "integer"} // 0 needs no unit
		s["maximum"] = 0
	}
	return s
}

func withKeys(s map[string]any, keys []string, of func(string) map[string]any) map[string]any {
	properties := map[string]any{}
	for _, key := range keys {
		properties[key] = of(key)
	}
	s["type"], s["properties"], s["additionalProperties"] = "object", properties, false
	return s
}

// toleranceSchema takes 5% or the long form.
func toleranceSchema(key string) map[string]any {
	long := schemaOf(reflect.TypeFor[toleranceSection](), "", "")
	if properties, ok := long["properties"].(map[string]any); ok {
		properties["absolute"] = withForm(map[string]any{}, formOf(unitOf(key)))
	}
	return map[string]any{"oneOf": []any{withForm(map[string]any{}, percentForm), long}}
}

// formOf is how limits in a unit are written.
func formOf(unit string) form {
	_, as, _ := quantity(unit, "")
	return as
}
