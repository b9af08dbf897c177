package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner/workload"
	"github.com/tailgate-ci/tailgate/workloads"
)

// loadFlags are what `tailgate load` takes from the command line. Those about the server are named as in `tailgate probe`,
// those about the run as the keys of .tailgate.yaml.
type loadFlags struct {
	apiFlags
	workload, out            string
	headers, limits          []string
	measure, think, selfTest time.Duration
	concurrency, maxInFlight int
	slo                      []string
	window, warmupCap        time.Duration
	band, trend              string
	trendWindows             int
	asJSON                   bool
}

func (fl *loadFlags) register(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&fl.workload, "workload", "", "the workload's folder, or "+listed(builtinWorkloads())+" (required)")
	f.StringArrayVar(&fl.headers, "header", nil, "header to send, 'Name: value'; repeatable")
	f.StringSliceVar(&fl.limits, "limit", nil, "limit on each request: first_event=2s, idle=, total=, dial=, drain= or no_progress=; repeatable")
	f.DurationVar(&fl.measure, "measure", 0, "length of the measured interval (default: 1m, or the whole workload when it is shorter)")
	f.StringSliceVar(&fl.slo, "slo", nil, "limit on the round, such as ttft_p99=800ms or error_rate=1%; repeatable, or with commas")
	f.IntVar(&fl.concurrency, "concurrency", 0, "closed loop of so many slots instead of the workload's schedule; hides overload")
	f.DurationVar(&fl.think, "think", 0, "rest of a closed loop's slot between two requests")
	f.IntVar(&fl.maxInFlight, "max-in-flight", 0, "most requests in flight of the open loop; waiting counts in latency")
	f.DurationVar(&fl.selfTest, "self-test", 2*time.Second, "how long the load generator measures its own error before; 0s skips it")
	f.DurationVar(&fl.window, "warmup-window", 10*time.Second, "length of a warm-up window")
	f.DurationVar(&fl.warmupCap, "warmup-cap", 10*time.Minute, "longest warm-up")
	f.StringVar(&fl.band, "warmup-band", "5%", "how far the last windows may lie from their mean")
	f.StringVar(&fl.trend, "warmup-trend", "3%", "largest change over the trend windows")
	f.IntVar(&fl.trendWindows, "warmup-trend-windows", 10, "windows over which the warm-up must show no trend, at least 5")
	f.StringVar(&fl.out, "out", "", "run folder to create (default: .tailgate/runs/ID)")
	f.BoolVar(&fl.asJSON, "json", false, "print judgement and figures as JSON, as report --format json does")
	fl.apiFlags.register(f)
}

// policy is the .tailgate.yaml that says what the flags say. It is stored with the run, so that a load is judged again like
// any other run; a single server carries the burden of proof, because there is no base that could share the doubt.
func (fl *loadFlags) policy() ([]byte, error) {
	slo, err := pairsOf("slo", fl.slo)
	if err != nil {
		return nil, err
	}
	limits, err := pairsOf("limit", fl.limits)
	if err != nil {
		return nil, err
	}
	duration := func(d time.Duration) string { return config.Duration(d).String() }
	load := []string{"measure: " + duration(fl.measure), "self_test: " + duration(fl.selfTest)}
	if fl.concurrency != 0 {
		load = append(load, "concurrency: "+strconv.Itoa(fl.concurrency))
	}
	if fl.think != 0 {
		load = append(load, "think: "+duration(fl.think))
	}
	if fl.maxInFlight != 0 {
		load = append(load, "max_in_flight: "+strconv.Itoa(fl.maxInFlight))
	}
	if fl.http2 {
		load = append(load, "http2: true")
	}
	if len(limits) > 0 {
		load = append(load, "limits: {"+strings.Join(limits, ", ")+"}")
	}
	lines := []string{
		"# The flags of a tailgate load, as a policy.", "version: 1", "load: {" + strings.Join(load, ", ") + "}",
		fmt.Sprintf("warmup: {window: %s, cap: %s, band: %q, trend: %q, trend_windows: %d}", duration(fl.window), duration(fl.warmupCap), fl.band, fl.trend, fl.trendWindows),
		"conditioning: {base: 0s, head_max: 0s}", "cooldown: {pause: 0s}", "telemetry: {gpu: optional}", "verdict: {slo_burden: proven}",
	}
	if len(slo) > 0 {
		lines = append(lines, "slo: {"+strings.Join(slo, ", ")+"}")
	}
	return []byte(strings.Join(lines, "\n") + "\n"), nil
}

var flagKey = regexp.MustCompile(`^[a-z0-9_]+$`)

// pairsOf writes name=value pairs of a flag as entries of a YAML mapping. What the names and values mean is checked there.
func pairsOf(flag string, pairs []string) ([]string, error) {
	var entries []string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !flagKey.MatchString(name) || value == "" {
			return nil, fmt.Errorf("--%s %q: want name=value, such as %s", flag, pair, map[string]string{"slo": "ttft_p99=800ms", "limit": "first_event=2s"}[flag])
		}
		entries = append(entries, fmt.Sprintf("%s: %q", name, value))
	}
	return entries, nil
}

// inFlags turns the words of the file into those of the command line.
var inFlags = strings.NewReplacer(
	"load.limits.", "--limit ", "load.max_in_flight", "--max-in-flight", "load.concurrency", "--concurrency", "load.measure", "--measure",
	"load.think", "--think", "load.http2", "--http2", "load.self_test", "--self-test", "warmup.windows", "the windows that must agree,", "warmup.trend_windows", "--warmup-trend-windows", "warmup.window", "--warmup-window", "warmup.cap", "--warmup-cap",
	"warmup.band", "--warmup-band", "warmup.trend", "--warmup-trend", "slo.", "--slo ", "load.limits", "--limit", "slo:", "--slo:",
)

// parsePolicy reads what the flags say by the rules of the file. A mistake is told in the words of the command line.
func parsePolicy(text []byte) (*config.File, error) {
	f, err := config.Parse("flags", text)
	if wrong, ok := errors.AsType[*config.Error](err); ok {
		return nil, usage(errors.New(inFlags.Replace(wrong.Text)), inFlags.Replace(wrong.Hint))
	}
	return f, err
}

func parseHeaders(lines []string) (http.Header, error) {
	h := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("--header %q: want 'Name: value'", line)
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

// builtinWorkloads are the workloads that come with tailgate.
func builtinWorkloads() []string {
	entries, err := workloads.FS.ReadDir(".")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// listed writes words as "a or b".
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// openWorkload opens a folder, or a workload that comes with tailgate: a folder of that name wins.
func openWorkload(name string) (*workload.Workload, error) {
	builtin := "one that comes with tailgate: " + listed(builtinWorkloads())
	if name == "" {
		return nil, usage(errors.New("no workload: what should be sent?"), "name a folder with --workload, or "+builtin)
	}
	w, err := workload.Open(name)
	if err == nil {
		return w, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, usage(err, "check it with `tailgate workload check "+name+"`")
	}
	if info, statErr := fs.Stat(workloads.FS, name); !fs.ValidPath(name) || statErr != nil || !info.IsDir() || strings.Contains(name, "/") {
		return nil, usage(fmt.Errorf("workload %s: no such folder", name), "name the folder that holds manifest.json, or "+builtin)
	}
	tmp, err := os.MkdirTemp("", "tailgate-workload-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp) //nolint:errcheck // a leftover in the temporary folder harms nobody
	if err := copyWorkload(tmp, name); err != nil {
		return nil, err
	}
	return workload.Open(filepath.Join(tmp, name))
}
