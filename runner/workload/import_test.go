package workload

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func importText(kind, text string, o Options) (*Workload, error) {
	if o.Name == "" {
		o.Name = "t"
	}
	return Import(kind, Input{Name: "trace." + kind, Data: strings.NewReader(text)}, o)
}

// line is a good row of a Mooncake trace.
func line(at, in, out int, ids ...int) string {
	return fmt.Sprintf(`{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":%s}`+"\n", at, in, out,
		strings.ReplaceAll(fmt.Sprint(ids), " ", ","))
}

func TestMooncakeTraps(t *testing.T) {
	good := line(0, 600, 5, 0, 1)
	for name, c := range map[string]struct{ text, want string }{
		// A row with 20 tokens and 2 blocks of 512.
		"blocks":      {good + line(1, 20, 5, 0, 1), "trace.mooncake:2: hash_ids: 2 blocks of 512 for 20 tokens, want 1"},
		"no stamp":    {`{"input_length":1,"output_length":1,"hash_ids":[1]}`, ":1: timestamp: missing"},
		"no ids":      {`{"timestamp":1,"input_length":1,"output_length":1}`, ":1: hash_ids: missing"},
		"no input":    {`{"timestamp":1,"output_length":1,"hash_ids":[1]}`, ":1: input_length: want 1"},
		"no output":   {`{"timestamp":1,"input_length":1,"hash_ids":[1]}`, ":1: output_length: want 1"},
		"zero output": {line(0, 1, 0, 1), ":1: output_length: want 1"},
		"negative":    {line(-1, 1, 1, 1), ":1: timestamp: -1 ms is out of range"},
		"unknown key": {`{"timestamp":1,"input_len":1}`, `:1: unknown field "input_len"`},
		"not JSON":    {good + "timestamp,1\n", ":2: invalid character"},
		"empty":       {"", "there is no row"},
		"text in a session": {
			`{"timestamp":1,"input_length":1,"output_length":1,"hash_ids":[1],"session_id":"a","text_input":"x"}`,
			":1: session_id: a session with text",
		},
	} {
		_, err := importText("mooncake", c.text, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestMooncakeSessions(t *testing.T) {
	w, err := importText("mooncake", line(0, 600, 5, 0, 9)+
		`{"timestamp":10,"input_length":5,"output_length":2,"hash_ids":[3],"session_id":"a"}`+"\n"+
		`{"input_length":9,"output_length":2,"hash_ids":[3],"session_id":"a","delay":1500}`+"\n"+
		`{"timestamp":4000,"input_length":9,"output_length":2,"hash_ids":["x\"y"],"session_id":"a"}`+"\n", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := w.Manifest.Counts; c.Turns != 4 || c.Conversations != 2 {
		t.Errorf("counts %+v, want 4 turns in 2 conversations", c)
	}
	second, third := w.Turns[2], w.Turns[3]
	if second.N != 2 || second.Delay != 1500*ms || second.At != 0 || len(second.After) != 1 || second.After[0] != w.Turns[1].ID {
		t.Errorf("second turn %+v", second)
	}
	// Only the start of the third is known: it keeps its place and waits for its predecessor if that ends later.
	if third.At != 4*time.Second || third.Delay != 0 || third.After[0] != second.ID || third.Group != second.Group {
		t.Errorf("third turn %+v", third)
	}
}

func TestAzureTraps(t *testing.T) {
	const head = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
	for name, c := range map[string]struct{ text, want string }{
		"no column":  {"TIMESTAMP,ContextTokens\n", "trace.azure-csv:1: the header has no column GeneratedTokens"},
		"empty":      {"", ":1: no header"},
		"zone":       {head + "2023-11-16 18:15:46.6805900Z,3,4\r\n", ":2: TIMESTAMP:"},
		"zero":       {head + "2023-11-16 18:15:46.6805900,3,0\r\n", ":2: GeneratedTokens:"},
		"float":      {head + "2023-11-16 18:15:46.6805900,3.5,1\r\n", ":2: ContextTokens:"},
		"few fields": {head + "2023-11-16 18:15:46.6805900,3,1\r\n2023-11-16 18:15:47,3", ":3: wrong number of fields"},
		"no row":     {head, "there is no row"},
	} {
		_, err := importText("azure-csv", c.text, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	w, err := importText("azure-csv", "ContextTokens,TIMESTAMP,x,GeneratedTokens\r\n600,2023-11-16 18:15:46.6805901,,7\r\n"+
		"3,2023-11-16 18:15:46.6805900,,4", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if first, second := w.Turns[0], w.Turns[1]; first.InTokens != 3 || second.At != 100 || len(second.HashIDs) != 2 {
		t.Errorf("columns by name, no final newline, 100 ns: %+v, %+v", first, second)
	}
}

func TestBadRows(t *testing.T) {
	text := line(0, 10, 1, 1) + "bad\n" + line(1, 10, 1, 2) + "worse\n" + line(2, 10, 1, 3)
	w, err := importText("mooncake", text, Options{MaxBad: 2})
	if err != nil {
		t.Fatal(err)
	}
	if c := w.Manifest.Counts; c.Turns != 3 || c.Excluded["bad_row"] != 2 {
		t.Errorf("counts %+v", c)
	}
	_, err = importText("mooncake", text, Options{MaxBad: 1})
	if e, ok := errors.AsType[*Error](err); !ok || e.Line != 4 {
		t.Errorf("%v, want an error in line 4", err)
	}
	if _, err := importText("azure-csv", "TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\n2023-11-16 18:15:46,1,1\n",
		Options{MaxBad: 1}); err != nil {
		t.Errorf("one bad row of one allowed: %v", err)
	}
}

func TestShuffledTrace(t *testing.T) {
	text := line(0, 10, 1, 1) + line(9, 10, 1, 2) + line(5, 10, 1, 3) + line(7, 10, 1, 4) + line(9, 10, 1, 5)
	w, err := importText("mooncake", text, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(w, "rows out of order"); !strings.HasPrefix(got, "2 rows") {
		t.Errorf("fidelity says %q, want 2 rows", got)
	}
	_, err = importText("mooncake", text, Options{StrictOrder: true})
	if e, ok := errors.AsType[*Error](err); !ok || e.Line != 3 {
		t.Errorf("%v, want an error in line 3", err)
	}
}

func reasonOf(w *Workload, measure string) string {
	for _, r := range w.Fidelity() {
		if r.Measure == measure {
			return r.Reason
		}
	}
	return ""
}

// W-02: 50 prompts, two longer than the limit: they are named, and the counts still add up.
func TestOverlongPromptsAreNamed(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= 50; i++ {
		n := 500
		if i == 17 || i == 43 {
			n = 510
		}
		b.WriteString(line(i*100, n, 20, i))
	}
	w, err := importText("mooncake", b.String(), Options{MaxInput: 505})
	if err != nil {
		t.Fatal(err)
	}
	if c := w.Manifest.Counts; c.Turns != 48 || c.Excluded["max_input"] != 2 {
		t.Errorf("counts %+v", c)
	}
	reason := reasonOf(w, "excluded: max_input")
	if !strings.Contains(reason, "2 of 50 rows") || !strings.Contains(reason, "4.1 % of the input tokens") ||
		!strings.HasSuffix(reason, "lines 17, 43") {
		t.Errorf("fidelity says %q", reason)
	}
}

func TestImportRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		kind string
		o    Options
		want string
	}{
		"kind":        {"csv", Options{}, "there are mooncake, azure-csv"},
		"share":       {"mooncake", Options{Sample: "1.5"}, "out of range"},
		"share zero":  {"mooncake", Options{Sample: "0"}, "out of range"},
		"float share": {"mooncake", Options{Sample: "1e-1"}, "is not a decimal"},
		"sample by":   {"mooncake", Options{SampleBy: "turn"}, "want conversation or requests"},
		"dequantise":  {"mooncake", Options{Dequantise: "yes"}, "want uniform"},
		"both":        {"mooncake", Options{Stretch: "2", Poisson: "3"}, "exclude each other"},
		"nothing":     {"mooncake", Options{From: time.Hour}, "no row of"},
		"negative":    {"mooncake", Options{MaxInput: -1}, "cannot be negative"},
	} {
		_, err := importText(c.kind, line(0, 10, 1, 1)+line(5, 10, 1, 1), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := ImportFile("mooncake", "absent.jsonl", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}
