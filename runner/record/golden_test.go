package record

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/run and testdata/small anew")

// testdata/run is what an artifact of a whole session carries: run.json and a round.json for each of eight rounds of
// 5,000 requests, head 20 % slower to the first token; the samples behind it are too large to keep. testdata/small is
// one pair of 24 requests with all its files. Tests of other packages read both with Open.
func TestGoldenRuns(t *testing.T) {
	for name, write := range map[string]func(*testing.T, string){
		"run":   func(t *testing.T, dir string) { t.Helper(); writeGolden(t, dir, largeRound, 4, false) },
		"small": func(t *testing.T, dir string) { t.Helper(); writeGolden(t, dir, smallRound, 1, true) },
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOARCH != "amd64" {
				t.Skip("other machines fuse multiplications, which moves the fabricated instants by a nanosecond")
			}
			dir := filepath.Join(t.TempDir(), name)
			write(t, dir)
			golden := filepath.Join("testdata", name)
			if *update {
				if err := os.RemoveAll(golden); err != nil {
					t.Fatal(err)
				}
				if err := os.CopyFS(golden, os.DirFS(dir)); err != nil {
					t.Fatal(err)
				}
			}
			want, got := files(t, golden), files(t, dir)
			for path, text := range want {
				if !bytes.Equal(text, got[path]) {
					t.Errorf("%s differs from what the types write now; look at the change, then run with -update:\n%s", path, cmp.Diff(string(text), string(got[path])))
				}
				delete(got, path)
			}
			for path := range maps.Keys(got) {
				t.Errorf("%s is not in %s; run with -update", path, golden)
			}
		})
	}
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out[path], err = os.ReadFile(filepath.Join(dir, path))
			out[path] = plain(t, path, out[path])
		}
		return err
	})
	if err != nil {
		t.Fatalf("%v; run with -update", err)
	}
	return out
}

// plain undoes compression, whose bytes change with the version of Go.
func plain(t *testing.T, path string, text []byte) []byte {
	t.Helper()
	switch filepath.Base(path) {
	case eventsFile:
		z, err := gzip.NewReader(bytes.NewReader(text))
		must(t, err)
		text, err = io.ReadAll(z)
		must(t, err)
	case windowsFile:
		var out bytes.Buffer
		must(t, lines(bytes.NewReader(text), checkWindow, func(w Window) bool {
			for _, h := range []*Histogram{&w.TTFT, &w.ITL, &w.E2E, &w.PacerLag} {
				if h.HDR != "" {
					hdr, err := decodeHDR(h.HDR)
					must(t, err)
					h.HDR = fmt.Sprint(hdr.Distribution())
				}
			}
			must(t, writeLine(&out, w))
			return true
		}))
		text = out.Bytes()
	}
	return text
}

func largeRound(slot int, arm Arm) fabric {
	f := fabric{requests: 5000, rate: 12.5, slot: uint64(slot), ttft: 210, gap: 18, tokens: 12, cached: 0.31}
	if arm == Head {
		f.ttft *= 1.2
	}
	if slot == 2 {
		// A single failure in one round of head: seen, and no finding.
		f.failEvery = 4321
	}
	return f
}

func smallRound(slot int, arm Arm) fabric {
	f := largeRound(slot, arm)
	f.requests, f.rate, f.tokens = 24, 6, 8
	return f
}

// writeGolden writes a session of pairs as the runner does. Without whole, only the index files stay.
func writeGolden(t *testing.T, dir string, of func(int, Arm) fabric, pairs int, whole bool) {
	t.Helper()
	run := goldenRun(of(0, Base), pairs)
	w, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	must(t, w.Journal(Event{T: 1, Name: "planned"}))
	run.Status = StatusRunning
	for slot := range 2 * pairs {
		arm := run.Declared.Order[slot]
		f := of(slot, arm)
		f.m0 = second(200 + 900*slot)
		run.Rounds = append(run.Rounds, writeRound(t, w, f, slot, arm, run.Declared.SLO, whole))
		must(t, w.Save(run))
		must(t, w.Journal(Event{T: second(900*slot + 890), Name: "round_complete", Slot: new(slot), Arm: arm}))
	}
	run.Status, run.Finished = StatusComplete, second(900*2*pairs+5)
	must(t, w.Save(run))
	must(t, w.Journal(Event{T: run.Finished, Name: "complete"}))
	must(t, w.Close())
	// Inside a repository it would hide the golden files from git.
	must(t, os.Remove(filepath.Join(dir, ".gitignore")))
}

func writeRound(t *testing.T, w *Writer, f fabric, slot int, arm Arm, slo map[string]float64, whole bool) Round {
	t.Helper()
	samples, streams := f.make()
	rw, err := w.Round(slot, arm)
	if err != nil {
		t.Fatal(err)
	}
	in := f.interval(slo)
	rd := goldenRound(slot, arm, in, Summarise(samples, streams, in))
	if !whole {
		must(t, rw.Close(rd, nil, nil))
		must(t, os.Remove(filepath.Join(rw.Dir(), samplesFile)))
		return rd
	}
	for i := range samples {
		must(t, rw.Sample(samples[i], streams[i]))
	}
	must(t, rw.Close(rd, Windows(samples, streams, in.M0, in.M1), rd.Client))
	return rd
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// goldenRun is a session on a machine with one GPU, declared for up to eight pairs.
func goldenRun(f fabric, pairs int) *Run {
	const id = "20260302-091412-7f3a"
	sum := sha256.Sum256([]byte("tailgate/order/" + id))
	coin := int(sum[len(sum)-1] & 1)
	order := make([]Arm, 2*max(pairs, 8))
	for i := range order {
		order[i] = []Arm{Base, Head}[(bits.OnesCount(uint(i))%2)^coin]
	}
	measure := f.measure()
	run := &Run{
		ID: id, Kind: KindRevisions, Status: StatusPlanned, Epoch: time.Date(2026, 3, 2, 9, 14, 12, 408_221_907, time.UTC),
		Tailgate: Tool{Version: "0.1.0", Commit: "4b1f0c2"}, Command: "tailgate run --base main --head HEAD",
		Declared: Declared{
			Coin: coin, Order: order, Looks: []int{4, 6, 8}, Level: 0.023, Min: 4, Max: 8, MaxVoid: 2, Mode: "revisions",
			Warmup: Warmup{
				Window: 10 * time.Second, Windows: 5, Band: 0.05, MaxErrorRate: 0.001, Cap: 10 * time.Minute, Trend: 0.03, TrendWindows: 10,
			},
			Measure: measure, Load: Load{Kind: "open", Dialect: "openai-chat", Model: "small"}, Limits: DefaultLimits(),
			SLO:       map[string]float64{"ttft_p99": 800, "error_rate": 0.001},
			Policy:    PolicyRef{SHA256: hex64("policy"), Commit: commit("base"), Path: ".tailgate.yaml"},
			Telemetry: TelemetryPlan{GPU: "required", Interval: time.Second}, Conditioning: Conditioning{Base: 30 * time.Second, Head: 3 * time.Minute},
			Cooldown: time.Minute,
		},
		Workload: WorkloadInfo{
			Name: "chat", Version: 3, Digest: "sha256:" + hex64("workload"), Licence: "CC-BY-4.0", Source: "made up for this test",
			Requests: f.requests, Conversations: f.requests / 2, PrefixShare: Of(0.34), Rate: Of(f.rate),
			InTokens:  lengths(f, func(s Sample) int { return s.InPlanned }),
			OutTokens: lengths(f, func(s Sample) int { return s.OutPlanned }),
		},
		Arms: Arms{Base: goldenArm("base", "main", "merge-base"), Head: goldenArm("head", "HEAD", "ref")},
		Environment: Environment{
			Host: Host{Name: "gpu-runner-3", Kernel: "6.8.0-45-generic", CPU: "AMD EPYC 9354 32-Core Processor", Cores: 32, MemoryB: Of(270_582_939_648), Governor: "performance", OS: "linux", Arch: "amd64"},
			GPUs: []GPU{{
				UUID: gpuUUID, Name: "NVIDIA L4", Vendor: "nvidia", Driver: "550.90.07", PCI: "0000:17:00.0", MemTotalB: Of(24_152_899_584),
				PowerLimitMW: Of(72_000), PowerDefault: Of(72_000), SMMaxMHz: Of(2040), Persistence: "on", ComputeMode: "default", ECC: "on", MIG: "n/a", CUDA: "12.4",
			}},
			Caps:   map[string]map[string]string{gpuUUID: {"sm_mhz": "ok", "temp_c": "ok", "power_mw": "ok", "mem_temp_c": "not supported by this device"}},
			Runner: Runner{Name: "gpu-runner-3", URL: "https://github.com/acme/llm-server/actions/runs/13600000001"},
		},
		Fidelity: []Fidelity{
			{Measure: "prefix_share", Source: Of(0.36), Replay: Of(0.34), Ratio: Of(0.944), Limit: "within 10 %", Direction: Pessimistic, Reason: "conversations cut at the slice's edge lose their first turns"},
			{Measure: "text", Source: NA("the source has lengths only"), Replay: NA("synthetic words"), Ratio: NA("no text to compare"), Direction: Unknown, Reason: "the trace holds lengths, not texts"},
		},
		Incidents: []Incident{},
		Notes:     []Note{{ID: "base_ahead", Text: "the target branch is 3 commits ahead of the measured base"}},
	}
	return run
}

func lengths(f fabric, of func(Sample) int) Quantiles {
	var sorted []float64
	samples, _ := f.make()
	for _, s := range samples {
		sorted = append(sorted, float64(of(s)))
	}
	slices.Sort(sorted)
	at := func(q float64) int { return int(Percentile(sorted, q)) }
	return Quantiles{P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), Max: at(1)}
}

const gpuUUID = "GPU-6f0c2f2e-3a3b-4a58-9c67-0d6a5c1b7e11"

func goldenArm(name, ref, strategy string) *ArmInfo {
	a := &ArmInfo{
		Ref: ref, Commit: commit(name), Strategy: strategy, Subject: "Batch prefill with decode",
		Build: Build{Command: "make server", SHA256: hex64(name + " build"), Seconds: 84.2, Files: 3},
		Start: "./server --port $PORT --model $MODEL", Env: []string{"MODEL"}, SHA256: hex64(name + " arm"),
	}
	if name == "base" {
		a.Subject, a.Ahead = "Pin the tokenizer", 3
	}
	return a
}

func hex64(what string) string {
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:])
}

func commit(what string) string { return hex64(what)[:40] }

// goldenRound is a round that went well, with the summary of its requests.
func goldenRound(slot int, arm Arm, in Interval, sum Summary) Round {
	rd := Round{
		Slot: slot, Arm: arm, Pair: slot / 2, State: RoundComplete,
		Phases: Phases{
			Start: in.M0 - second(180), Spawned: in.M0 - second(179), Ready: in.M0 - second(112), Warmup: in.M0 - second(112), Met: in.M0 - second(62),
			Confirmed: in.M0 - second(2), M0: in.M0, M1: in.M1, Drained: in.M1 + second(3), Stopped: in.M1 + second(5), Proved: in.M1 + second(6),
		},
		Counts: sum.Counts, Metrics: sum.Metrics, Beyond: sum.Beyond, FailedIDs: sum.FailedIDs, Flags: sum.Flags, Tokens: sum.Tokens, OutTokens: sum.OutTokens,
		Answers: sum.Answers, Blocks: sum.Blocks,
		Steady: SteadyReport{Windows: 11, Joined: 1, MetAt: 5, ConfirmedAt: 11, End: "confirmed"},
		Server: ServerReport{CachedShare: sum.CachedShare, LogLines: 4180, Model: "small"},
		Client: ClientReport{
			Address: "127.0.0.1:8000", Dialect: "openai-chat", PacerLagP50: Of(0.014), PacerLagP99: Of(0.024), PacerLagMax: Of(0.024),
			Written: sum.Counts.Scheduled, Dialled: 9, Reused: sum.Counts.Scheduled - 9, WireSHA256: hex64("wire"), CPU: Of(0.02), Span: Of(1.0001), GCPause: Of(1.2),
		},
		Stop: StopReport{Seconds: 1.8, Signals: []string{"SIGTERM"}, PortWait: 0.1, Exit: new(0)},
	}
	for i := range rd.Steady.Windows {
		rd.Steady.Signal = append(rd.Steady.Signal, SteadyWindow{Delivered: Of(1 - 0.2/float64(1+i*i)), Latency: Of(18 + 2/float64(1+i*i)), Requests: 125})
	}
	rd.Machine = State{
		GPUs: []GPUState{{
			UUID: gpuUUID, Ticks: 400, Loaded: 398, SMMHz: spread(1980, 2025, 2040), MemMHz: spread(6251, 6251, 6251), TempC: spread(58, 64+float64(slot)/4, 67),
			PowerMW: spread(41_000, 66_500, 71_800), UtilPct: spread(0, 93, 100), MemUsedB: spread(18.1e9, 18.6e9, 18.9e9), Reasons: map[string]int{"power_cap": 3},
			Procs: []GPUProc{{PID: 4100 + slot, MemB: Of(18.6e9), Kind: "compute", Ours: true}},
		}},
		Host: HostState{Busy: Of(0.09), Steal: Of(0), IOWait: Of(0.001), Load1: Of(2.8), MemAvailableMinB: Of(231e9), Ticks: 400},
	}
	return rd
}

func spread(low, middle, high float64) Spread { return Spread{Of(low), Of(middle), Of(high)} }

// The golden session says what its comment promises: enough requests for every percentile, head slower in each pair.
func TestGoldenRunIsRealistic(t *testing.T) {
	f := open(t, filepath.Join("testdata", "run"))
	run := f.Run()
	if len(run.Rounds) != 8 {
		t.Fatalf("%d rounds, want 8", len(run.Rounds))
	}
	for pair := range 4 {
		by := map[Arm]Round{}
		for _, rd := range run.Rounds[2*pair : 2*pair+2] {
			by[rd.Arm] = rd
		}
		for _, key := range []string{"ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "e2e_p95", "output_tps", "error_rate", "tpot_p99"} {
			b, okB := by[Base].Metrics[key].Finite()
			h, okH := by[Head].Metrics[key].Finite()
			if !okB || !okH {
				t.Errorf("pair %d: %s is %v and %v", pair, key, by[Base].Metrics[key], by[Head].Metrics[key])
			}
			if r := h / b; key == "ttft_p50" && (r < 1.15 || r > 1.25) {
				t.Errorf("pair %d: head's %s is %.3f of base's, want about 1.2", pair, key, r)
			}
		}
	}
	ds, err := Verify(f)
	must(t, err)
	if len(ds) != 8 || ds[0].Field != samplesFile {
		t.Errorf("differences %v, want one per round: its samples are gone", ds)
	}
}

func TestGoldenSmallVerifies(t *testing.T) {
	f := open(t, filepath.Join("testdata", "small"))
	ds, err := Verify(f)
	must(t, err)
	if len(ds) > 0 {
		t.Errorf("differences: %v", ds)
	}
	if cut := f.Cut(); len(cut) > 0 {
		t.Errorf("cut files: %v", cut)
	}
	windows, err := collect(f.Windows(0))
	must(t, err)
	if len(windows) != 4 {
		t.Errorf("%d windows, want 4", len(windows))
	}
}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, f.Close()) })
	return f
}
