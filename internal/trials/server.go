package trials

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// The load of every session, and the server under it. 50 busy lanes of 512 never queue, so that a time to the first token is
// prefill plus what is left of a decode step: the truth is simple. Prompts are few words and dear ones, because the words cost the
// load generator time and the price costs the server none.
const (
	rate         = 700 // requests a second, Poisson
	span         = 8 * time.Second
	meanPrompt   = 35   // tokens, lognormal
	promptSigma  = 0.55 // of the logarithm
	outputTokens = 4
	slots        = 64 // of the closed loop

	perToken    = 2 * time.Millisecond
	decodeStep  = 10 * time.Millisecond
	typicalTTFT = 68 * time.Millisecond // base's TTFT p50, to size the changes; TestTruth holds it

	measure = 1500 * time.Millisecond
	window  = 150 * time.Millisecond

	stateEnv = "SIM_STATE"
)

// server is base's configuration where a scenario changes nothing.
func server() simserver.Config {
	c := simserver.Default()
	c.Seed = 1
	c.Lanes, c.BatchLimit = 512, 1024
	c.PrefillPerToken = simserver.Duration(perToken)
	c.DecodeBase, c.DecodePerSeq = simserver.Duration(decodeStep), 0
	c.DefaultTokens = outputTokens
	c.StateEnv = stateEnv
	return c
}

// config is the server of one arm; the revision keeps two identical builds apart, as two commits would be.
func (s Scenario) config(arm record.Arm) simserver.Config {
	c := server()
	c.Revision = string(arm)
	change := s.base
	if arm == record.Head {
		change = s.head
	}
	if change != nil {
		change(&c)
	}
	return c
}

// Config is the server's file of one arm.
func (s Scenario) Config(arm record.Arm) ([]byte, error) {
	text, err := json.MarshalIndent(s.config(arm), "", "  ")
	return append(text, '\n'), err
}

// Workload is what every session of the scenario replays.
func (s Scenario) Workload() (*workload.Workload, error) {
	o := workload.Options{Name: "trials", Seed: 11, Description: "Short prompts and answers for sessions with a known truth."}
	if s.free {
		o.Output = workload.Cap
	}
	return workload.Generate(workload.Synthetic{
		Arrivals: "poisson", Rate: strconv.Itoa(rate), Duration: span,
		Input:  workload.Length{Kind: "lognormal", Mean: meanPrompt, Sigma: promptSigma, Min: 4, Max: 400},
		Output: workload.Length{Kind: "fixed", Min: outputTokens},
	}, o)
}

// Truth is how much worse head is than base in each gated metric by the timing model alone, as a log ratio that is positive when
// worse. It holds for open loops and for changes that do not depend on how many servers were started before; metrics that it
// cannot tell are absent. An answer cut short counts with the tokens it has.
func (s Scenario) Truth() (map[string]float64, error) {
	if s.closed {
		// Every duration is stretched by one factor, and a closed loop sends by answers: throughput falls by that factor.
		if f := s.config(record.Head).SpeedByStart; len(f) == 1 {
			return map[string]float64{"output_tps": math.Log(f[0])}, nil
		}
		return map[string]float64{"output_tps": 0}, nil
	}
	if s.Size == Other {
		return nil, nil
	}
	w, err := s.Workload()
	if err != nil {
		return nil, err
	}
	base, head := s.figures(w, record.Base), s.figures(w, record.Head)
	truth := map[string]float64{"output_tps": 0} // an open loop below saturation delivers what it is asked for
	for key := range base {
		truth[key] = math.Log(head[key] / base[key])
	}
	return truth, nil
}

// figures are the model's percentiles over the measured interval, ms. Which requests are held back depends on how many came
// before, so every such number is taken in turn and the middle of the percentiles returned.
func (s Scenario) figures(w *workload.Workload, arm record.Arm) map[string]float64 {
	c := s.config(arm)
	turns := max(1, c.Delay.Every)
	seen := map[string][]float64{}
	for before := range turns {
		var load []simserver.Planned
		for range before {
			load = append(load, simserver.Planned{Prompt: 1, Output: 1})
		}
		first := len(load)
		for _, t := range w.Turns {
			if t.At < measure {
				load = append(load, simserver.Planned{At: time.Second + t.At, Prompt: t.InTokens, Output: t.Out.Tokens})
			}
		}
		var ttft, gaps []float64
		for i, due := range simserver.Foretell(c, load)[first:] {
			ttft = append(ttft, ms(due[0]-load[first+i].At))
			for k := 1; k < len(due); k++ {
				gaps = append(gaps, ms(due[k]-due[k-1]))
			}
		}
		for key, x := range map[string]float64{
			"ttft_p50": nearest(ttft, 50), "ttft_p95": nearest(ttft, 95), "itl_p50": nearest(gaps, 50),
		} {
			seen[key] = append(seen[key], x)
		}
	}
	out := map[string]float64{}
	for key, xs := range seen {
		out[key] = median(xs)
	}
	return out
}

// nearest is the nearest-rank percentile, as a round takes it.
func nearest(xs []float64, q int) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[(len(xs)*q+99)/100-1]
}

func median(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	n := len(xs)
	if n == 0 {
		return math.NaN()
	}
	return (xs[(n-1)/2] + xs[n/2]) / 2
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func decimals(x float64, n int) string { return strconv.FormatFloat(x, 'f', n, 64) }
