package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// simulated starts a simulated server and returns its address and its process.
func simulated(t *testing.T, config string) (string, *os.Process) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "sim.json", config)
	cmd := exec.CommandContext(t.Context(), tailgate(t), "sim", "--config", filepath.Join(dir, "sim.json"), "--port", "0")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "listening on "); ok {
			url, _, _ := strings.Cut(rest, " ")
			return url, cmd.Process
		}
	}
	t.Fatalf("the simulated server does not listen: %v", lines.Err())
	return "", nil
}

// regular writes a workload of n equal requests, one every gap, and returns its folder.
func regular(t *testing.T, n int, gap time.Duration, tokens int) string {
	t.Helper()
	turns := make([]workload.Turn, n)
	for i := range turns {
		id := fmt.Sprintf("r%05d", i)
		turns[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * gap, InTokens: 10,
			Prompt: &workload.Text{Inline: id + " asks for a word or two of yours"}, Out: workload.Output{Mode: workload.Force, Tokens: tokens},
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "regular", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(time.Duration(n) * gap)}, Output: workload.OutputPolicy{Mode: workload.Force},
	}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "regular")
	if err := workload.Write(dir, w); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A server stopped for 6 s of a 60 s round at 50 requests/s: a tenth of the requests waits, half of those for more than 3 s.
func TestE2ETruthStoppedServer(t *testing.T) {
	requireE2E(t)
	url, p := simulated(t, `{}`)
	dir, out := regular(t, 6000, 20*time.Millisecond, 4), filepath.Join(t.TempDir(), "run")
	measuring := make(chan struct{})
	go func() {
		for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			journal, err := os.ReadFile(filepath.Join(out, "journal.jsonl"))
			if err == nil && strings.Contains(string(journal), `"measure"`) {
				close(measuring)
				return
			}
		}
	}()
	go func() {
		<-measuring
		time.Sleep(20 * time.Second)
		_ = p.Signal(syscall.SIGSTOP)
		time.Sleep(6 * time.Second)
		_ = p.Signal(syscall.SIGCONT)
	}()
	r := execute(t, t.TempDir(), out, nil, "load", url, "--workload", dir, "--measure", "60s", "--warmup-window", "500ms",
		"--warmup-trend-windows", "5", "--warmup-cap", "30s")
	// A round that the load generator could not vouch for (exit 4) has these figures all the same.
	if len(r.run.Rounds) != 1 || r.run.Rounds[0].State != record.RoundComplete {
		t.Fatalf("exit %d, %d rounds\n%s\n%s", r.code, len(r.run.Rounds), r.out, r.err)
	}
	rd := r.run.Rounds[0]
	if rd.Counts.Scheduled != 3000 || rd.Counts.Classes[record.OK] != 3000 {
		t.Errorf("counts %+v; want 3,000 requests, all ok", rd.Counts)
	}
	p95, ok := rd.Metrics["e2e_p95"].Finite()
	if !ok || p95 < 2900 || p95 > 3500 {
		t.Errorf("E2E p95 is %v ms, want 2,900 to 3,500", p95)
	}
	t.Logf("E2E p50 %v, p95 %v, p99 %v", rd.Metrics["e2e_p50"], rd.Metrics["e2e_p95"], rd.Metrics["e2e_p99"])
}

const cutPolicy = `version: 1
target:
  build: mkdir -p out && cp sim.json out/
  outputs: [out/**]
  start: exec %q sim --config out/sim.json --port "$PORT"
  ready: {path: /health, timeout: 10s}
  stop: {grace: 2s}
  per_event_tokens: usage
workload: %s
load: {measure: 6s, self_test: 0s}
warmup: {window: 500ms, windows: 3, band: 20%%, trend: 20%%, trend_windows: 5, cap: 30s}
rounds: {min: 3, max: 3, max_void: 6}
conditioning: {base: 0s, head_max: 0s}
cooldown: {pause: 0s}
telemetry: {gpu: off}
`

// One token each 10 ms on base, four each 40 ms on head: the same speed. TPOT and throughput say so, inter-token latency
// is not gated, and the report says why.
func TestE2ETruthCoalescedTokens(t *testing.T) {
	requireE2E(t)
	repo := t.TempDir()
	write(t, repo, ".tailgate.yaml", fmt.Sprintf(cutPolicy, tailgate(t), regular(t, 1500, 20*time.Millisecond, 40)))
	write(t, repo, ".gitignore", "/out/\n")
	command(t, repo, "git", "init", "-q", "-b", "main")
	for _, perEvent := range []int{1, 4} {
		if perEvent == 4 {
			command(t, repo, "git", "switch", "-q", "-c", "change")
		}
		write(t, repo, "sim.json", fmt.Sprintf(`{"decode_base": "10ms", "decode_per_seq": "0s", "tokens_per_event": %d}`+"\n", perEvent))
		commitAll(t, repo, fmt.Sprintf("Send %d tokens an event", perEvent))
	}
	r := execute(t, repo, filepath.Join(t.TempDir(), "run"), nil, "run", "--base", "main")
	median := func(arm record.Arm, key string) float64 {
		var xs []float64
		for _, rd := range r.run.Rounds {
			if x, ok := rd.Metrics[key].Finite(); ok && rd.Arm == arm {
				xs = append(xs, x)
			}
		}
		if len(xs) < 3 {
			t.Fatalf("%s of %s: %d rounds\n%s\n%s", key, arm, len(xs), r.out, r.err)
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	for _, key := range []string{"tpot_p50", "output_tps"} {
		base, head := median(record.Base, key), median(record.Head, key)
		t.Logf("%s: base %v, head %v", key, base, head)
		if math.Abs(head-base) > 0.01*base {
			t.Errorf("%s differs by more than 1 %%: base %v, head %v", key, base, head)
		}
	}
	said := false
	for _, n := range r.judgement.NotGated {
		said = said || strings.HasPrefix(n.Key, "itl_") && strings.Contains(n.Reason, "cut differently")
	}
	if !said {
		t.Errorf("not gated: %+v; verdict %s: %s", r.judgement.NotGated, r.judgement.Verdict, r.judgement.Line)
	}
}

// The speed rows of the targets at a tenth of their scale, with three times the room: what an instrument that is broken
// does not reach on any machine, nor in any of three tries on one that stalls now and then. No request may be lost or seen twice.
func TestE2ETruthSpeed(t *testing.T) {
	requireE2E(t)
	for _, row := range []struct {
		args []string
		want func(selftested) []string
	}{
		{[]string{"--streams", "10", "--events-per-s", "100"}, func(s selftested) []string {
			return limits(most(s.TTFT.Mean, 1.5), most(s.TTFT.P99, 6))
		}},
		{[]string{"--streams", "100", "--events-per-s", "100"}, func(s selftested) []string {
			return limits(most(s.TTFT.Mean, 9), most(s.TTFT.P99, 24), least(s.Events, 25_000./10/3))
		}},
		{[]string{"--rps", "100"}, func(s selftested) []string { return limits(most(s.Lag.P99, 1.5)) }},
		{[]string{"--rps", "500"}, func(s selftested) []string { return limits(most(s.Lag.P99, 3)) }},
		{[]string{"--connections", "32"}, func(s selftested) []string { return limits(least(s.Requests, 10_000./10/3)) }},
		{[]string{"--streams", "1000", "--events-per-s", "1"}, func(s selftested) []string { return limits(most(s.RSS, 60*3)) }},
	} {
		t.Run(strings.Join(row.args, " "), func(t *testing.T) {
			const tries = 3
			var missed []string
			for range tries {
				if missed = row.want(selftest(t, append(row.args, "--seconds", "5")...)); len(missed) == 0 {
					return
				}
				t.Log(missed)
			}
			t.Errorf("missed in each of %d tries: %s", tries, strings.Join(missed, "; "))
		})
	}
}

// A million requests, each seen once.
func TestE2ETruthMillion(t *testing.T) {
	requireE2E(t)
	s := selftest(t, "--connections", "32", "--requests", "1000000")
	if s.Sent != 1_000_000 {
		t.Errorf("sent %d", s.Sent)
	}
}

// selftested are the keys of the command's JSON that scripts read.
type selftested struct {
	TTFT     struct{ Mean, P99 *float64 } `json:"ttft_error_ms"`
	Lag      struct{ P99 *float64 }       `json:"pacer_lag_ms"`
	Events   *float64                     `json:"events_per_s"`
	Requests *float64                     `json:"requests_per_s"`
	RSS      *float64                     `json:"rss_kib_per_stream"`
	Sent     int                          `json:"sent"`
	Seen     int                          `json:"seen_by_server"`
	OK       int                          `json:"ok"`
	Measured int                          `json:"measured"`
}

func selftest(t *testing.T, args ...string) selftested {
	t.Helper()
	text := command(t, t.TempDir(), tailgate(t), append([]string{"selftest", "--json"}, args...)...)
	var s selftested
	_, object, _ := strings.Cut(text, "{") // the progress on standard error stands before it
	if err := json.Unmarshal([]byte("{"+object), &s); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if s.Sent != s.Seen || s.Sent == 0 || s.OK != s.Measured || s.OK == 0 {
		t.Errorf("sent %d, seen %d, %d of %d ok", s.Sent, s.Seen, s.OK, s.Measured)
	}
	return s
}

func most(x *float64, limit float64) string {
	if x == nil || *x > limit {
		return fmt.Sprintf("%s, want at most %v", figure(x), limit)
	}
	return ""
}

func least(x *float64, limit float64) string {
	if x == nil || *x < limit {
		return fmt.Sprintf("%s, want at least %v", figure(x), limit)
	}
	return ""
}

func figure(x *float64) string {
	if x == nil {
		return "n/a"
	}
	return fmt.Sprint(*x)
}

func limits(broken ...string) []string {
	return slices.DeleteFunc(broken, func(s string) bool { return s == "" })
}
