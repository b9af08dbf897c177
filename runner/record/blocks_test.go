package record

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A value without a block is the percentile of the round that never had the block's arrivals.
func TestBlocksLeaveATenthOut(t *testing.T) {
	r := rand.New(rand.NewPCG(41, 41))
	f := fabric{requests: 700, rate: 50, m0: 1, ttft: 100, gap: 10, tokens: 8, failEvery: 60}
	samples, streams := f.make()
	in := f.interval(nil)
	slices.SortFunc(samples, func(a, b Sample) int { return int(a.Sched - b.Sched) })
	want := map[string][]float64{}
	for b := range blockCount {
		kept := slices.Clone(samples)
		kept = slices.Delete(kept, b*len(samples)/blockCount, (b+1)*len(samples)/blockCount)
		m := Summarise(kept, streams, in).Metrics
		for _, key := range []string{"ttft_p50", "ttft_p95", "e2e_p90", "tpot_p50", "itl_p90", "itl_p50", "ttfo_p50"} {
			x, _ := m[key].Get()
			want[key] = append(want[key], x)
		}
	}
	// The order in which requests end does not matter.
	r.Shuffle(len(samples), func(i, j int) { samples[i], samples[j] = samples[j], samples[i] })
	sum := Summarise(samples, streams, in)
	for key, values := range want {
		if !slices.Equal(sum.Blocks[key], values) {
			t.Errorf("%s without each block: %v, want %v", key, sum.Blocks[key], values)
		}
	}
	// p99 lies among the failures: it has no value, so it has no blocks.
	if _, there := sum.Blocks["ttft_p99"]; there || !sum.Metrics["ttft_p99"].IsFailed() {
		t.Errorf("ttft_p99 is %v and has blocks: %v", sum.Metrics["ttft_p99"], there)
	}
}

// Where leaving a block out lifts a percentile into the failures, the key is absent: no infinity in a list of numbers.
func TestBlocksAmongFailures(t *testing.T) {
	sum := sumOf(100, func(i int, s *Sample, _ *Stream) {
		if i >= 54 {
			s.Class = Timeout
		}
	}, 10*time.Millisecond)
	if v, ok := sum.Metrics["ttft_p50"].Finite(); !ok || v != 50 {
		t.Fatalf("ttft_p50 %v", sum.Metrics["ttft_p50"])
	}
	if got, there := sum.Blocks["ttft_p50"]; there {
		t.Errorf("blocks %v, although without ten successes the median is a failure", got)
	}
	if got := sumOf(20, nil, 10*time.Millisecond).Blocks["ttft_p50"]; !slices.Equal(got, slices.Repeat([]float64{50}, blockCount)) {
		t.Errorf("blocks of a round of equals: %v", got)
	}
	if got := sumOf(0, nil).Blocks; len(got) != 0 {
		t.Errorf("blocks of nothing: %v", got)
	}
}
