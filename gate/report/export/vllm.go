package export

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// vllm writes one file per arm, over the rounds that count. Times count from the last byte written, as vLLM's do; those
// from the schedule stand beside them.
func vllm(r *run, create Create) error {
	for _, arm := range []record.Arm{record.Base, record.Head} {
		rounds := r.arm(arm)
		if len(rounds) == 0 {
			continue
		}
		b := newVLLM(r, rounds)
		for _, rd := range rounds {
			list, err := r.measured(rd)
			if err != nil {
				return err
			}
			for i := range list {
				b.take(&list[i])
			}
		}
		file := b.file()
		err := into(create, "vllm-"+string(arm)+".json", func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(file)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// vllmBench gathers the requests of an arm.
type vllmBench struct {
	date, model, backend string
	seconds, good        float64
	hasGood              bool
	completed, failed    int
	in, out              int
	ttft, tpot, itl, e2e values
	arrays               vllmArrays
	streamed             bool
}

// vllmArrays hold one entry per request, in order of round and schedule. A failed request has zeros and an empty list, as
// in vLLM's own files, and its error.
type vllmArrays struct {
	InputLens         []int       `json:"input_lens"`
	OutputLens        []int       `json:"output_lens"`
	TTFTs             []float64   `json:"ttfts,omitempty"`
	ITLs              [][]float64 `json:"itls,omitempty"`
	Latencies         []float64   `json:"latencies"`
	StartTimes        []float64   `json:"start_times"`
	Errors            []string    `json:"errors"`
	TTFTsSchedule     []float64   `json:"ttfts_from_schedule,omitempty"`
	LatenciesSchedule []float64   `json:"latencies_from_schedule"`
}

func newVLLM(r *run, rounds []*record.Round) *vllmBench {
	b := &vllmBench{date: r.Epoch.UTC().Format("20060102-150405"), backend: r.Declared.Load.Dialect, model: r.Declared.Load.Model, hasGood: true}
	for _, rd := range rounds {
		b.seconds += seconds(rd)
		good, ok := rd.Metrics["goodput"].Finite()
		b.hasGood = b.hasGood && ok
		b.good += good * float64(rd.Counts.Scheduled)
		if b.model == "" {
			b.model = rd.Server.Model
		}
	}
	return b
}

func (b *vllmBench) take(q *request) {
	a := &b.arrays
	in, out := q.InPlanned, 0
	if q.NIn != nil {
		in = *q.NIn
	}
	if n, ok := q.OutTokens.Finite(); ok {
		out = int(n)
	}
	text := ""
	if q.Class == record.OK {
		b.completed++
		b.in += in
		b.out += out
		b.latencies(q, out)
	} else {
		b.failed++
		text = string(q.Class)
		if q.Detail != "" {
			text += ": " + q.Detail
		}
	}
	gaps := make([]float64, len(q.EventGaps))
	for i, ms := range q.EventGaps {
		gaps[i] = ms / 1e3
	}
	start := q.Wrote
	if !start.Reached() {
		start = q.Sched
	}
	a.InputLens, a.OutputLens = append(a.InputLens, in), append(a.OutputLens, out)
	a.TTFTs, a.ITLs = append(a.TTFTs, inSeconds(q.TTFTSend)), append(a.ITLs, gaps)
	a.Latencies, a.StartTimes = append(a.Latencies, inSeconds(q.E2ESend)), append(a.StartTimes, float64(start)/1e9)
	a.Errors = append(a.Errors, text)
	a.TTFTsSchedule, a.LatenciesSchedule = append(a.TTFTsSchedule, inSeconds(q.TTFT)), append(a.LatenciesSchedule, inSeconds(q.E2E))
}

// latencies takes what the statistics are of: time per output token as vLLM has it, from both ends of the request.
func (b *vllmBench) latencies(q *request, out int) {
	b.ttft.add(q.TTFTSend)
	b.e2e.add(q.E2ESend)
	b.itl.list(q.EventGaps)
	ttft, streamed := q.TTFTSend.Finite()
	e2e, ended := q.E2ESend.Finite()
	b.streamed = b.streamed || streamed
	if streamed && ended && out > 1 {
		b.tpot.add(record.Of((e2e - ttft) / float64(out-1)))
	}
}

func inSeconds(v record.Value) float64 {
	ms, _ := v.Finite()
	return ms / 1e3
}

// file is the object that is written: statistics by name, then the arrays.
func (b *vllmBench) file() any {
	f := map[string]any{
		"date": b.date, "backend": b.backend, "model_id": b.model, "duration": b.seconds, "num_prompts": b.completed + b.failed,
		"completed": b.completed, "failed": b.failed, "total_input_tokens": b.in, "total_output_tokens": b.out,
		"request_throughput": float64(b.completed) / b.seconds, "request_goodput": nil,
		"output_throughput": float64(b.out) / b.seconds, "total_token_throughput": float64(b.in+b.out) / b.seconds,
	}
	if b.hasGood {
		f["request_goodput"] = b.good / b.seconds
	}
	for name, v := range map[string]values{"ttft": b.ttft, "tpot": b.tpot, "itl": b.itl, "e2el": b.e2e} {
		s := v.summarise(1)
		put := func(statistic string, x func() float64, ok bool) {
			key := statistic + "_" + name + "_ms"
			f[key] = nil
			if s != nil && ok {
				f[key] = x()
			}
		}
		put("mean", func() float64 { return s.mean }, true)
		put("std", func() float64 { return s.std }, true)
		put("median", func() float64 { return s.linear(0.5) }, true)
		for _, p := range []int{50, 90, 95, 99} {
			q := float64(p) / 100
			put(fmt.Sprintf("p%d", p), func() float64 { return s.linear(q) }, s != nil && enough(q, s.n))
		}
	}
	if !b.streamed {
		b.arrays.TTFTs, b.arrays.ITLs, b.arrays.TTFTsSchedule = nil, nil, nil
	}
	return vllmFile{f, b.arrays}
}

// vllmFile writes its statistics and its arrays as one object.
type vllmFile struct {
	statistics map[string]any
	vllmArrays
}

// MarshalJSON joins both parts; the keys of a map are written sorted, so that the same run gives the same bytes.
func (f vllmFile) MarshalJSON() ([]byte, error) {
	head, err := json.Marshal(f.statistics)
	if err != nil {
		return nil, err
	}
	tail, err := json.Marshal(f.vllmArrays)
	if err != nil {
		return nil, err
	}
	return append(append(head[:len(head)-1], ','), tail[1:]...), nil
}
