package simserver

import (
	"fmt"
	"io"
	"strconv"
	"sync"
)

// meters are what the server itself measures, under vLLM's names. Safe for concurrent use.
type meters struct {
	mu       sync.Mutex
	finished map[string]int64 // by reason
	ttft     histogram
	e2e      histogram
	queue    histogram
}

func newMeters() *meters {
	return &meters{
		finished: map[string]int64{"stop": 0, "length": 0, "abort": 0, "error": 0},
		ttft:     newHistogram(.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80),
		e2e:      newHistogram(.01, .05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120),
		queue:    newHistogram(.001, .01, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120),
	}
}

// observe takes a request that reached the engine and ended. Requests without a token have no latency.
func (m *meters) observe(t *ticket) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case t.entry.Outcome == "aborted":
		m.finished["abort"]++
	case t.fate != "":
		m.finished["error"]++
	default:
		m.finished[t.call.finish]++
	}
	if t.due.Load() == 0 {
		return
	}
	m.queue.observe(t.admitted - t.arrival)
	m.ttft.observe(t.at[0] - t.arrival)
	m.e2e.observe(t.at[t.due.Load()-1] - t.arrival)
}

// histogram is a Prometheus one, in seconds.
type histogram struct {
	bounds []float64
	counts []int64 // one more than bounds
	sum    float64
}

func newHistogram(bounds ...float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(ns int64) {
	s := float64(ns) / 1e9
	i := 0
	for i < len(h.bounds) && s > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += s
}

// page writes the exposition format 0.0.4.
type page struct {
	w      io.Writer
	labels string
}

// scrape writes everything that GET /metrics shows.
func (s *server) scrape(w io.Writer) {
	p := page{w: w, labels: `model_name=` + strconv.Quote(s.cfg.Model) + `,engine="0"`}
	var waiting int
	var c tally
	s.driver.look(func(e *engine) { c, waiting = e.tally, e.waiting() })
	p.one("vllm:num_requests_running", "gauge", "Requests in the batch.", float64(c.admitted))
	p.one("vllm:num_requests_waiting", "gauge", "Requests waiting for a place in it.", float64(waiting))
	p.one("vllm:kv_cache_usage_perc", "gauge", "Share of the KV cache in use, 1 is all.",
		min(float64(c.heldTokens)/float64(s.cfg.KVTokens), 1))
	p.one("vllm:num_preemptions_total", "counter", "Preemptions; this engine has none.", 0)
	p.one("vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.", float64(c.cacheQueries))
	p.one("vllm:prefix_cache_hits_total", "counter", "Tokens found there.", float64(c.cacheHits))
	p.one("vllm:prompt_tokens_total", "counter", "Prompt tokens of admitted requests.", float64(c.promptTokens))
	p.one("vllm:generation_tokens_total", "counter", "Tokens generated.", float64(c.generatedTokens))
	s.meters.write(p)
	p.labels = ""
	p.one("process_start_time_seconds", "gauge", "Start of the server, Unix time.", float64(s.started.UnixNano())/1e9)
}

func (m *meters) write(p page) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p.head("vllm:request_success_total", "counter", "Finished requests.")
	for _, reason := range []string{"stop", "length", "abort", "error"} {
		p.sample("vllm:request_success_total", `,finished_reason="`+reason+`"`, float64(m.finished[reason]))
	}
	p.histogram("vllm:request_queue_time_seconds", "From arrival to admission.", &m.queue)
	p.histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", &m.ttft)
	p.histogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", &m.e2e)
}

func (p page) head(name, kind, help string) {
	fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p page) sample(name, more string, v float64) {
	labels := p.labels + more
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p.w, "%s%s %s\n", name, labels, strconv.FormatFloat(v, 'g', -1, 64))
}

func (p page) one(name, kind, help string, v float64) {
	p.head(name, kind, help)
	p.sample(name, "", v)
}

func (p page) histogram(name, help string, h *histogram) {
	p.head(name, "histogram", help)
	total := int64(0)
	for i, n := range h.counts {
		total += n
		bound := "+Inf"
		if i < len(h.bounds) {
			bound = strconv.FormatFloat(h.bounds[i], 'g', -1, 64)
		}
		p.sample(name+"_bucket", `,le="`+bound+`"`, float64(total))
	}
	p.sample(name+"_sum", "", h.sum)
	p.sample(name+"_count", "", float64(total))
}
