package export

import (
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// llmdVersion is the version of the Benchmark Report that is written. Its schema forbids keys of ours: what we have to add
// stands in scenario.load.native.config.
const llmdVersion = "0.2.1"

// llmd writes one Benchmark Report per round. Latencies count from the schedule and cover successes; percentiles are by
// nearest rank and left out below the smallest number of samples.
func llmd(r *run, create Create) error {
	for _, rd := range r.rounds {
		list, err := r.measured(rd)
		if err != nil {
			return err
		}
		series, err := r.timeSeries(rd)
		if err != nil {
			return err
		}
		report := llmdReport{
			Version:  llmdVersion,
			Run:      r.llmdRun(rd),
			Scenario: llmdScenario{llmdLoad{llmdMetadata{Description: r.Workload.Name}, r.llmdStandard(), llmdNative{r.llmdConfig(rd)}}},
			Results:  llmdResults{llmdPerformance{aggregate(rd, list), series}},
		}
		err = into(create, "llmd-"+roundName(rd)+".json", func(w io.Writer) error {
			enc := json.NewEncoder(w)
			enc.SetIndent("", "  ")
			return enc.Encode(report)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

type llmdReport struct {
	Version  string       `json:"version"`
	Run      llmdRun      `json:"run"`
	Scenario llmdScenario `json:"scenario"`
	Results  llmdResults  `json:"results"`
}

type llmdRun struct {
	UID  string   `json:"uid"`
	EID  string   `json:"eid"`
	Time llmdTime `json:"time"`
}

type llmdTime struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Duration string    `json:"duration"`
}

type llmdScenario struct {
	Load llmdLoad `json:"load"`
}

type llmdLoad struct {
	Metadata     llmdMetadata `json:"metadata"`
	Standardized llmdStandard `json:"standardized"`
	Native       llmdNative   `json:"native"`
}

type llmdMetadata struct {
	Description string `json:"description"`
}

type llmdStandard struct {
	Tool        string      `json:"tool"`
	ToolVersion string      `json:"tool_version"`
	Source      string      `json:"source"`
	Input       llmdLength  `json:"input_seq_len"`
	Output      *llmdLength `json:"output_seq_len,omitempty"`
	RateQPS     *float64    `json:"rate_qps,omitempty"`
}

type llmdLength struct {
	Distribution string `json:"distribution"`
	Value        int    `json:"value"`
	Max          *int   `json:"max,omitempty"`
}

type llmdNative struct {
	Config map[string]any `json:"config"`
}

type llmdResults struct {
	Performance llmdPerformance `json:"request_performance"`
}

type llmdPerformance struct {
	Aggregate  llmdAggregate   `json:"aggregate"`
	TimeSeries *llmdTimeSeries `json:"time_series,omitempty"`
}

func (r *run) llmdRun(rd *record.Round) llmdRun {
	return llmdRun{
		UID: r.ID + "-" + roundName(rd), EID: r.ID,
		Time: llmdTime{r.wall(rd.Phases.M0), r.wall(rd.Phases.M1), "PT" + strconv.FormatFloat(seconds(rd), 'f', -1, 64) + "S"},
	}
}

// wall is the wall time of an instant, as the epoch's clock had it.
func (r *run) wall(at record.Instant) time.Time { return r.Epoch.UTC().Add(time.Duration(at)) }

func (r *run) llmdStandard() llmdStandard {
	s := llmdStandard{Tool: "tailgate", ToolVersion: r.Tailgate.Version, Source: "unknown", Input: lengths(r.Workload.InTokens)}
	if r.Workload.OutTokens.Max > 0 {
		s.Output = new(lengths(r.Workload.OutTokens))
	}
	if rate, ok := r.Workload.Rate.Finite(); ok && rate > 0 {
		s.RateQPS = &rate
	}
	return s
}

func lengths(q record.Quantiles) llmdLength {
	l := llmdLength{Distribution: "other", Value: max(0, q.P50)}
	if q.Max > 0 {
		l.Max = &q.Max
	}
	return l
}

// llmdConfig is what the report has no place for: which round it is, whether it counts, how it was measured.
func (r *run) llmdConfig(rd *record.Round) map[string]any {
	config := map[string]any{
		"slot": rd.Slot, "arm": rd.Arm, "pair": rd.Pair, "workload": r.Workload.Name, "workload_digest": r.Workload.Digest,
		"dialect": r.Declared.Load.Dialect, "load": r.Declared.Load.Kind, "latency_from": "schedule", "latency_over": "successes",
		"percentiles": "nearest rank", "outcomes": rd.Counts.Classes, "flags": append([]string{}, rd.Flags...), "valid": true,
	}
	if v, void := r.void[rd.Slot]; void {
		config["valid"], config["void_rule"], config["void_evidence"] = false, v.Rule, v.Evidence
	}
	return config
}

type llmdAggregate struct {
	Requests   llmdRequests               `json:"requests"`
	Latency    map[string]llmdStatistics  `json:"latency"`
	Throughput map[string]*llmdStatistics `json:"throughput"`
}

type llmdRequests struct {
	Total      int             `json:"total"`
	Failures   int             `json:"failures"`
	Incomplete int             `json:"incomplete"`
	Input      *llmdStatistics `json:"input_length,omitempty"`
	Output     *llmdStatistics `json:"output_length,omitempty"`
}

// aggregate sums the requests of a round up. Incomplete are those that neither succeeded nor failed at an attempt.
func aggregate(rd *record.Round, list []request) llmdAggregate {
	a := llmdAggregate{
		Requests: llmdRequests{Total: rd.Counts.Scheduled, Failures: rd.Counts.Failures()},
		Latency:  map[string]llmdStatistics{}, Throughput: map[string]*llmdStatistics{},
	}
	a.Requests.Incomplete = a.Requests.Total - a.Requests.Failures - rd.Counts.Classes[record.OK]
	var in, out, ttft, tpot, itl, ntpot, e2e values
	for i := range list {
		q := &list[i]
		if q.Class != record.OK {
			continue
		}
		if q.NIn != nil {
			in.add(record.Of(float64(*q.NIn)))
		}
		out.add(q.OutTokens)
		ttft.add(q.TTFT)
		tpot.add(q.TPOT)
		e2e.add(q.E2E)
		itl = append(itl, q.ITL...)
		if n, ok := q.OutTokens.Finite(); ok && n > 0 {
			if ms, ok := q.E2E.Finite(); ok {
				ntpot.add(record.Of(ms / n))
			}
		}
	}
	a.Requests.Input, a.Requests.Output = statisticsOf(in, 1, "count"), statisticsOf(out, 1, "count")
	const ms = 1e-3
	for name, s := range map[string]*llmdStatistics{
		"time_to_first_token": statisticsOf(ttft, ms, "s"), "time_per_output_token": statisticsOf(tpot, ms, "s/token"),
		"inter_token_latency": statisticsOf(itl, ms, "s/token"), "normalized_time_per_output_token": statisticsOf(ntpot, ms, "s/token"),
		"request_latency": statisticsOf(e2e, ms, "s"),
	} {
		if s != nil {
			a.Latency[name] = *s
		}
	}
	rates(a.Throughput, rd)
	return a
}

// rates fills in throughput: means over the measured interval, as the round has them.
func rates(into map[string]*llmdStatistics, rd *record.Round) {
	in, okIn := rd.Metrics["input_tps"].Finite()
	out, okOut := rd.Metrics["output_tps"].Finite()
	done, okDone := rd.Metrics["request_tps"].Finite()
	for _, rate := range []struct {
		name, units string
		mean        float64
		ok          bool
	}{
		{"input_token_rate", "tokens/s", in, okIn},
		{"output_token_rate", "tokens/s", out, okOut},
		{"total_token_rate", "tokens/s", in + out, okIn && okOut},
		{"request_rate", "queries/s", done, okDone},
	} {
		if rate.ok {
			into[rate.name] = &llmdStatistics{Units: rate.units, Mean: rate.mean}
		}
	}
}

// llmdStatistics are the statistics of one property. A percentile of too few samples is absent.
type llmdStatistics struct {
	Units  string   `json:"units"`
	Mean   float64  `json:"mean"`
	StdDev *float64 `json:"stddev,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	P0p1   *float64 `json:"p0p1,omitempty"`
	P1     *float64 `json:"p1,omitempty"`
	P5     *float64 `json:"p5,omitempty"`
	P10    *float64 `json:"p10,omitempty"`
	P25    *float64 `json:"p25,omitempty"`
	P50    *float64 `json:"p50,omitempty"`
	P75    *float64 `json:"p75,omitempty"`
	P90    *float64 `json:"p90,omitempty"`
	P95    *float64 `json:"p95,omitempty"`
	P99    *float64 `json:"p99,omitempty"`
	P99p9  *float64 `json:"p99p9,omitempty"`
	Max    *float64 `json:"max,omitempty"`
}

// statisticsOf takes the statistics of values times scale; nil without a value.
func statisticsOf(v values, scale float64, units string) *llmdStatistics {
	s := v.summarise(scale)
	if s == nil {
		return nil
	}
	out := &llmdStatistics{Units: units, Mean: s.mean, StdDev: &s.std, Min: new(s.nth(1)), Max: new(s.nth(s.n))}
	for q, into := range map[float64]**float64{
		0.001: &out.P0p1, 0.01: &out.P1, 0.05: &out.P5, 0.10: &out.P10, 0.25: &out.P25, 0.50: &out.P50, 0.75: &out.P75,
		0.90: &out.P90, 0.95: &out.P95, 0.99: &out.P99, 0.999: &out.P99p9,
	} {
		if enough(q, s.n) {
			*into = new(s.nearest(q))
		}
	}
	return out
}

type llmdTimeSeries struct {
	Latency    map[string]llmdSeries `json:"latency,omitempty"`
	Throughput map[string]llmdSeries `json:"throughput,omitempty"`
}

type llmdSeries struct {
	Units  string      `json:"units"`
	Series []llmdPoint `json:"series"`
}

type llmdPoint struct {
	TS    time.Time `json:"ts"`
	Value *float64  `json:"value,omitempty"`
	P50   *float64  `json:"p50,omitempty"`
	P99   *float64  `json:"p99,omitempty"`
}

// timeSeries turns a round's seconds into points, one per second at its start. Seconds without a value have no point; nil
// when the round has no seconds.
func (r *run) timeSeries(rd *record.Round) (*llmdTimeSeries, error) {
	t := &llmdTimeSeries{map[string]llmdSeries{}, map[string]llmdSeries{}}
	for w, err := range r.folder.Windows(rd.Slot) {
		if err != nil {
			return nil, err
		}
		ts := r.wall(w.T)
		for _, l := range []struct {
			name, units string
			h           *record.Histogram
		}{{"time_to_first_token", "s", &w.TTFT}, {"inter_token_latency", "s/token", &w.ITL}, {"request_latency", "s", &w.E2E}} {
			p50, ok50 := l.h.P50.Finite()
			p99, ok99 := l.h.P99.Finite()
			if ok50 && ok99 {
				t.Latency[l.name] = extended(t.Latency[l.name], l.units, llmdPoint{TS: ts, P50: new(p50 / 1e3), P99: new(p99 / 1e3)})
			}
		}
		length := w.Length.Seconds()
		in, okIn := w.InTokens.Finite()
		out, okOut := w.OutTokens.Finite()
		for _, c := range []struct {
			name, units string
			count       float64
			ok          bool
		}{
			{"input_token_rate", "tokens/s", in, okIn},
			{"output_token_rate", "tokens/s", out, okOut},
			{"total_token_rate", "tokens/s", in + out, okIn && okOut},
			{"request_rate", "queries/s", float64(w.OK), true},
		} {
			if c.ok {
				t.Throughput[c.name] = extended(t.Throughput[c.name], c.units, llmdPoint{TS: ts, Value: new(c.count / length)})
			}
		}
	}
	if len(t.Throughput) == 0 {
		return nil, nil //nolint:nilnil // a round without seconds has no series, which is no error
	}
	return t, nil
}

func extended(s llmdSeries, units string, p llmdPoint) llmdSeries {
	return llmdSeries{units, append(s.Series, p)}
}
