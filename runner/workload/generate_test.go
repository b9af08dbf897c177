package workload

import (
	"math"
	"strings"
	"testing"
	"time"
)

func generate(t *testing.T, s Synthetic, seed uint64) *Workload {
	t.Helper()
	if s.Input.Kind == "" {
		s.Input = Length{Kind: "fixed", Min: 10}
	}
	if s.Output.Kind == "" {
		s.Output = Length{Kind: "uniform", Min: 4, Max: 12}
	}
	w, err := Generate(s, Options{Name: "g", Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestConstantArrivals(t *testing.T) {
	w := generate(t, Synthetic{Arrivals: "constant", Rate: "10", Duration: time.Minute}, 1)
	if len(w.Turns) != 600 {
		t.Fatalf("%d arrivals, want 600", len(w.Turns))
	}
	for i, turn := range w.Turns {
		if turn.At != time.Duration(i)*100*ms {
			t.Fatalf("arrival %d at %s", i, turn.At)
		}
	}
	if w.Span() != time.Minute {
		t.Errorf("span %s", w.Span())
	}
}

// The last planned offset of 10,000 records at 1 ms is exact.
func TestOffsetsDoNotDrift(t *testing.T) {
	w := generate(t, Synthetic{Arrivals: "constant", Rate: "1000", Duration: 10 * time.Second}, 1)
	if n := len(w.Turns); n != 10_000 || w.Turns[n-1].At != 9999*ms {
		t.Errorf("%d arrivals, the last at %s", n, w.Turns[n-1].At)
	}
}

func TestPoissonArrivals(t *testing.T) {
	w := generate(t, Synthetic{Arrivals: "poisson", Rate: "50", Duration: 10 * time.Minute}, 4)
	if n := len(w.Turns); n < 29_480 || n > 30_520 {
		t.Errorf("%d arrivals, want 30,000 ± 520", n)
	}
	a := make(arrivals, len(w.Turns))
	for i := range a {
		a[i] = w.Turns[i].At
	}
	if cv := a.gapCV(); cv < 0.98 || cv > 1.02 {
		t.Errorf("CV of gaps %.3f", cv)
	}
	if iod := shapeOf(a.counts(time.Second)).iod; iod < 0.85 || iod > 1.15 {
		t.Errorf("IoD at 1 s %.3f", iod)
	}
	if a, b := generate(t, Synthetic{Arrivals: "poisson", Rate: "5", Duration: time.Minute}, 4),
		generate(t, Synthetic{Arrivals: "poisson", Rate: "5", Duration: time.Minute}, 5); a.Digest() == b.Digest() {
		t.Error("two seeds gave one workload")
	}
}

func TestLengths(t *testing.T) {
	r := newRandom(derive("lengths"))
	l := Length{Kind: "lognormal", Mean: 300, Sigma: 0.4, Max: 2000}
	var total float64
	values := make([]int, 20_000)
	for i := range values {
		n, err := l.draw(r)
		if err != nil {
			t.Fatal(err)
		}
		values[i] = n
		total += float64(n)
	}
	if mean := total / float64(len(values)); math.Abs(mean-300) > 5 {
		t.Errorf("mean %.1f, want 300", mean)
	}
	// The median of a lognormal is mean·exp(-σ²/2) = 276.9.
	if p50 := quantiles(values).P50; p50 < 271 || p50 > 283 {
		t.Errorf("p50 %d, want about 277", p50)
	}
	seen := map[int]bool{}
	u := Length{Kind: "uniform", Min: 4, Max: 12}
	for range 1000 {
		n, err := u.draw(r)
		if err != nil || n < 4 || n > 12 {
			t.Fatalf("%d, %v", n, err)
		}
		seen[n] = true
	}
	if len(seen) != 9 {
		t.Errorf("%d of 9 lengths drawn", len(seen))
	}
}

func TestGenerateRefuses(t *testing.T) {
	good := Synthetic{
		Arrivals: "poisson", Rate: "5", Duration: time.Minute, Input: Length{Kind: "fixed", Min: 1},
		Output: Length{Kind: "fixed", Min: 1},
	}
	for name, c := range map[string]struct {
		change func(*Synthetic)
		want   string
	}{
		"rate":       {func(s *Synthetic) { s.Rate = "0" }, "decimal above 0"},
		"too many":   {func(s *Synthetic) { s.Rate = "1000000" }, "want 1 to 5000000 arrivals"},
		"duration":   {func(s *Synthetic) { s.Duration = 0 }, "arrivals"},
		"arrivals":   {func(s *Synthetic) { s.Arrivals = "often" }, "want constant or poisson"},
		"length":     {func(s *Synthetic) { s.Input = Length{Kind: "fixed"} }, "input: \"fixed\" with min 0"},
		"order":      {func(s *Synthetic) { s.Output = Length{Kind: "uniform", Min: 5, Max: 4} }, "output:"},
		"truncation": {func(s *Synthetic) { s.Input = Length{Kind: "lognormal", Mean: 10, Sigma: 0.1, Min: 900} }, "1,000 draws"},
	} {
		s := good
		c.change(&s)
		if _, err := Generate(s, Options{Name: "g"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
