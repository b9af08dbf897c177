package config

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the generated pages of docs/")

func TestGeneratedPages(t *testing.T) {
	for name, want := range map[string][]byte{"configuration.md": Markdown(), "tailgate.schema.json": Schema()} {
		path := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("docs/%s is stale; run go test ./internal/config -update (-generated +committed):\n%s", name, diff)
		}
	}
}

// TestExampleOfTheManual keeps the page's example a valid file.
func TestExampleOfTheManual(t *testing.T) {
	_, after, _ := strings.Cut(preface, "```yaml\n")
	example, _, _ := strings.Cut(after, "```")
	if err := parse(t, example).Runnable(); err != nil {
		t.Error(err)
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	var walk func(t *testing.T, path string, of reflect.Type)
	walk = func(t *testing.T, path string, of reflect.Type) {
		t.Helper()
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct {
			return
		}
		for _, f := range fieldsOf(of) {
			if !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s: the doc %q is not a sentence", join(path, f.name), f.doc)
			}
			walk(t, join(path, f.name), f.of)
		}
	}
	walk(t, "", reflect.TypeFor[File]())
}

// TestSchemaTakesWhatParseTakes holds the schema's keys and patterns to the decoder's own.
func TestSchemaTakesWhatParseTakes(t *testing.T) {
	var schema struct {
		Properties map[string]struct {
			Properties map[string]struct {
				Pattern string   `json:"pattern"`
				Enum    []string `json:"enum"`
			} `json:"properties"`
			AdditionalProperties any `json:"additionalProperties"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"version"}, schema.Required); diff != "" {
		t.Error(diff)
	}
	if got, want := len(schema.Properties), len(fieldsOf(reflect.TypeFor[File]())); got != want {
		t.Errorf("%d top-level keys, want %d", got, want)
	}
	if schema.Properties["rounds"].AdditionalProperties != false {
		t.Error("rounds takes unknown keys")
	}
	if got := schema.Properties["warmup"].Properties["band"].Pattern; got != percentForm.pattern {
		t.Errorf("warmup.band has pattern %q", got)
	}
	if got := len(schema.Properties["slo"].Properties); got != len(sloKeys()) {
		t.Errorf("%d metrics under slo, want %d", got, len(sloKeys()))
	}
	if diff := cmp.Diff([]string{"required", "optional", "off"}, schema.Properties["telemetry"].Properties["gpu"].Enum); diff != "" {
		t.Error(diff)
	}
}
