package selftest

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

// measured is a result of a row on two cores, with one number for everything.
func measured(x float64, change func(*Result)) Result {
	r := blank()
	r.Cores, r.Sent, r.SeenByServer, r.Measured, r.OK = small, 100, 100, 90, 90
	r.ClientCPU, r.ServerCPU, r.Seconds = of(x), of(x), of(5)
	r.OtherCPU = of(x / 4)
	change(&r)
	return r
}

func streamed(x float64) func(*Result) {
	return func(r *Result) {
		r.TTFTError, r.GapError = Spread{of(x), of(x), of(x), of(x)}, Spread{of(x), of(x), of(x), of(x)}
		r.Gaps, r.TruthGaps = Gaps{of(x), of(x), of(x), of(x)}, Gaps{of(x), of(x), of(x), of(x)}
		r.PacerLag = Lag{of(x), of(x), of(x)}
		r.EventsPerS, r.EventsPerCPUS, r.EventsPerRead = of(10_000*x), of(20_000*x), of(1)
	}
}

// fabricated is a report of every kind of row.
func fabricated() *Report {
	r := NewReport()
	r.Cores, r.CPU, r.Governor = small, "AMD EPYC", "performance"
	second := time.Second
	r.Add(StreamsRow("streams-100", 100, 100, second), measured(0.3, streamed(0.3)))
	r.Add(StreamsRow("streams-1000", 1000, 100, second), measured(4, streamed(4)))
	r.Add(RateRow("rate-1000", 1000, second), measured(0.2, func(r *Result) {
		r.PacerLag, r.Arrivals, r.RequestsPerS = Lag{of(0.1), of(0.7), of(9)}, Arrivals{of(-1e-9), of(0.02), of(0)}, of(1000)
	}))
	r.Add(CeilingRow(32, second), measured(1, func(r *Result) { r.EventsPerS, r.EventsPerCPUS, r.EventsPerRead = of(300_000), of(400_000), of(80) }))
	r.Add(ConnectionsRow(32, second), measured(1, func(r *Result) {
		r.RequestsPerS, r.Failed, r.FirstFailure = of(38_320), map[record.Outcome]int{record.Dial: 2}, "dial: refused"
		r.Measured += 2
	}))
	r.Skip(LiveRow(10_000, second), "it needs 10000 connections, this process may open 800: raise the limit of open files (ulimit -n)")
	r.ServerAlone = Alone{of(900_000), of(170_000), of(87_000)}
	r.AddCommand(record.Of(5), record.Of(12.1))
	r.Finish()
	return r
}

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := fabricated().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
}

// The keys at the top are those that scripts read; what was not measured is null, with a reason beside it.
func TestJSON(t *testing.T) {
	text, err := json.MarshalIndent(fabricated(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.json", append(text, '\n'))
}

// Each figure of the report comes from the row it is for.
func TestReportTakesEachFigureFromItsRow(t *testing.T) {
	r := fabricated()
	for name, tt := range map[string]struct {
		got  Figure
		want float64
	}{
		"TTFT error of the first streams":     {r.TTFTError.Mean, 0.3},
		"lag of the small requests":           {r.PacerLag.P99, 0.7},
		"most events":                         {r.EventsPerS, 300_000},
		"most events a CPU second, if paced":  {r.EventsPerCPUS, 80_000},
		"most requests":                       {r.RequestsPerS, 38_320},
		"the first row's own use of the CPUs": {r.ClientCPU, 0.3},
	} {
		if x, ok := tt.got.Get(); !ok || x != tt.want {
			t.Errorf("%s: %v %v, want %v", name, x, tt.got.Reason(), tt.want)
		}
	}
	if r.Sent != 500 || r.SeenByServer != 500 || r.Failed[record.Dial] != 2 || r.RSSPerStream.Reason() == "" {
		t.Errorf("sums %d %d %v, memory %v", r.Sent, r.SeenByServer, r.Failed, r.RSSPerStream)
	}
	only := NewReport()
	only.Add(CeilingRow(4, time.Second), measured(1, func(r *Result) { r.EventsPerCPUS = of(7) }))
	if x, ok := only.EventsPerCPUS.Get(); !ok || x != 7 {
		t.Errorf("without paced streams: %v", only.EventsPerCPUS)
	}
}

func TestServerThatTellsNothingIsNotSeenAsZero(t *testing.T) {
	r := NewReport()
	r.Add(ConnectionsRow(1, time.Second), measured(1, func(r *Result) { r.SeenByServer = -1 }))
	r.Add(ConnectionsRow(1, time.Second), measured(1, func(*Result) {}))
	if r.SeenByServer != -1 || r.Sent != 200 {
		t.Errorf("seen %d of %d", r.SeenByServer, r.Sent)
	}
}

// A target that the machine is too small for is shown, never missed; one without a figure is unknown.
func TestMissed(t *testing.T) {
	missed, unknown := fabricated().Missed()
	var names []string
	for _, c := range append(missed, unknown...) {
		names = append(names, c.Row+": "+c.Name)
	}
	want := []string{"rate-1000: pacer lag, p99", "all: requests that failed", "live: memory per live stream"}
	if diff := cmp.Diff(want, names); diff != "" || len(missed) != 2 {
		t.Errorf("missed %d; %s", len(missed), diff)
	}
}

func TestStandardRowsAreWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for _, length := range []time.Duration{0, time.Second} {
		for _, row := range Standard(length) {
			o, err := row.Options.complete()
			if err != nil {
				t.Errorf("%s: %v", row.Key, err)
			}
			if length > 0 && seen[row.Key] != true || row.Text == "" || len(row.Targets) == 0 {
				t.Errorf("row %q: %q, %d targets", row.Key, row.Text, len(row.Targets))
			}
			seen[row.Key] = true
			if row.Key == "live" && (o.StreamFor < o.Warmup+o.Length || o.rate()*o.Length.Seconds() != float64(o.Streams)) {
				t.Errorf("the live row never holds its %d streams at once: %+v", o.Streams, o)
			}
		}
	}
}

// However many streams there are, at most some 1,000 begin in a second, and each has events to measure.
func TestStreamsAreLongEnough(t *testing.T) {
	for _, streams := range []int{1, 100, 1000, 5000, 20_000} {
		for _, events := range []float64{0.5, 20, 100} {
			o, err := Options{Streams: streams, EventsPerS: events, Length: time.Hour}.complete()
			if err != nil {
				t.Fatal(err)
			}
			if o.rate() > 1200 || o.events() < 10 {
				t.Errorf("%d x %v: %v arrivals/s of %d events", streams, events, o.rate(), o.events())
			}
		}
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", -1e-9: "0", 0.0004: "0", 0.123456: "0.123", 12.345: "12.3", 999.4: "999", 999.9: "1,000", 1_234_567.8: "1,234,568",
	} {
		if got := number(x); got != want {
			t.Errorf("%v: %q, want %q", x, got, want)
		}
	}
	if got := count(-1); got != "not known" {
		t.Errorf("-1: %q", got)
	}
}
