package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// every counts all requests of the scenario's length: a client that keeps no ids cannot say more.
func every(string) bool { return true }

// number reads one value of a decoded JSON tree, NaN when it is not there.
func number(tree any, path ...string) float64 {
	for _, key := range path {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				return math.NaN()
			}
			tree = node[i]
		default:
			return math.NaN()
		}
	}
	if x, ok := tree.(float64); ok {
		return x
	}
	return math.NaN()
}

// count is a number that counts; what is not there counts nothing.
func count(tree any, path ...string) int {
	x := number(tree, path...)
	if math.IsNaN(x) {
		return 0
	}
	return int(x)
}

func readTree(path string) (any, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var tree any
	return tree, json.Unmarshal(text, &tree)
}

// said makes figures of a tree, or errNoFigures when the time to the first token is not in it.
func said(f figures) (figures, func(string) bool, error) {
	if math.IsNaN(f.ttft.mean) {
		return f, nil, errNoFigures
	}
	return f, every, nil
}

// readOurs takes the times from the samples of the run folder; they count from the scheduled instant, not from the sent
// request as the others' do. The plain scenario is a selftest's.
func readOurs(s scenario, dir string, out []byte) (figures, func(string) bool, error) {
	if s.plain {
		var tree any
		if err := json.Unmarshal(out, &tree); err != nil {
			return figures{}, nil, err
		}
		f := figures{requests: count(tree, "sent"), rate: number(tree, "requests_per_s"), ttft: unknown(), gap: unknown()}
		if math.IsNaN(f.rate) {
			return f, nil, errNoFigures
		}
		return f, every, nil
	}
	folder, err := record.Open(filepath.Join(dir, "run"))
	if err != nil {
		return figures{}, nil, err
	}
	defer folder.Close() //nolint:errcheck // read only
	f := figures{rate: math.NaN()}
	ids := map[string]bool{}
	var ttft, gaps []float64
	streams := map[int]record.Stream{}
	for stream, err := range folder.Streams(0) {
		if err != nil {
			return f, nil, err
		}
		streams[stream.Seq] = stream
	}
	for sample, err := range folder.Samples(0) {
		if err != nil {
			return f, nil, err
		}
		if sample.Phase != record.PhaseMeasure {
			continue
		}
		if sample.Class != record.OK {
			f.failed++
			continue
		}
		f.requests++
		ids[sample.RequestID] = true
		ttft = append(ttft, ms(int64(sample.First-sample.Sched)))
		for _, gap := range streams[sample.Seq].T[1:] {
			gaps = append(gaps, ms(gap))
		}
	}
	f.ttft, f.gap = spreadOf(ttft), spreadOf(gaps)
	return f, func(id string) bool { return ids[id] }, nil
}

func readVLLM(_ scenario, dir string, _ []byte) (figures, func(string) bool, error) {
	tree, err := readTree(filepath.Join(dir, "result.json"))
	if err != nil {
		return figures{}, nil, err
	}
	return said(figures{
		ttft:     spread{number(tree, "mean_ttft_ms"), number(tree, "p99_ttft_ms")},
		gap:      spread{number(tree, "mean_itl_ms"), number(tree, "p99_itl_ms")},
		requests: count(tree, "completed"), failed: count(tree, "failed"), rate: number(tree, "request_throughput"),
	})
}

// readAIPerf prefers the gaps between chunks; its inter-token latency is a mean per request.
func readAIPerf(_ scenario, dir string, _ []byte) (figures, func(string) bool, error) {
	tree, err := readTree(filepath.Join(dir, "out", "profile_export_aiperf.json"))
	if err != nil {
		return figures{}, nil, err
	}
	at := func(name string) spread { return spread{number(tree, name, "avg"), number(tree, name, "p99")} }
	gap := at("inter_chunk_latency")
	if math.IsNaN(gap.mean) {
		gap = at("inter_token_latency")
	}
	return said(figures{
		ttft: at("time_to_first_token"), gap: gap,
		requests: count(tree, "request_count", "avg"), failed: count(tree, "error_request_count", "avg"), rate: number(tree, "request_throughput", "avg"),
	})
}

func readGuideLLM(_ scenario, dir string, _ []byte) (figures, func(string) bool, error) {
	tree, err := readTree(filepath.Join(dir, "result.json"))
	if err != nil {
		return figures{}, nil, err
	}
	at := func(name string) spread {
		path := []string{"benchmarks", "0", "metrics", name, "successful"}
		return spread{number(tree, append(path, "mean")...), number(tree, append(path, "percentiles", "p99")...)}
	}
	totals := []string{"benchmarks", "0", "metrics", "request_totals"}
	return said(figures{
		ttft: at("time_to_first_token_ms"), gap: at("inter_token_latency_ms"),
		requests: count(tree, append(totals, "successful")...), failed: count(tree, append(totals, "errored")...),
		rate: number(tree, "benchmarks", "0", "metrics", "requests_per_second", "successful", "mean"),
	})
}

// readInferencePerf reads seconds.
func readInferencePerf(_ scenario, dir string, _ []byte) (figures, func(string) bool, error) {
	tree, err := readTree(filepath.Join(dir, "out", "summary_lifecycle_metrics.json"))
	if err != nil {
		return figures{}, nil, err
	}
	at := func(name string) spread {
		path := []string{"successes", "latency", name}
		return spread{1e3 * number(tree, append(path, "mean")...), 1e3 * number(tree, append(path, "p99")...)}
	}
	return said(figures{
		ttft: at("time_to_first_token"), gap: at("inter_token_latency"),
		requests: count(tree, "successes", "count"), failed: count(tree, "failures", "count"),
		rate: number(tree, "successes", "throughput", "requests_per_sec"),
	})
}

// plain makes figures of a rate.
func plain(requests, failed int, rate float64) (figures, func(string) bool, error) {
	f := figures{requests: requests, failed: failed, rate: rate, ttft: unknown(), gap: unknown()}
	if math.IsNaN(rate) || rate <= 0 {
		return f, nil, errNoFigures
	}
	return f, every, nil
}

var (
	wrkRate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	wrkCount  = regexp.MustCompile(`(\d+) requests in`)
	wrkFailed = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	heyRate   = regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`)
	heyCount  = regexp.MustCompile(`\[200\]\s+(\d+) responses`)
	heyFailed = regexp.MustCompile(`\[[^2]\d\d\]\s+(\d+) responses`)
)

// match reads the first group of a pattern as a number, NaN when it is not there.
func match(re *regexp.Regexp, out []byte) float64 {
	m := re.FindSubmatch(out)
	if m == nil {
		return math.NaN()
	}
	x, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

func whole(x float64) int {
	if math.IsNaN(x) {
		return 0
	}
	return int(x)
}

func readWrk(_ scenario, _ string, out []byte) (figures, func(string) bool, error) {
	return plain(whole(match(wrkCount, out)), whole(match(wrkFailed, out)), match(wrkRate, out))
}

func readHey(_ scenario, _ string, out []byte) (figures, func(string) bool, error) {
	return plain(whole(match(heyCount, out)), whole(match(heyFailed, out)), match(heyRate, out))
}

func readOha(_ scenario, _ string, out []byte) (figures, func(string) bool, error) {
	var tree any
	if err := json.Unmarshal(bytes.TrimSpace(out), &tree); err != nil {
		return figures{}, nil, err
	}
	ok := count(tree, "statusCodeDistribution", "200")
	rate := number(tree, "summary", "requestsPerSec")
	return plain(ok, int(math.Round((1-number(tree, "summary", "successRate"))*float64(ok))), rate)
}

// readVegeta takes the rate of answers: its "rate" counts what was sent.
func readVegeta(_ scenario, _ string, out []byte) (figures, func(string) bool, error) {
	var tree any
	if err := json.Unmarshal(out, &tree); err != nil {
		return figures{}, nil, err
	}
	n := count(tree, "requests")
	ok := count(tree, "status_codes", "200")
	return plain(ok, n-ok, number(tree, "throughput"))
}
