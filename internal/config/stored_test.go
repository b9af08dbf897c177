package config

import (
	"strings"
	"testing"
)

// starred hides the values of A_KEY in any section, and the word hunter2 wherever it stands.
func starred(path, text string) string {
	if strings.HasSuffix(path, ".A_KEY") {
		return "***"
	}
	return strings.ReplaceAll(text, "hunter2", "***")
}

func TestStoredKeepsTheForm(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing to hide": {"version: 1   \n# ours\nworkload:  'w'", "version: 1   \n# ours\nworkload:  'w'"},
		"plain":           {"version: 1\ntarget:\n  env:\n    A_KEY: x  # why\n    B: y\n", "version: 1\ntarget:\n  env:\n    A_KEY: \"***\"  # why\n    B: y\n"},
		"quoted":          {"target: {env: {A_KEY: 'it''s', \"B\": \"y\"}}\n", "target: {env: {A_KEY: \"***\", \"B\": \"y\"}}\n"},
		"a number":        {"target: {env: {A_KEY: 123456}}\n", "target: {env: {A_KEY: \"***\"}}\n"},
		"a truth":         {"target:\n  env:\n    A_KEY: true\n    B: 1\n", "target:\n  env:\n    A_KEY: \"***\"\n    B: 1\n"},
		"a part":          {"target:\n  start: serve --key hunter2 --port $PORT\n", "target:\n  start: \"serve --key *** --port $PORT\"\n"},
		"at the start":    {"target:\n  start: hunter2\n  build: make\n", "target:\n  start: \"***\"\n  build: make\n"},
		"a comment":       {"# the key is hunter2\nversion: 1 # hunter2\n", "# the key is ***\nversion: 1 # ***\n"},
		"a list":          {"arms:\n  head:\n    args: [--key, hunter2]\n  base:\n    args:\n    - --key=hunter2\n    - b\n", "arms:\n  head:\n    args: [--key, \"***\"]\n  base:\n    args:\n    - \"--key=***\"\n    - b\n"},
		"a block":         {"target:\n  env:\n    A_KEY: |\n      one\n      two\n    B: y\n", "target:\n  env:\n    A_KEY: \"***\"\n    B: y\n"},
		"a block, part":   {"target:\n  start: |\n    export K=hunter2\n\n    exec serve\n  build: make\n", "target:\n  start: \"export K=***\\n\\nexec serve\\n\"\n  build: make\n"},
		"a folded block":  {"target:\n  start: >-\n    a\n    hunter2\nversion: 1\n", "target:\n  start: \"a ***\"\nversion: 1\n"},
		"a block at last": {"target:\n  start: |\n    hunter2", "target:\n  start: \"***\"\n"},
		"over two lines":  {"target:\n  env:\n    A_KEY: one\n      two\n    B: \"y\n      z\"\n", "target:\n  env:\n    A_KEY: \"***\"\n    B: \"y\n      z\"\n"},
		"in two quotes":   {"target:\n  start: \"a\n    hunter2\"\nversion: 1\n", "target:\n  start: \"a ***\"\nversion: 1\n"},
		"no value":        {"target:\n  env:\n    A_KEY:\n    B: hunter2\n", "target:\n  env:\n    A_KEY:\n    B: \"***\"\n"},
		"an escape":       {"target: {start: \"\\x68unter2\\tü\"}\n", "target: {start: \"***\\tü\"}\n"},
		"a document mark": {"---\nversion: 1\ntarget: {start: hunter2}\n", "---\nversion: 1\ntarget: {start: \"***\"}\n"},
		"no ASCII":        {"target:\n  build: 'größe'\n  start: ü hunter2 ß\n", "target:\n  build: 'größe'\n  start: \"ü *** ß\"\n"},
	} {
		got, err := Stored("p.yaml", []byte(c.text), starred)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", name, err, got, c.want)
		}
	}
}

func TestStoredSaysWhatItCannot(t *testing.T) {
	_, err := Stored("p.yaml", []byte("a: [b\n"), starred)
	if err == nil || !strings.HasPrefix(err.Error(), "p.yaml:") {
		t.Errorf("no YAML: %v", err)
	}
}

// What Stored returns says what it was asked to say, or it is an error.
func FuzzStored(f *testing.F) {
	for _, text := range []string{
		policy, "version: 1\ntarget:\n  env: {A_KEY: x}\n  start: |\n    hunter2\n", "a: >\n\n  hunter2\n\n\nb: ''\n", "a:\r\n  b: hunter2\r\n",
		"a: | # hunter2\n  hunter2\nb: 'x\n\n  hunter2'\n", "? a\n: hunter2\n", "- hunter2\n-  - hunter2\n", "\ufeffa: hunter2\n", "a: |2\n   hunter2\n", "hunter2: x\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := Stored("p.yaml", []byte(text), starred)
		if err != nil {
			return
		}
		before, after := leaves(t, text), leaves(t, string(out))
		for i := range before {
			path, value, _ := strings.Cut(before[i], "\x00")
			if want := path + "\x00" + starred(path, value); i >= len(after) || after[i] != want {
				t.Fatalf("%q became %q: value %d is not %q", text, out, i, want)
			}
		}
		if len(before) != len(after) {
			t.Errorf("%q became %q: %d values, then %d", text, out, len(before), len(after))
		}
		if again, err := Stored("p.yaml", out, starred); err != nil || string(again) != string(out) {
			t.Errorf("%q became %q, and then %q, %v", text, out, again, err)
		}
	})
}

// leaves lists paths and values.
func leaves(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	_, err := Stored("p.yaml", []byte(text), func(path, value string) string {
		if path != "" {
			list = append(list, path+"\x00"+value)
		}
		return value
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
