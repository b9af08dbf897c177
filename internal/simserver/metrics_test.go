package simserver

import (
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func (in *instance) families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	_, text := in.get(t, "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families
}

// gauge is the sum over the series of a gauge or counter.
func (in *instance) gauge(t *testing.T, name string) float64 {
	t.Helper()
	f, ok := in.families(t)[name]
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	sum := 0.0
	for _, m := range f.GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

func TestMetrics(t *testing.T) {
	in := start(t, quick(func(c *Config) {
		c.Model, c.BlockTokens, c.CacheBlocks = `a "model"`, 2, 50
		c.Errors = []Fault{{Kind: FaultTruncated, Every: 4}}
	}))
	for range 3 {
		in.ask(t, `{"prompt":"a b c d e","max_tokens":6}`)
	}
	in.post(t, completionPath, `{"prompt":"a b c d e","max_tokens":6,"stream":true}`)
	in.settled(t)
	want := map[string]float64{
		"vllm:prompt_tokens_total":        20,
		"vllm:generation_tokens_total":    21, // the truncated answer stops at 3
		"vllm:request_success_total":      4,
		"vllm:prefix_cache_queries_total": 20,
		"vllm:prefix_cache_hits_total":    12,
		"vllm:num_requests_running":       0,
		"vllm:num_requests_waiting":       0,
		"vllm:kv_cache_usage_perc":        0,
		"vllm:num_preemptions_total":      0,
	}
	for name, v := range want {
		if got := in.gauge(t, name); got != v {
			t.Errorf("%s is %v, want %v", name, got, v)
		}
	}
	families := in.families(t)
	for _, name := range []string{
		"vllm:request_queue_time_seconds", "vllm:time_to_first_token_seconds", "vllm:e2e_request_latency_seconds",
	} {
		h := families[name].GetMetric()[0].GetHistogram()
		buckets := h.GetBucket()
		last := buckets[len(buckets)-1]
		if h.GetSampleCount() != 4 || last.GetCumulativeCount() != 4 || !math.IsInf(last.GetUpperBound(), 1) {
			t.Errorf("%s: %v", name, h)
		}
	}
	label := families["vllm:prompt_tokens_total"].GetMetric()[0].GetLabel()
	if len(label) != 2 || label[0].GetValue() != `a "model"` {
		t.Errorf("labels %v", label)
	}
	if families["process_start_time_seconds"].GetMetric()[0].GetGauge().GetValue() != 1.7e9 {
		t.Errorf("start time %v", families["process_start_time_seconds"])
	}
}

func TestHistogramBounds(t *testing.T) {
	h := newHistogram(0.001, 0.01)
	for _, ns := range []int64{0, 1e6, 1e6 + 1, 1e7, 1e9} { // bounds are inclusive
		h.observe(ns)
	}
	if h.counts[0] != 2 || h.counts[1] != 2 || h.counts[2] != 1 {
		t.Errorf("counts %v", h.counts)
	}
}
