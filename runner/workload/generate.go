package workload

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Synthetic is a workload made of distributions instead of a trace. Prompts share no prefix.
type Synthetic struct {
	// Arrivals is "constant" or "poisson"; Rate is requests per second, a decimal.
	Arrivals string
	Rate     string
	// Duration ends generation; it is the workload's length.
	Duration time.Duration
	// Input and Output are lengths in tokens, drawn independently.
	Input, Output Length
}

// Length is a distribution of integers of 1 or more.
type Length struct {
	// Kind is "fixed" (Min), "uniform" (Min to Max, both included) or "lognormal" (Mean, Sigma).
	Kind     string
	Min, Max int
	// Mean is of the distribution before truncation, Sigma of the logarithm. Min and Max truncate by drawing again; Max 0 is
	// no limit.
	Mean, Sigma float64
}

// maxSynthetic bounds a generated workload: more turns than this are a typing error.
const maxSynthetic = 5_000_000

// Generate makes a workload from a spec. Of the options it uses the names, the seed, the output mode and the dialect.
func Generate(spec Synthetic, o Options) (*Workload, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	seed := strconv.FormatUint(o.Seed, 10)
	offsets, err := spec.offsets(newRandom(derive(seed, "arrivals")))
	if err != nil {
		return nil, err
	}
	in, out := newRandom(derive(seed, "input")), newRandom(derive(seed, "output"))
	turns := make([]Turn, len(offsets))
	for i, t := range offsets {
		r := row{n: i + 1, at: t}
		if r.in, err = spec.Input.draw(in); err != nil {
			return nil, fmt.Errorf("input: %w", err)
		}
		if r.out, err = spec.Output.draw(out); err != nil {
			return nil, fmt.Errorf("output: %w", err)
		}
		turns[i] = Turn{
			ID: r.id(), Conv: r.id(), N: 1, At: r.at, InTokens: r.in, Out: Output{Tokens: r.out},
		}
		for k := range (r.in + syntheticBlock - 1) / syntheticBlock {
			turns[i].HashIDs = append(turns[i].HashIDs, BlockID{Number: uint64(k)})
		}
	}
	w, err := New(Manifest{
		Name: o.Name, Version: o.Version, Description: o.Description, Created: o.Created, Seed: seed,
		BlockSize: syntheticBlock, HashScope: ScopeConversation, Dialect: o.Dialect, Output: OutputPolicy{Mode: o.Output},
		Source:   Source{Importer: "synthetic", ImporterVersion: 1, Options: spec.record(o)},
		Arrivals: Arrivals{Kind: "generated", SpanNS: int64(spec.Duration), Method: spec.Arrivals + " " + spec.Rate + "/s"},
	}, turns, nil)
	if err != nil {
		return nil, err
	}
	r, _ := note("synthetic", "unknown", "lengths and arrivals are drawn from distributions; there is no source to compare with")
	w.Manifest.Fidelity = append(w.Manifest.Fidelity, r)
	return w, nil
}

const syntheticBlock = 512

// offsets draws arrivals until the duration is over.
func (s *Synthetic) offsets(draw random) ([]time.Duration, error) {
	millionths, err := parseDecimal(s.Rate)
	if err != nil || millionths == 0 {
		return nil, fmt.Errorf("rate %q: want a decimal above 0", clip(s.Rate, 40))
	}
	if n := s.Duration.Seconds() * float64(millionths) / 1e6; s.Duration <= 0 || n > maxSynthetic {
		return nil, fmt.Errorf("duration %s: want 1 to %d arrivals", s.Duration, maxSynthetic)
	}
	gap := 1e15 / float64(millionths) // ns
	var out []time.Duration
	t := 0.0
	for i := 0; ; i++ {
		switch s.Arrivals {
		case "constant":
			t = math.Round(float64(i) * gap)
		case "poisson":
			t += draw.exponential() * gap
		default:
			return nil, fmt.Errorf("arrivals %q: want constant or poisson", clip(s.Arrivals, 40))
		}
		if t >= float64(s.Duration) {
			return out, nil
		}
		out = append(out, time.Duration(t))
	}
}

// draw gives one length. Lengths out of bounds are drawn again, never clamped: clamping would pile them up at the bound.
func (l *Length) draw(r random) (int, error) {
	switch {
	case l.Kind == "fixed" && l.Min >= 1:
		return l.Min, nil
	case l.Kind == "uniform" && l.Min >= 1 && l.Max >= l.Min:
		return l.Min + int(r.below(uint64(l.Max-l.Min+1))), nil
	case l.Kind == "lognormal" && l.Mean >= 1 && l.Sigma >= 0 && l.Mean < 1e7:
		mu := math.Log(l.Mean) - l.Sigma*l.Sigma/2
		for range 1000 {
			x := math.Round(math.Exp(mu + l.Sigma*r.normal()))
			if x >= float64(max(l.Min, 1)) && x <= 1<<28 && (l.Max == 0 || x <= float64(l.Max)) {
				return int(x), nil
			}
		}
		return 0, fmt.Errorf("1,000 draws of mean %g lay outside %d to %d", l.Mean, l.Min, l.Max)
	default:
		return 0, fmt.Errorf("%q with min %d, max %d, mean %g, sigma %g is no length distribution", clip(l.Kind, 40), l.Min,
			l.Max, l.Mean, l.Sigma)
	}
}

// record lists the spec for the manifest.
func (s *Synthetic) record(o Options) map[string]string {
	m := o.record()
	m["arrivals"], m["rate"], m["duration"] = s.Arrivals, s.Rate, s.Duration.String()
	m["input"], m["output"] = s.Input.String(), s.Output.String()
	return m
}

// String is the distribution as people write it.
func (l Length) String() string {
	switch l.Kind {
	case "fixed":
		return fmt.Sprintf("fixed %d", l.Min)
	case "uniform":
		return fmt.Sprintf("uniform %d to %d", l.Min, l.Max)
	default:
		return fmt.Sprintf("%s mean %g sigma %g, %d to %d", l.Kind, l.Mean, l.Sigma, l.Min, l.Max)
	}
}
