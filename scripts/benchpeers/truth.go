package main

import (
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/internal/simserver"
)

// spread is the mean and the 99th percentile of a time, ms. NaN where it is not known.
type spread struct{ mean, p99 float64 }

// figures are what a client says of its run, or what the server knows of it. Times are ms.
type figures struct {
	ttft, gap spread
	// requests counts answered ones, failed the others; rate is requests per second, NaN if not said.
	requests, failed int
	rate             float64
}

func unknown() spread { return spread{math.NaN(), math.NaN()} }

// truthOf reduces the server's log. Requests with other lengths than the scenario's are a client's own probes.
func truthOf(entries []simserver.Entry, tokens int, counts func(id string) bool) figures {
	var ttft, gaps []float64
	f := figures{ttft: unknown(), gap: unknown(), rate: math.NaN()}
	for _, e := range entries {
		if e.OutputTokens != tokens || !counts(e.ID) {
			continue
		}
		if e.Outcome != "ok" {
			f.failed++
			continue
		}
		f.requests++
		ttft = append(ttft, ms(e.WroteNS[0]-e.ArrivedNS))
		for i := 1; i < len(e.WroteNS); i++ {
			gaps = append(gaps, ms(e.WroteNS[i]-e.WroteNS[i-1]))
		}
	}
	f.ttft, f.gap = spreadOf(ttft), spreadOf(gaps)
	return f
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }

// spreadOf takes the 99th percentile by nearest rank.
func spreadOf(x []float64) spread {
	if len(x) == 0 {
		return unknown()
	}
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return spread{sum / float64(len(x)), x[int(math.Ceil(0.99*float64(len(x))))-1]}
}

// minus is the error of what was said against the truth.
func (s spread) minus(truth spread) spread { return spread{s.mean - truth.mean, s.p99 - truth.p99} }
