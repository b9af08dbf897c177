package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// A trace as shipped, with the figures that were computed from it by other means.
type trace struct {
	file, kind, sha string
	rows            int
	last            float64
	// mean, peak, empty share and lag-1 autocorrelation of counts per second, and the index of dispersion at 1, 10, 60 s.
	mean        float64
	peak        int
	iod         [3]float64
	empty, acf1 float64
	gapCV, ties float64
	quantum     float64
	grid        float64
	quantised   bool
	inSum       int64
	in          [4]int // p50 p90 p99 max
	outSum      int64
	out         [4]int
	hits        *hits
	lru         [3]float64 // 1,000, 10,000 and 50,000 blocks, share of blocks
	roots       int
	multi       float64
	largest     int
	rootBlocks  int
}

var traces = map[string]trace{
	"conversation": {
		file: "mooncake-conversation-1800s.jsonl.gz", kind: "mooncake",
		sha:  "0b278e6a285958f6f087394ad02026d734591c67f44cccecb0e0f9a59d509b98",
		rows: 5719, last: 1797.0, mean: 3.1758, peak: 23, iod: [3]float64{7.4432, 1.9483, 2.6116}, empty: 0.6667, acf1: -0.4262,
		gapCV: 2.9233, ties: 0.8951, quantum: 3.000, grid: 1.00, quantised: true,
		inSum: 73604194, in: [4]int{7640, 28641, 91305, 123192}, outSum: 1977204, out: [4]int{356, 609, 1105, 2000},
		hits: &hits{0.3409, 0.3472, 0.9998}, lru: [3]float64{0.0433, 0.2056, 0.337},
		roots: 3690, multi: 0.5462, largest: 26, rootBlocks: 2,
	},
	"synthetic": {
		file: "mooncake-synthetic.jsonl.gz", kind: "mooncake",
		sha:  "bd070915a98fc0ed264d7cfef2ce746002eb3076a695ec31ba2674c0111ec131",
		rows: 3993, last: 1022.025, mean: 3.9051, peak: 13, iod: [3]float64{1.0889, 1.1778, 1.1916}, empty: 0.0294, acf1: -0.0128,
		gapCV: 1.0113, ties: 0.0028, quantum: 0.175, grid: 0.02,
		inSum: 61194628, in: [4]int{11587, 38615, 66458, 191378}, outSum: 595432, out: [4]int{69, 389, 769, 893},
		hits: &hits{0.6396, 0.6512, 0.4463}, lru: [3]float64{0.0841, 0.4239, 0.6396},
		roots: 2211, multi: 0.5485, largest: 24, rootBlocks: 1,
	},
	"azure code": {
		file: "azure-code.csv.gz", kind: "azure-csv", sha: "54e9a6d2a4bd06ba1e060304b900abbc74cbea53de96506e60fe5bb4f2277fb6",
		rows: 8819, last: 3435.948, mean: 2.5665, peak: 67, iod: [3]float64{13.1864, 71.6415, 163.9647}, empty: 0.7339, acf1: 0.7572,
		gapCV: 13.1513, ties: 0, quantum: 0.064, grid: 0.02,
		inSum: 18059974, in: [4]int{1469, 5194, 7436, 7437}, outSum: 245896, out: [4]int{13, 55, 252, 1899},
	},
	"azure conv": {
		file: "azure-conv.csv.gz", kind: "azure-csv", sha: "2f1e5b666d4e3055fdbba98598ce2ec307767b9064e03e2fa46676dbcc7d0bf8",
		rows: 19366, last: 3501.722, mean: 5.531, peak: 16, iod: [3]float64{1.3851, 3.857, 16.1283}, empty: 0.0109, acf1: 0.2189,
		gapCV: 1.0942, ties: 0, quantum: 0.118, grid: 0.02,
		inSum: 22361870, in: [4]int{1020, 2735, 4142, 14050}, outSum: 4088665, out: [4]int{129, 424, 601, 1000},
	},
}

func tracePath(file string) string { return filepath.Join("testdata", "traces", file) }

var traceRows sync.Map

// rowsOf reads a trace once for all tests. Callers do not change the rows.
func rowsOf(tb testing.TB, name string) []row {
	tb.Helper()
	if rows, ok := traceRows.Load(name); ok {
		return rows.([]row)
	}
	tr := traces[name]
	f, err := os.Open(tracePath(tr.file))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	s := &sink{file: tr.file}
	for _, i := range Importers() {
		if i.Name == tr.kind {
			if _, err = readInput(Input{Name: tr.file, Data: f}, func(r io.Reader) error { return i.read(r, s) }); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if moved, err := s.sort(true); err != nil || moved != 0 {
		tb.Fatalf("%s: %d rows moved, %v", name, moved, err)
	}
	traceRows.Store(name, s.rows)
	return s.rows
}

func TestTracesAreUnchanged(t *testing.T) {
	for name, tr := range traces {
		f, err := os.Open(tracePath(tr.file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := inflate(tr.file, f)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		if _, err := io.Copy(h, r); err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != tr.sha {
			t.Errorf("%s: sha256 %s, want %s", name, got, tr.sha)
		}
	}
}

// printed compares at the precision the figure was printed with.
func printed(t *testing.T, what string, got, want float64, places int) {
	t.Helper()
	if math.Abs(got-want) > 0.5000001*math.Pow10(-places) {
		t.Errorf("%s is %.*f, want %.*f", what, places+2, got, places, want)
	}
}

func TestTraceArrivals(t *testing.T) {
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			a := arrivalsOf(rowsOf(t, name))
			if len(a) != tr.rows {
				t.Errorf("%d rows, want %d", len(a), tr.rows)
			}
			printed(t, "last s", a.last().Seconds(), tr.last, 3)
			for i, w := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
				printed(t, fmt.Sprintf("IoD at %s", w), shapeOf(a.counts(w)).iod, tr.iod[i], 4)
			}
			s := shapeOf(a.counts(time.Second))
			printed(t, "mean", s.mean, tr.mean, 4)
			printed(t, "empty", s.empty, tr.empty, 4)
			printed(t, "acf1", s.acf1, tr.acf1, 4)
			if s.peak != tr.peak {
				t.Errorf("peak %d, want %d", s.peak, tr.peak)
			}
			printed(t, "CV of gaps", a.gapCV(), tr.gapCV, 4)
			q := a.ticks()
			printed(t, "ties", q.ties, tr.ties, 4)
			printed(t, "quantum s", q.quantum.Seconds(), tr.quantum, 3)
			printed(t, "on grid", q.grid, tr.grid, 2)
			if q.quantised() != tr.quantised {
				t.Errorf("quantised: %t, want %t", q.quantised(), tr.quantised)
			}
		})
	}
}

func TestTraceLengths(t *testing.T) {
	for name, tr := range traces {
		t.Run(name, func(t *testing.T) {
			rows := rowsOf(t, name)
			for _, side := range []struct {
				name string
				of   func(*row) int
				sum  int64
				want [4]int
			}{
				{"input", func(r *row) int { return r.in }, tr.inSum, tr.in},
				{"output", func(r *row) int { return r.out }, tr.outSum, tr.out},
			} {
				values := lengthsOf(rows, side.of)
				q := quantiles(values)
				if got := [4]int{q.P50, q.P90, q.P99, q.Max}; got != side.want {
					t.Errorf("%s p50 p90 p99 max %v, want %v", side.name, got, side.want)
				}
				if got := sum(values); got != side.sum {
					t.Errorf("%s sum %d, want %d", side.name, got, side.sum)
				}
			}
		})
	}
}

func TestTracePrefixHits(t *testing.T) {
	for name, tr := range traces {
		if tr.hits == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			prompts := promptsOf(rowsOf(t, name))
			h := prefixHits(prompts, ScopeGlobal, mooncakeBlock, 0)
			printed(t, "block hit", h.block, tr.hits.block, 4)
			printed(t, "token hit", h.token, tr.hits.token, 4)
			printed(t, "request hit", h.request, tr.hits.request, 4)
			for i, n := range []int{1000, 10_000, 50_000} {
				printed(t, fmt.Sprintf("LRU-%d block hit", n), prefixHits(prompts, ScopeGlobal, mooncakeBlock, n).block, tr.lru[i], 4)
			}
		})
	}
}

func TestTraceRoots(t *testing.T) {
	for name, tr := range traces {
		if tr.hits == nil {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rows := rowsOf(t, name)
			sizes := map[string]int{}
			for i := range rows {
				sizes[fmt.Sprint(rows[i].ids[:min(tr.rootBlocks, len(rows[i].ids))])]++
			}
			largest, multi := 0, 0
			for _, n := range sizes {
				largest = max(largest, n)
				if n > 1 {
					multi += n
				}
			}
			if len(sizes) != tr.roots || largest != tr.largest {
				t.Errorf("%d roots, largest %d; want %d, %d", len(sizes), largest, tr.roots, tr.largest)
			}
			printed(t, "multi-turn share", float64(multi)/float64(len(rows)), tr.multi, 4)
		})
	}
}

// A partial last window would look like a lull: the synthetic trace's 60 s index of dispersion would be 12.98.
func TestPartialWindowIsIgnored(t *testing.T) {
	a := arrivalsOf(rowsOf(t, "synthetic"))
	complete, n := a.counts(time.Minute)
	partial := 0
	for _, x := range a {
		if x-a[0] >= time.Duration(n)*time.Minute {
			partial++
		}
	}
	printed(t, "with the partial window", shapeOf(append(complete, window{n, partial}), n+1).iod, 12.98, 2)
}

// The Azure files end without a newline, have CR LF and steps of 100 ns.
func TestAzureTimes(t *testing.T) {
	rows := rowsOf(t, "azure code")
	if d := rows[1].at - rows[0].at; d != 52*time.Millisecond {
		t.Errorf("rows 1 to 2 are %s apart, want 52ms", d)
	}
	conv := rowsOf(t, "azure conv")
	if d := conv[1].at; d != 4314579*time.Microsecond {
		t.Errorf("row 2 at %s, want 4.314579s", d)
	}
	for i := range rows {
		if rows[i].at%100 != 0 {
			t.Fatalf("row %d at %d ns is off the 100 ns grid", i, rows[i].at)
		}
	}
}
