package workload

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// buildTrace builds from one of the test traces, whatever its fidelity. The trace is read once for all tests.
func buildTrace(t *testing.T, name string, o Options) *Workload {
	t.Helper()
	if o.AcceptFidelity == nil {
		o.AcceptFidelity = []string{"all"}
	}
	o.Name = "t"
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	tr := traces[name]
	i := slices.IndexFunc(Importers(), func(i Importer) bool { return i.Name == tr.kind })
	b := newBuild(Importers()[i], o, &sink{file: tr.file, rows: rowsOf(t, name)}, SourceFile{Name: tr.file})
	w, err := b.workload()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func tokenHit(w *Workload) float64 {
	share, _ := w.Describe().PrefixShare.Get()
	return share
}

// 25 % of the slice by conversation keeps the token hit of 0.347 within 0.29 to 0.41 and splits no group.
func TestSamplingKeepsPrefixes(t *testing.T) {
	sizes := map[string]int{}
	for _, r := range rowsOf(t, "conversation") {
		sizes[r.groupKey()]++
	}
	digests := map[string]bool{}
	for seed := range uint64(3) {
		w := buildTrace(t, "conversation", Options{Seed: seed, Sample: "0.25"})
		if hit := tokenHit(w); hit < 0.29 || hit > 0.41 {
			t.Errorf("seed %d: token hit %.3f", seed, hit)
		}
		kept := map[string]int{}
		for i := range w.Turns {
			kept[w.resolve(w.Turns[i]).Group]++
		}
		for g, n := range kept {
			if n != sizes[g] {
				t.Errorf("seed %d: group %s has %d of %d turns", seed, g, n, sizes[g])
			}
		}
		c := w.Manifest.Counts
		if c.Turns+c.Excluded["not_sampled"] != 5719 || c.Turns < 1200 || c.Turns > 1660 {
			t.Errorf("seed %d: counts %+v", seed, c)
		}
		digests[w.Digest()] = true
	}
	if len(digests) != 3 {
		t.Errorf("3 seeds gave %d workloads", len(digests))
	}
	if w := buildTrace(t, "conversation", Options{Seed: 2, Sample: "0.25"}); !digests[w.Digest()] {
		t.Error("one seed gave two workloads")
	}
}

func TestSmallerSampleIsSubset(t *testing.T) {
	large := map[string]bool{}
	for _, turn := range buildTrace(t, "conversation", Options{Sample: "0.25"}).Turns {
		large[turn.ID] = true
	}
	for _, turn := range buildTrace(t, "conversation", Options{Sample: "0.1"}).Turns {
		if !large[turn.ID] {
			t.Fatalf("%s is in the 10 %% sample and not in the 25 %% one", turn.ID)
		}
	}
}

// Sampling by request breaks prefixes: it says so, and is refused unless the measure is accepted by name.
func TestSamplingByRequestIsRefused(t *testing.T) {
	o := Options{Name: "t", Sample: "0.25", SampleBy: "requests"}
	_, err := ImportFile("mooncake", tracePath(traces["conversation"].file), o)
	refused, ok := errors.AsType[*FidelityError](err)
	if !ok {
		t.Fatalf("%v, want a fidelity error", err)
	}
	_, points, _ := strings.Cut(refused.Rows[0].Reason, "hit -")
	n, _ := strconv.Atoi(strings.TrimSuffix(points, " points"))
	if refused.Rows[0].Measure != "token prefix hit" || refused.Rows[0].Direction != "pessimistic" || n < 10 {
		t.Errorf("refused for %+v, want a prefix hit 10 points or more lower", refused.Rows[0])
	}
	o.AcceptFidelity = []string{"token prefix hit"}
	w := buildTrace(t, "conversation", o)
	if w.Manifest.Source.Options["accept_fidelity"] != "token prefix hit" {
		t.Errorf("the acceptance is not on record: %v", w.Manifest.Source.Options)
	}
	if hit := tokenHit(w); hit < 0.12 || hit > 0.21 {
		t.Errorf("token hit %.3f", hit)
	}
}

// Thinning leaves offsets alone: IoD becomes 1 + p(IoD - 1), about 4.05 for Azure code at 25 %.
func TestThinningKeepsBursts(t *testing.T) {
	w := buildTrace(t, "azure code", Options{Sample: "0.25", Seed: 3})
	if iod, _ := w.Describe().IoD1.Get(); iod < 3.6 || iod > 4.6 {
		t.Errorf("IoD at 1 s is %.2f, want 3.6 to 4.6", iod)
	}
}

func TestDequantise(t *testing.T) {
	for seed := range uint64(2) {
		w := buildTrace(t, "conversation", Options{Dequantise: "uniform", Seed: seed})
		f := w.Describe()
		if iod, _ := f.IoD1.Get(); iod < 0.9 || iod > 1.25 {
			t.Errorf("seed %d: IoD at 1 s is %.2f, want 0.9 to 1.25 (literal: 7.44)", seed, iod)
		}
		if f.Arrivals.QuantumNS != int64(3*time.Second) || f.Arrivals.Dequantised != "uniform" {
			t.Errorf("arrivals %+v", f.Arrivals)
		}
		if !strings.Contains(reasonOf(w, "time-stamp quantum"), "spread evenly") {
			t.Error("the fidelity block does not say what was done")
		}
	}
	literal := buildTrace(t, "conversation", Options{})
	if literal.Manifest.Arrivals.Dequantised != "" || !strings.Contains(reasonOf(literal, "time-stamp quantum"), "clumps") {
		t.Errorf("literal replay is not flagged: %+v", literal.Manifest.Arrivals)
	}
	// A trace without ticks has nothing to spread.
	a, b := buildTrace(t, "azure code", Options{}), buildTrace(t, "azure code", Options{Dequantise: "uniform"})
	if a.Turns[9].At != b.Turns[9].At || b.Manifest.Arrivals.Dequantised != "" {
		t.Error("stamps that lie on no grid were moved")
	}
}

func TestWindowAndLimits(t *testing.T) {
	w := buildTrace(t, "azure conv", Options{From: 10 * time.Minute, Length: 5 * time.Minute, MaxTurns: 1000, MaxOutput: 50})
	c := w.Manifest.Counts
	if c.Turns != 1000 || c.Turns+c.Excluded["window"]+c.Excluded["max_turns"] != 19366 {
		t.Errorf("counts %+v", c)
	}
	if first := w.Turns[0].At; first < 0 || first > 5*time.Second {
		t.Errorf("first arrival at %s", first)
	}
	if w.Span() > 5*time.Minute || w.Span() <= w.Turns[999].At {
		t.Errorf("span %s, last arrival %s", w.Span(), w.Turns[999].At)
	}
	if f := w.Describe(); f.OutTokens.Max != 50 {
		t.Errorf("longest answer %d, want 50", f.OutTokens.Max)
	}
	if !strings.HasSuffix(reasonOf(w, "output cap"), "shortened to 50 tokens") {
		t.Errorf("output cap: %q", reasonOf(w, "output cap"))
	}
	full := buildTrace(t, "azure conv", Options{From: 10 * time.Minute, Length: 5 * time.Minute})
	if full.Span() != 5*time.Minute {
		t.Errorf("a window of 5m has span %s", full.Span())
	}
}

func TestStretch(t *testing.T) {
	plain, fast := buildTrace(t, "azure conv", Options{}), buildTrace(t, "azure conv", Options{Stretch: "2.0"})
	a, _ := plain.Describe().Rate.Get()
	b, _ := fast.Describe().Rate.Get()
	if b/a < 1.98 || b/a > 2.02 {
		t.Errorf("rate %.3f -> %.3f, want twice as much", a, b)
	}
	if fast.Manifest.Arrivals.Scale != "2.0" || fast.Manifest.Arrivals.Method != "stretch" {
		t.Errorf("arrivals %+v", fast.Manifest.Arrivals)
	}
	for i := range plain.Turns {
		if plain.Turns[i].At/2 != fast.Turns[i].At {
			t.Fatalf("turn %d: %s -> %s", i, plain.Turns[i].At, fast.Turns[i].At)
		}
	}
}

func TestPoisson(t *testing.T) {
	w := buildTrace(t, "azure conv", Options{Poisson: "50", Seed: 2})
	f := w.Describe()
	rate, _ := f.Rate.Get()
	iod, _ := f.IoD1.Get()
	if rate < 48.5 || rate > 51.5 || iod < 0.8 || iod > 1.2 {
		t.Errorf("rate %.2f, IoD at 1 s %.2f", rate, iod)
	}
	// Lengths keep their order.
	for i, r := range rowsOf(t, "azure conv") {
		if w.Turns[i].InTokens != r.in {
			t.Fatalf("row %d: %d tokens, want %d", i, w.Turns[i].InTokens, r.in)
		}
	}
}
