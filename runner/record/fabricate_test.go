package record

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// fabric makes the requests of one round by a simple model of a server. Arrivals and lengths depend on the workload seed
// alone, so that both arms see the same ones; noise depends on the slot.
type fabric struct {
	requests int
	// rate is arrivals a second; m0 is where the interval begins.
	rate float64
	m0   Instant
	slot uint64
	// ttft is the median time to first token, gap the mean time between tokens, ms.
	ttft, gap float64
	// tokens is the mean output length; cached the share of prompt tokens a cache serves.
	tokens int
	cached float64
	// even makes every answer exactly tokens long. jitter is the spread of gaps as a fraction, 0.08 if 0.
	even   bool
	jitter float64
	// failEvery makes each k-th request time out; 0 makes none.
	failEvery int
}

// measure is the length of the interval: long enough for every arrival.
func (f fabric) measure() time.Duration {
	return time.Duration(math.Ceil(float64(f.requests)/f.rate)) * time.Second
}

func (f fabric) interval(slo map[string]float64) Interval {
	return Interval{M0: f.m0, M1: f.m0 + Instant(f.measure()), SLO: slo, Limits: DefaultLimits()}
}

func (f fabric) make() (samples []Sample, streams []Stream) {
	workload := rand.New(rand.NewPCG(7, 7))
	noise := rand.New(rand.NewPCG(11, f.slot))
	for i := range f.requests {
		at := time.Duration((float64(i) + workload.Float64()) / f.rate * 1e9)
		in := 200 + workload.IntN(1800)
		out := 2 + workload.IntN(max(1, 2*f.tokens-3))
		if f.even {
			out = f.tokens
		}
		s, st := f.one(noise, i, f.m0+Instant(at), in, out)
		samples, streams = append(samples, s), append(streams, st)
	}
	return samples, streams
}

func (f fabric) one(noise *rand.Rand, i int, sched Instant, in, out int) (Sample, Stream) {
	us := func(d float64) Instant { return Instant(d * 1e3) }
	s := Sample{
		V: SampleVersion, Seq: i, ID: fmt.Sprintf("chat-%06d-%d", i/2, i%2+1), Conv: fmt.Sprintf("chat-%06d", i/2), Turn: i%2 + 1,
		Phase: PhaseMeasure, Sched: sched, Pick: sched + us(4+20*noise.Float64()), Reused: i > 8, Class: OK, Status: 200,
		InPlanned: in, OutPlanned: out, BytesOut: int64(5*in + 240), BodySHA: hash("body", i), RequestID: "chatcmpl-" + hash("id", i),
	}
	s.Slot, s.Conn, s.Wrote = s.Pick, s.Pick, s.Pick+us(30+40*noise.Float64())
	s.Header = s.Wrote + us(900+300*noise.Float64())
	if f.failEvery > 0 && i%f.failEvery == f.failEvery-1 {
		s.Class, s.Detail, s.Status, s.RequestID = Timeout, "first_event", 0, ""
		s.Header, s.End = 0, s.Sched+Instant(10*time.Second)
		return s, Stream{Seq: i}
	}
	// A lognormal tail, a part that grows with the prompt, and a level of its own for each round.
	level := 1 + 0.01*(2*rand.New(rand.NewPCG(13, f.slot)).Float64()-1)
	ttft := f.ttft * level * (0.8 + 0.2*float64(in)/1100) * math.Exp(0.35*noise.NormFloat64())
	s.First = s.Wrote + Instant(ttft*1e6)
	s.FirstOut = s.First
	st := Stream{Seq: i, T: make([]int64, out)}
	jitter := f.jitter
	if jitter == 0 {
		jitter = 0.08
	}
	for k := 1; k < out; k++ {
		gap := f.gap * (1 + jitter*noise.NormFloat64())
		st.T[k] = int64(max(gap, 0.1) * 1e6)
	}
	s.Last = s.First
	for _, gap := range st.T {
		s.Last += Instant(gap)
	}
	s.End = s.Last + us(40+30*noise.Float64())
	s.NIn, s.NOut, s.NCached = new(in), new(out), new(int(f.cached*float64(in))/16*16)
	s.TokensFrom, s.Finish = FromUsage, "length"
	s.Events, s.PayloadEvents, s.Reads = out+3, out, out+3
	s.BytesIn, s.TextSHA = int64(220*out+600), hash("text", i)
	return s, st
}

func hash(what string, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", what, i))
	return hex.EncodeToString(sum[:8])
}
