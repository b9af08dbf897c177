package workload

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// arrivals are offsets in rising order, the raw material of burst measures.
type arrivals []time.Duration

// last is the distance from the first to the last arrival.
func (a arrivals) last() time.Duration {
	if len(a) == 0 {
		return 0
	}
	return a[len(a)-1] - a[0]
}

// window is a stretch of time in which something arrived: its number from 0 and how many did.
type window struct{ k, n int }

// counts counts arrivals in windows of length w from the first one on, and says how many windows there are; those without an
// arrival are not listed, so that a trace with a hole of years costs nothing. Only complete windows count: a last one that
// the trace cuts short would look like a lull.
func (a arrivals) counts(w time.Duration) (filled []window, windows int) {
	windows = int(a.last() / w)
	for _, t := range a {
		k := int((t - a[0]) / w)
		switch last := len(filled) - 1; {
		case k >= windows:
			return filled, windows
		case last >= 0 && filled[last].k == k:
			filled[last].n++
		default:
			filled = append(filled, window{k, 1})
		}
	}
	return filled, windows
}

// shape describes counts per window.
type shape struct {
	windows int
	mean    float64
	peak    int
	// iod is the index of dispersion: population variance / mean. 1 for Poisson arrivals.
	iod float64
	// empty is the share of windows without an arrival; acf1 the autocorrelation of the counts at lag 1.
	empty float64
	acf1  float64
}

// shapeOf reduces counts. With m the mean of n windows, the sums of (x-m)² and (x-m)(x'-m) over all windows are split so that
// the empty ones need no loop.
func shapeOf(filled []window, windows int) shape {
	s := shape{windows: windows}
	if windows == 0 {
		return s
	}
	total := 0
	for _, f := range filled {
		total += f.n
		s.peak = max(s.peak, f.n)
	}
	n := float64(windows)
	s.mean = float64(total) / n
	s.empty = 1 - float64(len(filled))/n
	squares := s.mean * s.mean * (n - float64(len(filled)))
	var products float64
	first, last := 0, 0
	for i, f := range filled {
		d := float64(f.n) - s.mean
		squares += d * d
		if i > 0 && filled[i-1].k == f.k-1 {
			products += float64(f.n) * float64(filled[i-1].n)
		}
		if f.k == 0 {
			first = f.n
		}
		if f.k == windows-1 {
			last = f.n
		}
	}
	lagged := products - s.mean*float64(2*total-first-last) + (n-1)*s.mean*s.mean
	if s.mean > 0 {
		s.iod = squares / n / s.mean
	}
	if squares > 0 {
		s.acf1 = lagged / squares
	}
	return s
}

// burst is B = (IoD - 1) / mean at window w: what thinning leaves alone. n/a below two complete windows.
func (a arrivals) burst(w time.Duration) record.Value {
	s := shapeOf(a.counts(w))
	if s.windows < 2 || s.mean == 0 {
		return record.NA("fewer than two complete windows")
	}
	return record.Of((s.iod - 1) / s.mean)
}

// gapCV is the coefficient of variation of the gaps between arrivals; 1 for Poisson arrivals.
func (a arrivals) gapCV() float64 {
	if len(a) < 2 {
		return 0
	}
	n := float64(len(a) - 1)
	mean := float64(a.last()) / n
	var squares float64
	for i := 1; i < len(a); i++ {
		d := float64(a[i]-a[i-1]) - mean
		squares += d * d
	}
	return math.Sqrt(squares/n) / mean
}

// ticks says how far time stamps lie on a grid.
type ticks struct {
	// quantum is the median gap of distinct stamps; grid the share of gaps near a positive multiple of it.
	quantum time.Duration
	grid    float64
	// ties is 1 - distinct stamps / rows.
	ties float64
}

// quantised reports whether literal replay would send clumps that the source never saw.
func (t ticks) quantised() bool {
	return t.ties > 0.2 && t.grid >= 0.95 && t.quantum >= 100*time.Millisecond
}

func (a arrivals) ticks() ticks {
	distinct := slices.Compact(slices.Clone(a))
	if len(distinct) < 2 {
		return ticks{}
	}
	gaps := make([]time.Duration, 0, len(distinct)-1)
	for i := 1; i < len(distinct); i++ {
		gaps = append(gaps, distinct[i]-distinct[i-1])
	}
	sorted := slices.Sorted(slices.Values(gaps))
	q := sorted[(len(sorted)-1)/2]
	near := 0
	for _, g := range gaps {
		off := g - q
		if g > q {
			off = min(g%q, q-g%q)
		}
		if max(off, -off) <= max(2*time.Millisecond, q/1000) {
			near++
		}
	}
	return ticks{
		quantum: q, grid: float64(near) / float64(len(gaps)), ties: 1 - float64(len(distinct))/float64(len(a)),
	}
}

// quantile is the nearest-rank quantile of sorted values, 0 when there are none.
func quantile[T any](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[min(max(int(math.Ceil(q*float64(len(sorted))))-1, 0), len(sorted)-1)]
}

func quantiles(values []int) record.Quantiles {
	s := slices.Sorted(slices.Values(values))
	return record.Quantiles{
		P50: quantile(s, 0.50), P90: quantile(s, 0.90), P95: quantile(s, 0.95), P99: quantile(s, 0.99), Max: quantile(s, 1),
	}
}

// distance is the Kolmogorov-Smirnov distance of two samples, 0 to 1.
func distance(a, b []int) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	i, j, d := 0, 0, 0.0
	for i < len(a) && j < len(b) {
		x := min(a[i], b[j])
		for i < len(a) && a[i] == x {
			i++
		}
		for j < len(b) && b[j] == x {
			j++
		}
		d = max(d, math.Abs(float64(i)/float64(len(a))-float64(j)/float64(len(b))))
	}
	return d
}

func sum(values []int) int64 {
	var n int64
	for _, v := range values {
		n += int64(v)
	}
	return n
}

func sortedArrivals(offsets []time.Duration) arrivals {
	slices.SortFunc(offsets, cmp.Compare[time.Duration])
	return offsets
}
