package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/tailgate-ci/tailgate/gate/report/export"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const golden = "../../../runner/record/testdata/small"

// files collects what an export writes.
type files map[string]*bytes.Buffer

type closer struct{ *bytes.Buffer }

func (closer) Close() error { return nil }

func (f files) create(name string) (io.WriteCloser, error) {
	f[name] = &bytes.Buffer{}
	return closer{f[name]}, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write exports a run folder in one format.
func write(t *testing.T, dir, name string) (files, *record.Folder) {
	t.Helper()
	folder, err := record.Open(dir)
	must(t, err)
	t.Cleanup(func() { must(t, folder.Close()) })
	out := files{}
	must(t, export.Write(folder, []string{name}, out.create))
	return out, folder
}

func read[T any](t *testing.T, text []byte) T {
	t.Helper()
	var v T
	must(t, json.Unmarshal(text, &v))
	return v
}

// mixed is a copy of the small golden run with failures, hostile texts and an answer that was not streamed among its
// samples; the round's own counts follow.
func mixed(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	must(t, os.CopyFS(dir, os.DirFS(golden)))
	path := filepath.Join(dir, "rounds", "01-head", "samples.jsonl")
	text, err := os.ReadFile(path)
	must(t, err)
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	for line := range bytes.Lines(text) {
		s := read[record.Sample](t, line)
		switch s.Seq {
		case 3:
			s.Class, s.Detail, s.Status = record.HTTP503, "=HYPERLINK(\"http://evil\",\"x\")\r\nbusy", 503
		case 4:
			s.Class, s.Detail = record.Timeout, "total"
		case 5:
			s.ID, s.Flags = "@SUM(A1)", []string{"usage_inconsistent"}
		case 6:
			s.Conv, s.Server = "\t-2+3", record.ServerTimes{Prompt: new(int64(7_000_000)), Load: new(int64(0))}
		case 7:
			s.Phase = record.PhaseWarmup
		}
		must(t, enc.Encode(s))
	}
	must(t, os.WriteFile(path, out.Bytes(), 0o600))
	return dir
}

func TestParse(t *testing.T) {
	got, err := export.Parse("csv, vllm,csv")
	if err != nil || !slices.Equal(got, []string{"csv", "vllm"}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, list := range []string{"", "csv,", "xml", "csv;vllm"} {
		if _, err := export.Parse(list); err == nil || !strings.Contains(err.Error(), "vllm, llmd, requests, csv, parquet, hgrm") {
			t.Errorf("%q: %v does not name the known ones", list, err)
		}
	}
	for _, name := range export.Names() {
		if !strings.Contains(export.About(), "  "+name) {
			t.Errorf("help says nothing of %s", name)
		}
	}
}

// vllmFile is what a reader of vLLM's file looks at.
type vllmFile struct {
	Completed, Failed                   int
	NumPrompts                          int     `json:"num_prompts"`
	Duration                            float64 `json:"duration"`
	In                                  int     `json:"total_input_tokens"`
	Out                                 int     `json:"total_output_tokens"`
	Requests                            float64 `json:"request_throughput"`
	OutputRate                          float64 `json:"output_throughput"`
	TotalRate                           float64 `json:"total_token_throughput"`
	InputLens                           []int   `json:"input_lens"`
	OutputLens                          []int   `json:"output_lens"`
	TTFTs, Latencies                    []float64
	ITLs                                [][]float64
	StartTimes                          []float64 `json:"start_times"`
	Errors                              []string
	TTFTsSchedule                       []float64 `json:"ttfts_from_schedule"`
	LatenciesSchedule                   []float64 `json:"latencies_from_schedule"`
	MedianTTFT, P50, P90, P99, Mean     *float64
	MeanTPOT, StdITL, P50E2EL, MeanE2EL *float64
}

// numpy's default percentile: linear between the two nearest ranks. Written anew, so that the writer is not its own judge.
func linear(xs []float64, p float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	at := p / 100 * float64(len(xs)-1)
	i := int(at)
	if i+1 == len(xs) {
		return xs[i]
	}
	return xs[i]*(1-(at-float64(i))) + xs[i+1]*(at-float64(i))
}

func meanOf(xs []float64) (mean, std float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		std += (x - mean) * (x - mean) / float64(len(xs))
	}
	return mean, math.Sqrt(std)
}

// Every statistic in the file follows from its arrays, over the requests without an error.
func TestVLLMFollowsFromItsArrays(t *testing.T) {
	out, _ := write(t, mixed(t), "vllm")
	for name, wantFailed := range map[string]int{"vllm-base.json": 0, "vllm-head.json": 2} {
		f := read[vllmFile](t, out[name].Bytes())
		statistics := read[map[string]any](t, out[name].Bytes())
		n := len(f.Errors)
		for _, length := range []int{len(f.InputLens), len(f.OutputLens), len(f.TTFTs), len(f.ITLs), len(f.Latencies), len(f.StartTimes), len(f.TTFTsSchedule), len(f.LatenciesSchedule), f.NumPrompts} {
			if length != n {
				t.Fatalf("%s: %d entries, want %d everywhere", name, length, n)
			}
		}
		in, tokens, failed := 0, 0, 0
		ms := map[string][]float64{}
		for i := range n {
			if f.Errors[i] != "" {
				failed++
				if f.TTFTs[i] != 0 || f.Latencies[i] != 0 || len(f.ITLs[i]) != 0 {
					t.Errorf("%s: request %d failed and has latencies", name, i)
				}
				continue
			}
			in, tokens = in+f.InputLens[i], tokens+f.OutputLens[i]
			ms["ttft"] = append(ms["ttft"], 1e3*f.TTFTs[i])
			ms["e2el"] = append(ms["e2el"], 1e3*f.Latencies[i])
			for _, gap := range f.ITLs[i] {
				ms["itl"] = append(ms["itl"], 1e3*gap)
			}
			if f.OutputLens[i] > 1 {
				ms["tpot"] = append(ms["tpot"], 1e3*(f.Latencies[i]-f.TTFTs[i])/float64(f.OutputLens[i]-1))
			}
			if f.TTFTs[i] >= f.TTFTsSchedule[i] || f.LatenciesSchedule[i] <= f.Latencies[i] {
				t.Errorf("%s: request %d: from the schedule it is longer than from the sent request", name, i)
			}
		}
		if f.Failed != failed || failed != wantFailed || f.Completed != n-failed || f.In != in || f.Out != tokens {
			t.Errorf("%s: %+v against %d failed, %d in, %d out", name, f, failed, in, tokens)
		}
		near(t, name+" request_throughput", f.Requests, float64(n-failed)/f.Duration)
		near(t, name+" output_throughput", f.OutputRate, float64(tokens)/f.Duration)
		near(t, name+" total_token_throughput", f.TotalRate, float64(in+tokens)/f.Duration)
		for metric, xs := range ms {
			mean, std := meanOf(xs)
			want := map[string]float64{"mean": mean, "std": std, "median": linear(xs, 50)}
			for _, p := range []int{50, 90, 95, 99} {
				want["p"+strconv.Itoa(p)] = linear(xs, float64(p))
			}
			for statistic, x := range want {
				key := statistic + "_" + metric + "_ms"
				got, present := statistics[key]
				if !present {
					t.Errorf("%s lacks %s", name, key)
				} else if v, ok := got.(float64); ok {
					near(t, name+" "+key, v, x)
				} else if p, tail := strings.CutPrefix(statistic, "p"); !tail || len(xs) >= minimum(p) {
					t.Errorf("%s: %s is null over %d values", name, key, len(xs))
				}
			}
		}
	}
}

func minimum(p string) int { return map[string]int{"50": 11, "90": 64, "95": 130, "99": 662}[p] }

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9*math.Max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// Every report is valid against llm-d's own schema, and says the units that its validator asks for beyond the schema.
func TestLLMDValidates(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/llmd-0.2.1.schema.json")
	must(t, err)
	out, folder := write(t, mixed(t), "llmd")
	if len(out) != 2 {
		t.Fatalf("%d reports, want one per round", len(out))
	}
	for name, text := range out {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text.Bytes()))
		must(t, err)
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	type statistics struct {
		Units          string
		Mean, Min, Max float64
		P50, P99       *float64
	}
	report := read[struct {
		Version string
		Run     struct{ UID, EID string }
		Results struct {
			P struct {
				Aggregate struct {
					Requests struct{ Total, Failures, Incomplete int }
					Latency  map[string]statistics
					Through  map[string]statistics `json:"throughput"`
				}
				Series struct {
					Latency map[string]struct {
						Units  string
						Series []map[string]any
					}
					Through map[string]struct {
						Units  string
						Series []map[string]any
					} `json:"throughput"`
				} `json:"time_series"`
			} `json:"request_performance"`
		}
	}](t, out["llmd-00-base.json"].Bytes())
	a, run := report.Results.P.Aggregate, folder.Run()
	if report.Version != "0.2.1" || report.Run.UID != run.ID+"-00-base" || report.Run.EID != run.ID {
		t.Errorf("version %s, run %+v", report.Version, report.Run)
	}
	units := map[string]string{
		"time_to_first_token": "s", "request_latency": "s", "time_per_output_token": "s/token", "inter_token_latency": "s/token",
		"normalized_time_per_output_token": "s/token", "input_token_rate": "tokens/s", "output_token_rate": "tokens/s",
		"total_token_rate": "tokens/s", "request_rate": "queries/s",
	}
	seen := 0
	for _, group := range []map[string]statistics{a.Latency, a.Through} {
		for key, s := range group {
			seen++
			if s.Units != units[key] || s.Mean <= 0 {
				t.Errorf("%s: %+v", key, s)
			}
		}
	}
	if seen != len(units) {
		t.Errorf("%d statistics, want %d", seen, len(units))
	}
	// The percentiles are the round's own; 24 requests are enough for a median only.
	want, _ := run.Rounds[0].Metrics["ttft_p50"].Get()
	ttft := a.Latency["time_to_first_token"]
	if ttft.P50 == nil || ttft.P99 != nil {
		t.Fatalf("TTFT %+v", ttft)
	}
	near(t, "TTFT p50", *ttft.P50*1e3, want)
	if n := len(report.Results.P.Series.Through["request_rate"].Series); n != 4 {
		t.Errorf("%d seconds, want 4", n)
	}
	if a.Requests.Total != 24 || a.Requests.Failures != 0 || a.Requests.Incomplete != 0 {
		t.Errorf("requests %+v", a.Requests)
	}
}

// The schema test must be able to fail: a key of ours is forbidden.
func TestLLMDSchemaForbidsExtraKeys(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/llmd-0.2.1.schema.json")
	must(t, err)
	out, _ := write(t, golden, "llmd")
	v := read[map[string]any](t, out["llmd-00-base.json"].Bytes())
	v["tailgate"] = "mine"
	if schema.Validate(v) == nil {
		t.Error("an extra key went through")
	}
}

func TestRequestRecords(t *testing.T) {
	out, folder := write(t, mixed(t), "requests")
	lines := strings.Split(strings.TrimRight(out["requests-01-head.jsonl"].String(), "\n"), "\n")
	if len(lines) != 24 {
		t.Fatalf("%d lines, want 24", len(lines))
	}
	type line struct {
		Metadata map[string]any
		Metrics  map[string]struct {
			Value any
			Unit  string
		}
		Error *struct {
			Code          *int
			Type, Message string
		}
	}
	for i, text := range lines {
		l := read[line](t, []byte(text))
		if l.Metadata["session_num"] == nil || l.Metadata["request_start_ns"] == nil {
			t.Fatalf("line %d: %s", i, text)
		}
		switch i {
		case 3:
			if l.Error == nil || *l.Error.Code != 503 || l.Error.Type != "http_503" || !strings.Contains(l.Error.Message, "busy") || l.Metrics["request_latency"].Value != nil {
				t.Errorf("failed request: %s", text)
			}
		case 4:
			if l.Error == nil || l.Error.Code != nil || l.Error.Type != "timeout" {
				t.Errorf("timeout: %s", text)
			}
		case 7:
			if l.Metadata["benchmark_phase"] != "warmup" {
				t.Errorf("warm-up: %s", text)
			}
		default:
			if l.Error != nil || l.Metadata["benchmark_phase"] != "profiling" || l.Metrics["time_to_first_token"].Unit != "ms" {
				t.Errorf("line %d: %s", i, text)
			}
			ttft, due := l.Metrics["time_to_first_token"].Value.(float64), l.Metrics["ttft_from_schedule"].Value.(float64)
			if ttft <= 0 || ttft >= due {
				t.Errorf("line %d: TTFT %v from the request, %v from the schedule", i, ttft, due)
			}
			start, end := l.Metadata["request_start_ns"].(float64), l.Metadata["request_end_ns"].(float64)
			near(t, "latency", l.Metrics["request_latency"].Value.(float64)/1e3, (end-start)/1e9+rounding(end-start, l.Metrics["request_latency"].Value.(float64)))
			if start < float64(folder.Run().Epoch.UnixNano()) {
				t.Errorf("line %d starts before the run", i)
			}
		}
	}
	if out["requests-01-head.jsonl"].String() == out["requests-00-base.jsonl"].String() {
		t.Error("both rounds have the same records")
	}
}

// rounding is what a float64 of ns since 1970 loses; the test's reader has nothing finer.
func rounding(spanNS, ms float64) float64 {
	if d := ms/1e3 - spanNS/1e9; math.Abs(d) < 1e-6 {
		return d
	}
	return 0
}

// One row per request, with the documented head; no cell of foreign text can be taken for a formula.
func TestCSV(t *testing.T) {
	out, _ := write(t, mixed(t), "csv")
	rows, err := csv.NewReader(bytes.NewReader(out["requests.csv"].Bytes())).ReadAll()
	must(t, err)
	if diff := cmp.Diff(export.Columns(), rows[0]); diff != "" {
		t.Error(diff)
	}
	if len(rows) != 1+48 {
		t.Errorf("%d rows, want 48 and the head", len(rows))
	}
	col := func(name string) int { return slices.Index(rows[0], name) }
	for _, r := range rows[1:] {
		for i, cell := range r {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r\n") {
				t.Errorf("column %s: %q begins like a formula", rows[0][i], cell)
			}
		}
	}
	failed := rows[1+24+3]
	if failed[col("class")] != "http_503" || failed[col("ttft_ms")] != "" || failed[col("detail")] != `'=HYPERLINK("http://evil","x")  busy` || failed[col("status")] != "503" {
		t.Errorf("failed request %q", failed)
	}
	if got := rows[1+24+6]; got[col("server_load_ns")] != "0" || got[col("server_queue_ns")] != "" || got[col("conv")] != "' -2+3" {
		t.Errorf("a time of 0 and a missing one must differ: %q", got)
	}
	if got := rows[1+24+7]; got[col("counted")] != "false" || got[col("phase")] != "warmup" {
		t.Errorf("warm-up %q", got)
	}
}

// What parquet-go reads back is what the CSV says, cell by cell, but for the defused texts.
func TestParquetHoldsTheSameRows(t *testing.T) {
	dir := mixed(t)
	table, _ := write(t, dir, "csv")
	out, _ := write(t, dir, "parquet")
	rows, err := csv.NewReader(bytes.NewReader(table["requests.csv"].Bytes())).ReadAll()
	must(t, err)
	text := out["requests.parquet"].Bytes()
	file, err := parquet.OpenFile(bytes.NewReader(text), int64(len(text)))
	must(t, err)
	if file.NumRows() != int64(len(rows)-1) {
		t.Fatalf("%d rows, want %d", file.NumRows(), len(rows)-1)
	}
	reader := parquet.NewReader(file)
	defer reader.Close()
	for n := 1; ; n++ {
		got := map[string]any{}
		err := reader.Read(&got)
		if errors.Is(err, io.EOF) {
			if n != len(rows) {
				t.Errorf("ended after %d rows", n-1)
			}
			return
		}
		must(t, err)
		for i, name := range rows[0] {
			cell, want := "", rows[n][i]
			switch v := got[name].(type) {
			case nil:
			case string:
				cell = v
			case []byte:
				cell = string(v)
			case int64:
				cell = strconv.FormatInt(v, 10)
			case bool:
				cell = strconv.FormatBool(v)
			case float64:
				cell = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				t.Fatalf("%s is a %T", name, v)
			}
			if cell != want && !strings.HasPrefix(want, "'") {
				t.Errorf("row %d, %s: %q, CSV has %q", n, name, cell, want)
			}
		}
	}
}

// A percentile log's maximum and count are those of the round's successes, and its median the round's within 0.1 %.
func TestPercentileLogs(t *testing.T) {
	out, folder := write(t, golden, "hgrm")
	for _, latency := range []string{"ttft", "e2e", "tpot", "itl", "icl"} {
		text, ok := out["hgrm/00-base-"+latency+".hgrm"]
		if !ok {
			t.Errorf("no log of %s", latency)
			continue
		}
		m := folder.Run().Rounds[0].Metrics[latency+"_p50"]
		want, _ := m.Get()
		if !strings.Contains(text.String(), "Total count    = "+strings.Repeat(" ", 12-len(strconv.Itoa(m.N)))+strconv.Itoa(m.N)+"]") {
			t.Errorf("%s: not of %d values:\n%s", latency, m.N, text)
		}
		median := math.NaN()
		for line := range strings.Lines(text.String()) {
			f := strings.Fields(line)
			if len(f) == 4 && f[1] == "0.500000" {
				median, _ = strconv.ParseFloat(f[0], 64)
			}
		}
		if !(math.Abs(median-want) <= 0.002*want) {
			t.Errorf("%s: median %v in the log, %v in the round", latency, median, want)
		}
	}
}

// A run without its samples, and one that measured nothing, cannot be exported; the error says what is missing.
func TestWhatCannotBeExported(t *testing.T) {
	for dir, want := range map[string]string{"../../../runner/record/testdata/run": "samples"} {
		folder, err := record.Open(dir)
		must(t, err)
		for _, name := range export.Names() {
			if err := export.Write(folder, []string{name}, files{}.create); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: %v", name, dir, err)
			}
		}
		must(t, folder.Close())
	}
	dir := filepath.Join(t.TempDir(), "run")
	must(t, os.CopyFS(dir, os.DirFS(golden)))
	path := filepath.Join(dir, "run.json")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte(`"state": "complete"`), []byte(`"state": "partial"`)), 0o600))
	folder, err := record.Open(dir)
	must(t, err)
	defer folder.Close()
	if err := export.Write(folder, []string{"csv"}, files{}.create); err == nil || !strings.Contains(err.Error(), "measured whole") {
		t.Errorf("a run without a whole round: %v", err)
	}
}

// An error of the disk reaches the caller, and a file that cannot be made is no panic.
func TestDiskErrors(t *testing.T) {
	folder, err := record.Open(golden)
	must(t, err)
	defer folder.Close()
	full := errors.New("disk full")
	for _, name := range export.Names() {
		err := export.Write(folder, []string{name}, func(string) (io.WriteCloser, error) { return nil, full })
		if !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		err = export.Write(folder, []string{name}, func(string) (io.WriteCloser, error) { return broken{full}, nil })
		if !errors.Is(err, full) {
			t.Errorf("%s on a broken disk: %v", name, err)
		}
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
func (b broken) Close() error              { return nil }

// The same run gives the same bytes, in every format.
func TestExportsArePure(t *testing.T) {
	for _, name := range export.Names() {
		a, _ := write(t, golden, name)
		b, _ := write(t, golden, name)
		for file, text := range a {
			if !bytes.Equal(text.Bytes(), b[file].Bytes()) {
				t.Errorf("%s differs from one export to the next", file)
			}
		}
	}
}

// The page lists the columns as they are.
func TestColumnsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/files.md")
	must(t, err)
	_, list, _ := strings.Cut(string(page), "The columns of `csv` and `parquet`:\n\n```\n")
	list, _, _ = strings.Cut(list, "```")
	if diff := cmp.Diff(export.Columns(), strings.Fields(list)); diff != "" {
		t.Errorf("docs/files.md (-code +page):\n%s", diff)
	}
}
