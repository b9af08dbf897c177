package report

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestAmounts(t *testing.T) {
	for _, c := range []struct {
		x    float64
		unit string
		want string
	}{
		{0.4, "ms", "400 µs"},
		{0.0123, "ms", "12.3 µs"},
		{1, "ms", "1.00 ms"},
		{21.5, "ms", "21.5 ms"},
		{619.4, "ms", "619 ms"},
		{7440, "ms", "7.44 s"},
		{119_400, "ms", "119 s"},
		{360_000, "ms", "6:00"},
		{125_400, "ms", "2:05"},
		{0, "ms", "0 ms"},
		{1842.4, "tok/s", "1,842 tok/s"},
		{1_234_567, "tok/s", "1,234,567 tok/s"},
		{14, "req/s", "14.0 req/s"},
		{0.374, "fraction", "37.4 %"},
		{40, "widgets", "40.0 " + inert("widgets", 12)},
	} {
		if got := amount(c.x, c.unit); got != c.want {
			t.Errorf("%v %s: %s, want %s", c.x, c.unit, got, c.want)
		}
	}
	for x, want := range map[float64]string{
		0: "0.0 %", 0.0001: "0.01 %", 0.004: "0.40 %", 0.123: "12.3 %", 1: "100.0 %", 0.00004: "0.004 %", 1e-12: "0.000000 %",
	} {
		if got := share(x); got != want {
			t.Errorf("share %v: %s, want %s", x, got, want)
		}
	}
	for bytes, want := range map[float64]string{512: "0.500 KiB", 9.4 * (1 << 30): "9.40 GiB", 300 << 20: "300 MiB"} {
		if got := mebi(bytes); got != want {
			t.Errorf("%v bytes: %s, want %s", bytes, got, want)
		}
	}
	for x, want := range map[float64]string{-0.04: "-0.0", 0.04: "+0.0", math.Copysign(0, -1): "+0.0", 12345.67: "+12,345.7"} {
		if got := signed(x, 1); got != want {
			t.Errorf("signed %v: %s, want %s", x, got, want)
		}
	}
}

func TestMissingIsNeverZero(t *testing.T) {
	for v, want := range map[record.Value]string{
		record.NA("no_permission"): "n/a (no_permission)", {}: "n/a (not measured)", record.Failed(): "failed (2.0 % of requests)", record.Of(0): "0 ms",
	} {
		if got := (words{say("%s", value(v, "ms", "2.0 %"))}).plain(); got != want {
			t.Errorf("%+v: %s, want %s", v, got, want)
		}
	}
	if got := value(record.Failed(), "ms", ""); got != "failed" {
		t.Errorf("a failed value without a share prints %q", got)
	}
	if got := seconds(0, 5); !strings.HasPrefix(got, "n/a") {
		t.Errorf("an instant that was not reached prints %q", got)
	}
}

func TestLabels(t *testing.T) {
	for key, want := range map[string]string{
		"ttft_p99": "TTFT p99", "ttft_p99_send": "TTFT p99 from send", "itl_p50_ok": "ITL p50 of successes",
		"output_tps": "Output throughput", "error_rate": "Error rate", "goodput": "Goodput",
		"ttft_max": inert("ttft_max", 40), "x\u202ey": inert("xy", 40),
	} {
		if got := label(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

// read parses what fixed and signed print.
func read(t *testing.T, s string) float64 {
	t.Helper()
	s, _, _ = strings.Cut(s, " ")
	x, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	if err != nil {
		t.Fatalf("%q is no number: %v", s, err)
	}
	return x
}

// TestRoundingNeverContradicts: as printed, a value lies on the side of its limit on which it lies. Six decimals are the
// end: closer than that the two may print alike, never reversed.
func TestRoundingNeverContradicts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		limit := math.Exp(random.NormFloat64()*3 + 3)
		if random.IntN(2) == 0 {
			limit = rounded(limit, random.IntN(3)) + 1 // as people write them
		}
		x := limit * (1 + random.NormFloat64()*math.Pow(10, -float64(random.IntN(9))))
		if x <= 0 {
			continue
		}
		unit := []string{"ms", "tok/s", "fraction"}[random.IntN(3)]
		l, v := againstLimit(limit, unit, x)
		shown, true0 := order(read(t, v), read(t, l)), order(x, limit)
		in := scaleFor(max(limit, x), unit)
		if shown != true0 && (shown != 0 || math.Abs(x-limit)*in.factor > 1e-6) {
			t.Fatalf("%v against %v %s prints %s against %s", x, limit, unit, v, l)
		}
	}
}

// TestShownChangeNeverContradicts does the same for the change, its bounds and its tolerance, in both directions.
func TestShownChangeNeverContradicts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	near := func(limit float64) float64 {
		return limit * (1 + random.NormFloat64()*math.Pow(10, -float64(random.IntN(8))))
	}
	for range 30_000 {
		c := gate.Comparison{Tolerance: []float64{0.05, 0.075, 0.15, 0.0312345}[random.IntN(4)], HigherIsBetter: random.IntN(2) == 0}
		c.T = math.Log1p(c.Tolerance)
		if c.HigherIsBetter {
			c.T = -math.Log1p(-c.Tolerance)
		}
		r, l, u := near(c.T), near(c.T), near(c.T)
		l, u = min(l, u), max(l, u)
		c.R, c.L, c.U = record.Of(r), record.Of(l), record.Of(u)
		s := shownChange(c)
		tolerance := read(t, s.tolerance)
		low, high := read(t, s.low), read(t, s.high)
		if low > high {
			t.Fatalf("bounds %s, %s are reversed", s.low, s.high)
		}
		if c.HigherIsBetter {
			tolerance, l, u = -tolerance, u, l
		}
		for _, figure := range []struct{ y, shown float64 }{{r, read(t, s.change)}, {l, low}, {u, high}} {
			truth := order(figure.y, c.T)
			if c.HigherIsBetter {
				truth = -truth
			}
			if shown := order(figure.shown, tolerance); shown != truth && (shown != 0 || math.Abs(figure.y-c.T) > 2e-8) {
				t.Fatalf("%v against %v (higher is better %t) prints %v against %v", figure.y, c.T, c.HigherIsBetter, figure.shown, tolerance)
			}
		}
	}
}
