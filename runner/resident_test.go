package runner

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// shortSession is a session of rounds of half a second over two simulated servers that it starts itself, or that run at urls.
func shortSession(t *testing.T, order string, urls map[record.Arm]string, change func(*record.Run)) *record.Run {
	t.Helper()
	return shortSessionOf(t, order, simserver.Default(), urls, change, nil)
}

// shortSessionOf is shortSession with servers of a configuration, watched step by step.
func shortSessionOf(
	t *testing.T, order string, cfg simserver.Config, urls map[record.Arm]string, change func(*record.Run), watch func(*Session, Progress), more ...func(*Plan),
) *record.Run {
	t.Helper()
	clock := record.NewClock()
	w := turns(t, 400, 10*time.Millisecond, nil)
	run := &record.Run{
		Schema: record.Schema, ID: "short", Kind: record.KindRevisions, Epoch: clock.Epoch(), Workload: w.Info(300 * time.Millisecond),
		Arms: record.Arms{Base: &record.ArmInfo{}, Head: &record.ArmInfo{}},
		Declared: record.Declared{
			Mode: record.ModeRestart, Measure: 300 * time.Millisecond, Limits: record.DefaultLimits(), Load: record.Load{Kind: record.OpenLoop, Dialect: "openai-chat"},
			Warmup: record.Warmup{Window: 100 * time.Millisecond, Windows: 2, Band: 0.9, MaxErrorRate: 0.5, Cap: 5 * time.Second, Trend: 0.9, TrendWindows: 2},
		},
	}
	for _, c := range order {
		run.Declared.Order = append(run.Declared.Order, map[rune]record.Arm{'A': record.Base, 'B': record.Head}[c])
	}
	if change != nil {
		change(run)
	}
	writer, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plan := &Plan{
		Run: run, Writer: writer, Clock: clock, Workload: w, API: API{Dialect: "openai-chat"}, Arms: map[record.Arm]Target{},
		Rules: Rules{Void: func(*record.Run) []record.Void { return nil }, Next: func(*record.Run) record.Next { return record.Next{} }},
	}
	for _, arm := range []record.Arm{record.Base, record.Head} {
		plan.Arms[arm] = Target{
			URL: urls[arm], Start: os.Args[0], Args: []string{"-test.run=^TestSimProcess$", "-test.count=1"}, Dir: t.TempDir(),
			Env: append(os.Environ(), simProcess+"="+string(text)), ReadyPath: "/health", ReadyTimeout: time.Minute, Signal: syscall.SIGTERM, Grace: 5 * time.Second,
		}
	}
	for _, change := range more {
		change(plan)
	}
	s := NewSession(plan)
	if watch != nil {
		plan.Progress = func(p Progress) { watch(s, p) }
	}
	if err := s.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := record.Open(writer.Dir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	differences, err := record.Verify(f)
	if err != nil || len(differences) > 0 {
		t.Errorf("the folder does not verify: %v %v", differences, err)
	}
	return f.Run()
}

// residing asks for servers that stay up.
func residing(path string, restarts ...int) func(*record.Run) {
	return func(run *record.Run) {
		run.Declared.Mode = record.ModeResident
		run.Declared.Resident = &record.ResidentPlan{Shared: true, Restarts: restarts}
		run.Declared.Reset = &record.ResetPlan{Method: "POST", Path: path, Status: 200, JSON: map[string]string{"success": "true"}}
	}
}

// In eight slots no two servers are alive at once: each starts when the one before it is proven gone.
func TestFreshServersNeverOverlap(t *testing.T) {
	run := shortSession(t, "ABBABAAB", nil, nil)
	if len(run.Rounds) != 8 || run.Status != record.StatusComplete || len(run.Incidents) > 0 {
		t.Fatalf("%d rounds, status %s, incidents %+v", len(run.Rounds), run.Status, run.Incidents)
	}
	for i, rd := range run.Rounds {
		p := rd.Phases
		if rd.State != record.RoundComplete || rd.Resident || rd.Slice != nil || rd.Reset != nil {
			t.Errorf("slot %d: %s, resident %t", rd.Slot, rd.State, rd.Resident)
		}
		if !p.Proved.Reached() || p.Stopped > p.Proved || p.Stopped <= p.Drained {
			t.Errorf("slot %d: drained at %d, stopped at %d, proven gone at %d", rd.Slot, p.Drained, p.Stopped, p.Proved)
		}
		if i > 0 && p.Start < run.Rounds[i-1].Phases.Proved {
			t.Errorf("slot %d starts at %d, before the server of the slot before is proven gone at %d", rd.Slot, p.Start, run.Rounds[i-1].Phases.Proved)
		}
	}
}

// Servers that stay up are started together, restarted together, and asked to forget before each round.
func TestResidentServers(t *testing.T) {
	run := shortSession(t, "ABBABA", nil, residing("/reset_prefix_cache", 2))
	if run.Status != record.StatusComplete || len(run.Incidents) > 0 {
		t.Fatalf("status %s, incidents %+v", run.Status, run.Incidents)
	}
	var lives []int
	for _, rd := range run.Rounds {
		if rd.State != record.RoundComplete || !rd.Resident || rd.Slice.IdleOpen != 0 || rd.Phases.Start.Reached() {
			t.Errorf("slot %d: %s, %+v", rd.Slot, rd.State, rd.Slice)
		}
		if rd.Reset == nil || rd.Reset.Outcome != record.ResetVerified || rd.Reset.Tries != 1 || rd.Reset.Status != 200 {
			t.Errorf("slot %d: reset %+v", rd.Slot, rd.Reset)
		}
		if _, known := rd.Reset.HitRate.Finite(); !known && rd.Reset.HitRate.Reason() == "" {
			t.Errorf("slot %d: no hit rate and no reason", rd.Slot)
		}
		if why := rd.Reset.Possible.Reason(); !strings.Contains(why, "real text") {
			t.Errorf("slot %d: possible share %+v", rd.Slot, rd.Reset.Possible)
		}
		lives = append(lives, rd.Slice.Life)
	}
	if diff := cmp.Diff([]int{1, 1, 1, 1, 2, 2}, lives); diff != "" {
		t.Errorf("lives (-want +got):\n%s", diff)
	}
}

// A server without the reset call is measured all the same: by restarts, and the run says so.
func TestResidentFallsBack(t *testing.T) {
	run := shortSession(t, "ABBA", nil, residing("/no_such_call", 1))
	if run.Status != record.StatusComplete || len(run.Incidents) > 0 {
		t.Fatalf("status %s, incidents %+v", run.Status, run.Incidents)
	}
	first := run.Rounds[0]
	if first.State != record.RoundPartial || first.Reset == nil || first.Reset.Outcome != record.ResetUnavailable || first.Reset.Status != 404 {
		t.Errorf("the first slot: %s, reset %+v", first.State, first.Reset)
	}
	for _, rd := range run.Rounds[1:] {
		if rd.State != record.RoundComplete || rd.Resident || !rd.Phases.Proved.Reached() {
			t.Errorf("slot %d: %s, resident %t, proven gone at %d", rd.Slot, rd.State, rd.Resident, rd.Phases.Proved)
		}
	}
	if len(run.Rounds) != 5 || run.Rounds[1].RerunOf == nil || *run.Rounds[1].RerunOf != 0 {
		t.Errorf("%d rounds, want 5, the second in place of the first", len(run.Rounds))
	}
	i := slices.IndexFunc(run.Notes, func(n record.Note) bool { return n.ID == "resident_fell_back" })
	if i < 0 || !strings.Contains(run.Notes[i].Text, "status 404") {
		t.Errorf("notes %+v", run.Notes)
	}
}

// A server that leaves while the other one is measured is its arm's crash; both are then started afresh.
func TestIdleServerThatLeaves(t *testing.T) {
	run := shortSessionOf(t, "AB", simserver.Default(), nil, residing("/reset_prefix_cache"), func(s *Session, p Progress) {
		if p.Phase == "done" && p.Slot == 0 {
			idle := s.fleet.up[record.Head].server
			idle.Kill()
			<-idle.Exited()
		}
	})
	if run.Status != record.StatusComplete || len(run.Rounds) != 2 || len(run.Incidents) != 1 {
		t.Fatalf("status %s, %d rounds, incidents %+v", run.Status, len(run.Rounds), run.Incidents)
	}
	in, rd := run.Incidents[0], run.Rounds[1]
	if in.ID != record.Crashed || in.Arm != record.Head || *in.Slot != 1 || *in.Exit != 137 || in.Log != "servers/1-head.log" {
		t.Errorf("incident %+v", in)
	}
	if rd.State != record.RoundComplete || rd.Slice.Life != 2 || rd.Server.Exit != nil {
		t.Errorf("slot 1: %s, %+v, exit %v", rd.State, rd.Slice, rd.Server.Exit)
	}
}

// A server that leaves in mid-round is on record once, with its log, and the next round of it finds a fresh one.
func TestResidentServerThatCrashes(t *testing.T) {
	cfg := simserver.Default()
	cfg.Exit = &simserver.Crash{AfterRequests: 40, Code: 139}
	run := shortSessionOf(t, "AB", cfg, nil, residing("/reset_prefix_cache"), nil)
	if run.Status != record.StatusComplete || len(run.Rounds) == 0 {
		t.Fatalf("status %s, %d rounds", run.Status, len(run.Rounds))
	}
	told := map[int]int{}
	for _, in := range run.Incidents {
		if in.ID != record.Crashed || *in.Exit == 0 || in.Log != "servers/1-"+string(in.Arm)+".log" || len(in.Tail) == 0 {
			t.Errorf("incident %+v", in)
		}
		told[*in.Slot]++
	}
	if told[0] != 1 || told[1] > 1 {
		t.Errorf("crashes by slot %v, want each once", told)
	}
}

// A start of both counts against the time that is left.
func TestDeadlineCountsTheStart(t *testing.T) {
	f := &fleet{startup: record.Instant(time.Minute), up: map[record.Arm]*round{}}
	if f.ahead() != record.Instant(time.Minute) || (*fleet)(nil).ahead() != 0 || (&fleet{foreign: true, startup: 1}).ahead() != 0 {
		t.Error("servers that are down and must be started take no time, or others do")
	}
	f.up[record.Base] = &round{}
	if f.ahead() != 0 {
		t.Error("servers that are up must be started")
	}
}

// Running servers are asked and left alone.
func TestRunningServers(t *testing.T) {
	urls := map[record.Arm]string{record.Base: serveSim(t, nil), record.Head: serveSim(t, nil)}
	run := shortSession(t, "AB", urls, func(run *record.Run) {
		run.Kind, run.Declared.Mode, run.Declared.Reset = record.KindURL, record.ModeResident, &record.ResetPlan{None: true}
	})
	if run.Status != record.StatusComplete || len(run.Incidents) > 0 || len(run.Rounds) != 2 {
		t.Fatalf("status %s, incidents %+v, %d rounds", run.Status, run.Incidents, len(run.Rounds))
	}
	for _, rd := range run.Rounds {
		if rd.State != record.RoundComplete || !rd.Resident || rd.Slice.Life != 0 || rd.Reset.Outcome != record.ResetNone || rd.Phases.Stopped.Reached() {
			t.Errorf("slot %d: %s %+v, reset %+v, phases %+v", rd.Slot, rd.State, rd.Slice, rd.Reset, rd.Phases)
		}
	}
	if run.Arms.Base.Probe == nil || run.Arms.Head.Probe == nil {
		t.Error("an arm was not asked before its first round")
	}
}

func TestRunningServerWithoutTheReset(t *testing.T) {
	urls := map[record.Arm]string{record.Base: serveSim(t, nil), record.Head: serveSim(t, nil)}
	run := shortSession(t, "AB", urls, func(run *record.Run) {
		residing("/no_such_call")(run)
		run.Kind, run.Declared.Resident = record.KindURL, nil
	})
	if len(run.Incidents) != 1 || run.Incidents[0].ID != record.ResetMissing || run.Incidents[0].Arm != record.Base ||
		!strings.Contains(run.Incidents[0].Text, "base's server at "+urls[record.Base]+" does not take the cache reset (status 404") {
		t.Errorf("incidents %+v", run.Incidents)
	}
}

// A server that is gone is dialled for eight seconds; when the other one is gone too, that is said as well.
func TestServersThatAreGone(t *testing.T) {
	closed := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return "http://user:secret@" + l.Addr().String() + "/v1?key=secret"
	}
	alive, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	tests := []struct {
		name       string
		base, head string
		want       []record.Arm
	}{
		{"head", "http://" + alive.Addr().String(), closed(), []record.Arm{record.Head}},
		{"both", closed(), closed(), []record.Arm{record.Head, record.Base}},
		{"neither", closed(), "http://" + alive.Addr().String(), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run := &record.Run{Schema: record.Schema, ID: "gone", Kind: record.KindURL}
			w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			synctest.Test(t, func(t *testing.T) {
				s := NewSession(&Plan{Run: run, Writer: w, Clock: record.NewClock(), Arms: map[record.Arm]Target{record.Base: {URL: tt.base}, record.Head: {URL: tt.head}}})
				began := time.Now()
				err := newRound(s, record.Round{Slot: 3, Arm: record.Head}, nil).reach(t.Context())
				if (err != nil) != (tt.want != nil) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); tt.want != nil && took != 8*time.Second || tt.want == nil && took != 0 {
					t.Errorf("took %s", took)
				}
			})
			var arms []record.Arm
			for _, in := range run.Incidents {
				arms = append(arms, in.Arm)
				if in.ID != record.ServerGone || in.Log != "" || *in.Slot != 3 || strings.Contains(in.Text, "secret") ||
					!strings.Contains(in.Text, string(in.Arm)+"'s server at http://127.0.0.1:") || !strings.Contains(in.Text, "refused") {
					t.Errorf("incident %+v", in)
				}
			}
			if diff := cmp.Diff(tt.want, arms); diff != "" {
				t.Errorf("arms (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServersSwapTheirGPUs(t *testing.T) {
	run := &record.Run{Declared: record.Declared{Mode: record.ModeResident, Resident: &record.ResidentPlan{Sets: [][]string{{"a", "b"}, {"c", "d"}}}}}
	f := newFleet(&Session{run: run})
	for life, want := range map[int]string{1: "a b|c d", 2: "c d|a b", 3: "a b|c d"} {
		f.life = life
		if got := strings.Join(f.set(record.Base), " ") + "|" + strings.Join(f.set(record.Head), " "); got != want {
			t.Errorf("life %d: %s, want %s", life, got, want)
		}
	}
	env := []string{"A=1", "CUDA_VISIBLE_DEVICES=7", "B=2"}
	got := visible(env, []string{"GPU-a", "GPU-b"}, "")
	want := []string{"A=1", "B=2", "CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "ROCR_VISIBLE_DEVICES=GPU-a,GPU-b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(env, visible(env, nil, nvidia)); diff != "" {
		t.Error(diff)
	}
	if newFleet(&Session{run: &record.Run{}}) != nil {
		t.Error("a session of fresh servers has servers that stay up")
	}
}

func TestHitsOfTheFirstWindow(t *testing.T) {
	sample := func(sched record.Instant, in, cached int) record.Sample {
		return record.Sample{Sched: sched, Class: record.OK, NIn: &in, NCached: &cached}
	}
	var h hits
	if why := h.rate().Reason(); !strings.Contains(why, "no request") {
		t.Errorf("without a request: %q", why)
	}
	h.add(record.Sample{Class: record.OK}, 10)
	if why := h.rate().Reason(); !strings.Contains(why, "does not say") {
		t.Errorf("without counts: %q", why)
	}
	h.add(sample(3, 100, 30), 10)
	h.add(sample(9, 300, 10), 10)
	h.add(sample(10, 100, 100), 10) // of the second window
	failed := sample(4, 100, 100)
	failed.Class = record.HTTP503
	h.add(failed, 10)
	if got, _ := h.rate().Finite(); got != 0.1 {
		t.Errorf("rate %v, want 40 of 400", got)
	}
}
