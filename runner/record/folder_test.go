package record

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// copyOf is a run folder that a test may spoil.
func copyOf(t *testing.T, golden string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), golden)
	must(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", golden))))
	return dir
}

// edit replaces text in a file of a folder.
func edit(t *testing.T, dir, name, before, after string) {
	t.Helper()
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	must(t, err)
	if !strings.Contains(string(text), before) {
		t.Fatalf("%s does not hold %q", name, before)
	}
	must(t, os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), filePerm))
}

func TestOpenIsStrictAboutMeaning(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, want string }{
		"newer schema":    {`"schema": 1`, `"rounds": "elsewhere", "schema": 7`, "schema 7 is newer than the 1 this tailgate reads"},
		"no schema":       {`"schema": 1`, `"scheme": 1`, "schema 0"},
		"id":              {`"id": "2026`, `"id": "../2026`, "id "},
		"kind":            {`"kind": "revisions"`, `"kind": "guess"`, `kind "guess"`},
		"status":          {`"status": "complete"`, `"status": "fine"`, `status "fine"`},
		"arm":             {`"arm": "base"`, `"arm": "third"`, `arm "third"`},
		"declared arm":    {"\"order\": [\n   \"", "\"order\": [\n   \"x", "declared.order[0]"},
		"state":           {`"state": "complete"`, `"state": "perfect"`, `state "perfect"`},
		"outcome":         {`"ok": 24`, `"okay": 24`, `class "okay"`},
		"negative count":  {`"ok": 24`, `"ok": -24`, "-24 requests"},
		"slot twice":      {`"slot": 1`, `"slot": 0`, "slot 0 is there twice"},
		"negative slot":   {`"slot": 1`, `"slot": -1`, "no such slot"},
		"negative calls":  {`"slot": 1`, `"reset": {"tries": -1, "outcome": "failed", "hit_rate": {"value": null}, "possible_share": {"value": null}}, "slot": 1`, "a cache reset of -1 calls"},
		"odd status":      {`"slot": 1`, `"reset": {"tries": 1, "status": 1000, "outcome": "failed", "hit_rate": {"value": null}, "possible_share": {"value": null}}, "slot": 1`, "status 1000"},
		"negative life":   {`"slot": 1`, `"slice": {"life": -1, "idle_open": 0}, "slot": 1`, "start -1 of the servers"},
		"negative open":   {`"slot": 1`, `"slice": {"life": 1, "idle_open": -2}, "slot": 1`, "-2 requests open"},
		"interval":        {`"m1": 2040`, `"m1": 1040`, "the measured interval"},
		"long interval":   {`"m1": 2040`, `"m1": 999992040`, "the measured interval"},
		"not a number":    {`"level": 0.023`, `"level": 1e999`, "1e999"},
		"negative metric": {`"n": 24`, `"n": -24`, "metric"},
		"not JSON":        {`"schema": 1,`, `"schema": 1`, "run.json"},
		"deep":            {`"notes": [`, `"notes": [` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + ",", "nested"},
		"long text":       {`"command": "`, `"command": "` + strings.Repeat("x", maxText), "a text of"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, "small")
			edit(t, dir, runFile, tt.before, tt.after)
			f, err := Open(dir)
			if err == nil {
				must(t, f.Close())
				t.Fatal("it was read")
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), runFile) {
				t.Errorf("error %q does not name %q", err, tt.want)
			}
		})
	}
}

func TestOpenIsLenientAboutGrowth(t *testing.T) {
	dir := copyOf(t, "small")
	edit(t, dir, runFile, `"schema": 1,`, `"schema": 1, "future": {"deep": [[[1]]]},`)
	edit(t, dir, "rounds/00-base/samples.jsonl", `{"v":1,`, `{"v":1,"future":[{}],`)
	f := open(t, dir)
	samples, err := collect(f.Samples(0))
	must(t, err)
	if len(samples) != 24 {
		t.Errorf("%d samples, want 24", len(samples))
	}
}

func TestOpenWithoutARun(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "none")} {
		if _, err := Open(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want fs.ErrNotExist", err)
		}
	}
	f := open(t, filepath.Join("testdata", "small"))
	if _, err := collect(f.Samples(9)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a slot that is not there: %v", err)
	}
	if _, err := f.Round(9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a round that is not there: %v", err)
	}
}

// A folder from a pull request must not make us read the runner's files, or wait for ever.
func TestNothingLeadsOutside(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.jsonl")
	must(t, os.WriteFile(secret, []byte("{\"v\":1}\n"), filePerm))
	for name, plant := range map[string]func(t *testing.T, path string){
		"link to a file":   func(t *testing.T, path string) { t.Helper(); must(t, os.Symlink(secret, path)) },
		"link upwards":     func(t *testing.T, path string) { t.Helper(); must(t, os.Symlink("../../../../../../etc/passwd", path)) },
		"link to a device": func(t *testing.T, path string) { t.Helper(); must(t, os.Symlink("/dev/zero", path)) },
		"pipe":             func(t *testing.T, path string) { t.Helper(); must(t, syscall.Mkfifo(path, 0o600)) },
		"folder":           func(t *testing.T, path string) { t.Helper(); must(t, os.Mkdir(path, dirPerm)) },
	} {
		for _, file := range []string{samplesFile, eventsFile, windowsFile} {
			t.Run(name+" as "+file, func(t *testing.T) {
				dir := copyOf(t, "small")
				path := filepath.Join(dir, "rounds", "00-base", file)
				must(t, os.Remove(path))
				plant(t, path)
				f := open(t, dir)
				_, a := collect(f.Samples(0))
				_, b := collect(f.Streams(0))
				_, c := collect(f.Windows(0))
				if err := errors.Join(a, b, c); err == nil {
					t.Error("it was read")
				}
			})
		}
	}
	dir := copyOf(t, "small")
	must(t, os.Rename(filepath.Join(dir, "rounds"), filepath.Join(dir, "..", "elsewhere")))
	must(t, os.Symlink("../elsewhere", filepath.Join(dir, "rounds")))
	if _, err := collect(open(t, dir).Samples(0)); err == nil {
		t.Error("a linked folder was read")
	}
}

func TestHalfALineIsSkippedAndNoted(t *testing.T) {
	for _, file := range []string{samplesFile, windowsFile} {
		dir := copyOf(t, "small")
		path := filepath.Join(dir, "rounds", "01-head", file)
		text, err := os.ReadFile(path)
		must(t, err)
		whole := bytes.Count(text, []byte("\n"))
		// Cut at every length within the last line, also just before its end.
		last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
		for _, size := range []int{last, last + 1, (last + len(text)) / 2, len(text) - 1, len(text)} {
			must(t, os.WriteFile(path, text[:size], filePerm))
			f := open(t, dir)
			samples, err := collect(f.Samples(1))
			must(t, err)
			windows, err := collect(f.Windows(1))
			must(t, err)
			got, want, cut := map[string]int{samplesFile: len(samples), windowsFile: len(windows)}[file], whole-1, 1
			if size == len(text) {
				want++
			}
			if size == last || size == len(text) {
				cut = 0
			}
			if got != want || len(f.Cut()) != cut {
				t.Errorf("%s cut to %d bytes: %d lines, want %d; cut files %v", file, size, got, want, f.Cut())
			}
		}
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	for name, tt := range map[string]struct{ before, after, want string }{
		"newer":    {`{"v":1,"seq":1,`, `{"v":2,"seq":1,`, "sample version 2 is newer than the 1"},
		"class":    {`"class":"ok"`, `"class":"fine"`, `class "fine"`},
		"phase":    {`"phase":"measure"`, `"phase":"later"`, `phase "later"`},
		"instant":  {`"sched":2`, `"sched":-2`, "an instant of"},
		"count":    {`"n_out":`, `"n_out":-`, "a count of"},
		"fraction": {`"n_out":`, `"n_out":0.`, "n_out"},
		"text":     {`"id":"`, `"id":"` + strings.Repeat("x", maxText), "a text of"},
		"JSON":     {`"class":"ok"`, `"class":ok`, "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, "small")
			edit(t, dir, "rounds/00-base/samples.jsonl", tt.before, tt.after)
			samples, n := 0, 0
			var last error
			for _, err := range open(t, dir).Samples(0) {
				n++
				if last = err; err == nil {
					samples++
				}
			}
			if last == nil || !strings.Contains(last.Error(), tt.want) || !strings.Contains(last.Error(), "samples.jsonl: line ") {
				t.Errorf("error %v does not name the file, the line and %q", last, tt.want)
			}
			if n != samples+1 {
				t.Errorf("%d rows after the error", n-samples-1)
			}
		})
	}
}

func TestStreamsThatCannotBe(t *testing.T) {
	for name, line := range map[string]string{
		"counts":    `{"seq":1,"t":[0,1],"n":[1]}`,
		"reads":     `{"seq":1,"t":[0,1],"r":[1,1,1]}`,
		"backwards": `{"seq":1,"t":[0,-1]}`,
		"far":       `{"seq":1,"t":[0,9223372036854775807,9223372036854775807]}`,
		"too long":  `{"seq":1,"t":[0,50000000000000,50000000000000]}`,
		"tokens":    `{"seq":1,"t":[0],"n":[-1]}`,
		"seq":       `{"seq":-1,"t":[0]}`,
	} {
		dir := copyOf(t, "small")
		writeGzip(t, filepath.Join(dir, "rounds", "00-base", eventsFile), line+"\n")
		if _, err := collect(open(t, dir).Streams(0)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func writeGzip(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	must(t, err)
	must(t, z.Close())
	must(t, os.WriteFile(path, b.Bytes(), filePerm))
}

// An archive of 16 kB that unpacks to one line of 17 MiB is refused without being held in memory.
func TestLongLinesAreRefused(t *testing.T) {
	dir := copyOf(t, "small")
	writeGzip(t, filepath.Join(dir, "rounds", "00-base", eventsFile), strings.Repeat(" ", maxLine+1<<20)+"\n")
	if _, err := collect(open(t, dir).Streams(0)); !errors.Is(err, errLong) {
		t.Errorf("error %v, want a line too long", err)
	}
}

func TestCappedReaderDoesNotFeignTheEnd(t *testing.T) {
	got, err := io.ReadAll(&capped{strings.NewReader("0123456789"), 4})
	if string(got) != "0123" || !errors.Is(err, errUnpacked) {
		t.Errorf("read %q, %v", got, err)
	}
	got, err = io.ReadAll(&capped{strings.NewReader("0123"), 5})
	if string(got) != "0123" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
}

func TestIndexSizesAreBounded(t *testing.T) {
	many := `{"notes": [` + strings.Repeat(`{},`, maxElements/2) + `{}]}`
	if _, err := readIndex(strings.NewReader(many)); err == nil || !strings.Contains(err.Error(), "elements") {
		t.Errorf("many elements: %v", err)
	}
	if _, err := readIndex(io.MultiReader(strings.NewReader(`{"id":"`), &repeating{maxIndexBytes})); err == nil || !strings.Contains(err.Error(), "MiB") {
		t.Errorf("a large file: %v", err)
	}
}

// repeating yields n bytes of x.
type repeating struct{ left int }

func (r *repeating) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), r.left)
	r.left -= n
	return copy(p, bytes.Repeat([]byte("x"), n)), nil
}

// An iterator that is left early stays quiet, whatever comes later in the file.
func TestIterationMayStop(t *testing.T) {
	dir := copyOf(t, "small")
	f := open(t, dir)
	edit(t, dir, "rounds/00-base/samples.jsonl", `"seq":5,`, `"seq":oops,`)
	n := 0
	for _, err := range f.Samples(0) {
		must(t, err)
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	for name, tt := range map[string]struct{ file, before, after, field string }{
		"a latency":     {"rounds/01-head/samples.jsonl", `"first":11`, `"first":12`, "metrics.ttft_p50"},
		"an outcome":    {"rounds/01-head/samples.jsonl", `"class":"ok"`, `"class":"timeout"`, "counts.classes.ok"},
		"a phase":       {"rounds/01-head/samples.jsonl", `"phase":"measure"`, `"phase":"tail"`, "counts.scheduled"},
		"a token count": {"rounds/01-head/samples.jsonl", `"n_out":`, `"n_out":1`, "out_tokens"},
		"round.json":    {"rounds/01-head/round.json", `"unit": "tok/s"`, `"unit": "req/s"`, "round.json"},
		"twice":         {"rounds/01-head/samples.jsonl", `"seq":3,`, `"seq":2,`, "samples.jsonl"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyOf(t, "small")
			edit(t, dir, tt.file, tt.before, tt.after)
			ds, err := Verify(open(t, dir))
			must(t, err)
			var fields []string
			for _, d := range ds {
				fields = append(fields, d.Field)
				if d.Slot != 1 || d.Recorded == d.Recomputed {
					t.Errorf("difference %+v", d)
				}
			}
			if !strings.Contains(strings.Join(fields, " ")+" ", tt.field) {
				t.Errorf("differences in %v, want %s among them", fields, tt.field)
			}
		})
	}
	dir := copyOf(t, "small")
	must(t, os.Remove(filepath.Join(dir, "rounds", "00-base", roundFile)))
	ds, err := Verify(open(t, dir))
	must(t, err)
	if len(ds) != 1 || ds[0].Field != roundFile || ds[0].Recomputed != "missing" {
		t.Errorf("differences %v", ds)
	}
	must(t, os.WriteFile(filepath.Join(dir, "rounds", "00-base", roundFile), []byte("{"), filePerm))
	if _, err := Verify(open(t, dir)); err == nil {
		t.Error("an unreadable round.json is an error, not a difference")
	}
}

// Writing what was read changes nothing: run.json comes back byte for byte.
func TestRunSurvivesRewriting(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "run", runFile))
	must(t, err)
	run, err := readRun(bytes.NewReader(text))
	must(t, err)
	again, err := encode(run)
	must(t, err)
	if !bytes.Equal(text, again) {
		t.Error("run.json changed")
	}
	if run.Epoch.IsZero() || run.Declared.Measure != 400*time.Second {
		t.Errorf("epoch %v, measure %v", run.Epoch, run.Declared.Measure)
	}
	var st Stream
	must(t, json.Unmarshal([]byte(`{"seq":4,"t":[0,1234567,1]}`), &st))
	once, err := json.Marshal(st)
	must(t, err)
	must(t, json.Unmarshal(once, &st))
	twice, err := json.Marshal(st)
	must(t, err)
	if !bytes.Equal(once, twice) {
		t.Errorf("a stream changed: %s, then %s", once, twice)
	}
}
