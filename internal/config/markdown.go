package config

import (
	"fmt"
	"reflect"
	"strings"
)

// preface opens the generated page.
const preface = `# The file .tailgate.yaml

<!-- Generated from the structs of internal/config; change them, then run go test ./internal/config -update -->

Strict: an unknown key is an error with file, line and column. ` + "`docs/tailgate.schema.json`" + ` lets editors complete and check.

Quantities carry their unit. A duration is written ` + "`250ms`, `10s`, `6m`; a percentage `5%`; a rate `40/s`" + `. A bare number
where a unit is due is refused (` + "`5` and `0.05`" + ` could both mean 5 %); only a duration of ` + "`0`" + ` needs none.
A key without a value keeps its default. Anchors, aliases and tags are not read.

The policy of a pull request (everything but ` + "`target`" + `) comes from the tip of its target branch, ` + "`target`" + ` from each commit.

` + "```yaml\n" + `version: 1
target:
  build: make server
  start: ./server --port $PORT --model $MODEL
  ready: {path: /health, timeout: 10m}
  env: {MODEL: /models/small.gguf}
workload: workloads/chat-v3
slo: {ttft_p99: 800ms, error_rate: 0.1%}
tolerance: {ttft_p50: 5%, ttft_p99: {relative: 15%, absolute: 5ms}}
` + "```\n"

// Markdown is the manual's page on the format, docs/configuration.md, generated from the structs and [Default].
func Markdown() []byte {
	var b strings.Builder
	b.WriteString(preface)
	defaults := reflect.ValueOf(Default()).Elem()
	for _, f := range fieldsOf(defaults.Type()) {
		fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", f.name, f.doc)
		writeSection(&b, f, defaults.Field(f.index))
	}
	return []byte(b.String())
}

// writeSection writes the table of one top-level key, nothing for a plain value.
func writeSection(b *strings.Builder, f field, v reflect.Value) {
	switch value := v.Interface().(type) {
	case SLO:
		writeMetrics(b, "limit", sloKeys(), func(key string) string { return "a limit such as `" + exampleOf(key) + "`" })
	case Tolerances:
		b.WriteString("\nWrite `5%`, or `{relative: 5%, absolute: 2ms, force: true}`:\n")
		writeTable(b, rows(reflect.ValueOf(toleranceSection{}), ""))
		writeMetrics(b, "tolerance", toleranceKeys(), func(key string) string {
			text := "`" + defaultRelative(key).String() + "`"
			if _, gated := value[key]; gated {
				text += ", in the default list"
			}
			return text
		})
	default:
		if f.of.Kind() == reflect.Struct {
			writeTable(b, rows(v, ""))
		}
	}
}

func writeMetrics(b *strings.Builder, what string, keys []string, say func(string) string) {
	fmt.Fprintf(b, "\n| metric | %s |\n|---|---|\n", what)
	for _, key := range keys {
		fmt.Fprintf(b, "| `%s` | %s |\n", key, say(key))
	}
}

// row is one key of a table.
type row struct{ key, write, standard, doc string }

func writeTable(b *strings.Builder, rows []row) {
	b.WriteString("\n| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", r.key, r.write, r.standard, strings.ReplaceAll(r.doc, "|", "\\|"))
	}
}

// rows lists the keys under a struct, nested ones by their path.
func rows(v reflect.Value, prefix string) []row {
	var list []row
	for _, f := range fieldsOf(v.Type()) {
		path, of, value := join(prefix, f.name), f.of, v.Field(f.index)
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
			value = reflect.New(of).Elem()
		}
		if of.Kind() == reflect.Struct {
			list = append(list, row{path, "section", "", f.doc})
			list = append(list, rows(value, path)...)
			continue
		}
		list = append(list, row{path, writeOf(of, f.enum), standardOf(value), f.doc})
	}
	return list
}

// writeOf says what a key takes.
func writeOf(t reflect.Type, enum string) string {
	if enum != "" {
		return "`" + strings.ReplaceAll(enum, "|", "`, `") + "`"
	}
	if word, ok := reflect.TypeAssert[scalar](reflect.New(t)); ok {
		_, name, _ := strings.Cut(word.form().name, " ")
		return name
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of text"
	case reflect.Map:
		return "names with text"
	default:
		return strings.TrimPrefix(plainKind(reflect.New(t).Elem()), "a ")
	}
}

// standardOf prints a default; empty for none.
func standardOf(v reflect.Value) string {
	if word, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
		return "`" + word.String() + "`"
	}
	if v.IsZero() && v.Kind() != reflect.Int && v.Kind() != reflect.Bool {
		return ""
	}
	return fmt.Sprintf("`%v`", v.Interface())
}

// exampleOf is a plausible limit on a metric.
func exampleOf(key string) string {
	switch {
	case unitOf(key) == unitMS:
		return "800ms"
	case key == errorRate:
		return "0.1%"
	case unitOf(key) == unitFraction:
		return "99%"
	default:
		return "40/s"
	}
}
