package runner

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// serveSim runs a simulated server in this process and returns its URL.
func serveSim(t *testing.T, change func(*simserver.Config)) string {
	t.Helper()
	cfg := simserver.Default()
	if change != nil {
		change(&cfg)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- simserver.Serve(ctx, cfg, simserver.Options{Listener: l}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("simulated server: %v", err)
		}
	})
	return "http://" + l.Addr().String()
}

// turns makes a workload of single requests every gap.
func turns(t *testing.T, n int, gap time.Duration, change func(i int, turn *workload.Turn)) *workload.Workload {
	t.Helper()
	list := make([]workload.Turn, n)
	for i := range list {
		id := "r" + strings.Repeat("0", 4-len(itoa(i))) + itoa(i)
		list[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * gap, InTokens: 10,
			Prompt: &workload.Text{Inline: id + " asks for a word or two"}, Out: workload.Output{Mode: workload.Force, Tokens: 4},
		}
		if change != nil {
			change(i, &list[i])
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: "test", Version: 1, Seed: "1", Source: workload.Source{Importer: "synthetic"}, Output: workload.OutputPolicy{Mode: workload.Force},
		Arrivals: workload.Arrivals{Kind: "generated", SpanNS: int64(time.Duration(n) * gap)},
	}, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func itoa(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return itoa(i/10) + string(rune('0'+i%10))
}

// loadOnce measures one round against url and returns its folder, read back from disk.
func loadOnce(t *testing.T, url string, w *workload.Workload, measure time.Duration, change func(*record.Declared)) (*record.Folder, *record.Round) {
	t.Helper()
	return loadWith(t, url, w, measure, change, nil)
}

// loadWith is loadOnce with a plan that the test has its hands on.
func loadWith(
	t *testing.T, url string, w *workload.Workload, measure time.Duration, change func(*record.Declared), set func(*Plan),
) (*record.Folder, *record.Round) {
	t.Helper()
	clock := record.NewClock()
	run := &record.Run{
		Schema: record.Schema, ID: "load", Kind: record.KindLoad, Epoch: clock.Epoch(), Workload: w.Info(measure),
		Declared: record.Declared{
			Order: []record.Arm{record.Head}, Measure: measure, Limits: record.DefaultLimits(), Load: record.Load{Kind: "open", Dialect: "openai-chat"},
			Warmup: record.Warmup{Window: 100 * time.Millisecond, Windows: 2, Band: 0.9, MaxErrorRate: 0.5, Cap: 3 * time.Second, Trend: 0.9, TrendWindows: 2},
		},
	}
	if change != nil {
		change(&run.Declared)
	}
	writer, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	plan := &Plan{Run: run, Writer: writer, Clock: clock, Workload: w, API: API{Dialect: "openai-chat"}}
	if set != nil {
		set(plan)
	}
	s := NewSession(plan)
	if err := s.Load(t.Context(), url); err != nil {
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
	return f, &f.Run().Rounds[0]
}

func TestLoadMeasuresEveryRequestOnce(t *testing.T) {
	url := serveSim(t, nil)
	f, rd := loadOnce(t, url, turns(t, 400, 10*time.Millisecond, nil), time.Second, nil)
	if rd.State != record.RoundComplete || rd.Counts.Scheduled != 100 || rd.Counts.Classes[record.OK] != 100 {
		t.Fatalf("state %s, counts %+v; want 100 requests, all ok", rd.State, rd.Counts)
	}
	seen := map[string]int{}
	phases := map[record.Phase]int{}
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		phases[s.Phase]++
		if s.Phase != record.PhaseMeasure {
			continue
		}
		seen[s.ID]++
		if due := rd.Phases.M0 + record.Instant(time.Duration(s.Seq-firstSeq(t, f))*10*time.Millisecond); s.Sched != due {
			t.Errorf("%s was due at %d, sent for %d", s.ID, due, s.Sched)
		}
		if s.Sched > s.Pick || s.Pick > s.Wrote || s.Wrote > s.First || s.First > s.End {
			t.Errorf("%s: instants out of order: %+v", s.ID, s)
		}
	}
	if len(seen) != 100 || phases[record.PhaseWarmup] < 20 {
		t.Errorf("%d requests measured, phases %v", len(seen), phases)
	}
	if rd.Steady.End != "confirmed" || !rd.Phases.Met.Reached() {
		t.Errorf("warm-up %+v", rd.Steady)
	}
	if rd.Client.WireSHA256 == "" || rd.Client.Written != 100 {
		t.Errorf("client report %+v", rd.Client)
	}
}

// firstSeq is the sequence number of the first measured request.
func firstSeq(t *testing.T, f *record.Folder) int {
	t.Helper()
	first := -1
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Phase == record.PhaseMeasure && (first < 0 || s.Seq < first) {
			first = s.Seq
		}
	}
	return first
}

// Two rounds of one workload send the same bytes at the same offsets, also to another port.
func TestWireDigestIsEqualInAllRounds(t *testing.T) {
	w := turns(t, 100, 20*time.Millisecond, nil)
	_, a := loadOnce(t, serveSim(t, nil), w, time.Second, nil)
	_, b := loadOnce(t, serveSim(t, nil), w, time.Second, nil)
	if a.Client.WireSHA256 != b.Client.WireSHA256 {
		t.Error("two rounds of one workload differ on the wire")
	}
	other := turns(t, 100, 20*time.Millisecond, func(i int, turn *workload.Turn) {
		if i == 7 {
			turn.Prompt.Inline += " more"
		}
	})
	if _, c := loadOnce(t, serveSim(t, nil), other, time.Second, nil); c.Client.WireSHA256 == a.Client.WireSHA256 {
		t.Error("another workload has the same wire digest")
	}
}

// Case W-04: turn 1 answered, delay 100 ms, turn 2: the second is due when the first has ended, plus its delay, and the
// other conversations keep their times.
func TestConversationsWaitForTheirTurns(t *testing.T) {
	w := turns(t, 60, 20*time.Millisecond, func(i int, turn *workload.Turn) {
		if i%2 == 1 {
			turn.Conv, turn.N, turn.At = "r"+strings.Repeat("0", 4-len(itoa(i-1)))+itoa(i-1), 2, 0
			turn.After, turn.Delay = []string{turn.Conv}, 100*time.Millisecond
		}
	})
	f, rd := loadOnce(t, serveSim(t, nil), w, time.Second, nil)
	ends, second := map[string]record.Instant{}, 0
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Phase == record.PhaseWarmup {
			continue
		}
		if s.Turn == 1 {
			ends[s.Conv] = s.End
			continue
		}
		second++
		if want := ends[s.Conv] + record.Instant(100*time.Millisecond); s.Sched != want {
			t.Errorf("%s due %d, want %d", s.ID, s.Sched, want)
		}
	}
	if second < 20 || rd.Counts.Failures() > 0 {
		t.Errorf("%d second turns, counts %+v", second, rd.Counts)
	}
}

// A turn whose predecessor failed is never sent, and is counted.
func TestFailedTurnAbortsItsConversation(t *testing.T) {
	w := turns(t, 100, 20*time.Millisecond, func(i int, turn *workload.Turn) {
		if i%2 == 1 {
			turn.Conv, turn.N, turn.At = "r"+strings.Repeat("0", 4-len(itoa(i-1)))+itoa(i-1), 2, 0
			turn.After = []string{turn.Conv}
		}
	})
	url := serveSim(t, func(c *simserver.Config) {
		c.Errors = []simserver.Fault{{Kind: simserver.FaultHTTP500, Share: 0.4, After: 30}}
	})
	_, rd := loadOnce(t, url, w, time.Second, nil)
	c := rd.Counts
	if _, healthy := loadOnce(t, serveSim(t, nil), w, time.Second, nil); healthy.Client.WireSHA256 != rd.Client.WireSHA256 {
		t.Error("turns that were not sent because others failed made another digest of the same workload")
	}
	if c.Classes[record.HTTP5xx] == 0 || c.Classes[record.ConversationAborted] == 0 {
		t.Fatalf("counts %+v; want failures and the turns they took with them", c)
	}
	sum := 0
	for _, n := range c.Classes {
		sum += n
	}
	if sum != c.Scheduled {
		t.Errorf("scheduled %d, sum of classes %d", c.Scheduled, sum)
	}
}

// Case P-07: health is fine, but no token comes: the round ends, and what was open or due counts as failed.
func TestStalledEngineEndsTheRound(t *testing.T) {
	url := serveSim(t, func(c *simserver.Config) {
		c.Errors = []simserver.Fault{{Kind: simserver.FaultHang, Share: 1, After: 60}}
		c.Ping = simserver.Duration(100 * time.Millisecond)
	})
	_, rd := loadOnce(t, url, turns(t, 2000, 10*time.Millisecond, nil), 15*time.Second, func(d *record.Declared) {
		d.Limits.NoProgress = 2 * time.Second
	})
	if rd.State != record.RoundComplete {
		t.Fatalf("state %s", rd.State)
	}
	took := time.Duration(rd.Phases.Drained - rd.Phases.M0)
	if took > 6*time.Second {
		t.Errorf("the round went on for %s", took)
	}
	if n := rd.Counts.Classes[record.Timeout]; n < 1400 || rd.Counts.Scheduled != 1500 {
		t.Errorf("counts %+v; all of the 1,500 planned requests must be counted", rd.Counts)
	}
}

// plain makes a server whose first event comes after d and the rest at once.
func plain(d time.Duration) func(*simserver.Config) {
	return func(c *simserver.Config) {
		c.Plain = &simserver.Plain{First: simserver.Duration(d), Gap: simserver.Duration(time.Millisecond)}
	}
}

func closedLoad(slots int) func(*record.Declared) {
	return func(d *record.Declared) { d.Load.Kind, d.Load.Concurrency = record.ClosedLoop, slots }
}

// A closed loop never has more requests in flight than slots, sends what a slot asks for, and its digest does not depend on
// how far a server let it come.
func TestClosedLoop(t *testing.T) {
	w := turns(t, 9_000, time.Millisecond, nil)
	f, rd := loadOnce(t, serveSim(t, plain(5*time.Millisecond)), w, time.Second, closedLoad(4))
	if rd.State != record.RoundComplete || rd.Counts.Scheduled < 20 || rd.Counts.Classes[record.OK] != rd.Counts.Scheduled {
		t.Fatalf("state %s, counts %+v, warm-up %+v", rd.State, rd.Counts, rd.Steady)
	}
	ends := map[record.Instant]bool{rd.Phases.M0: true}
	var spans [][2]record.Instant
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Phase == record.PhaseWarmup {
			continue
		}
		ends[s.End] = true
		spans = append(spans, [2]record.Instant{s.Sched, s.End})
		if s.Phase == record.PhaseMeasure != (s.Sched < rd.Phases.M1) {
			t.Errorf("%s, due %s after m0, counts as %s", s.ID, time.Duration(s.Sched-rd.Phases.M0), s.Phase)
		}
	}
	for _, a := range spans {
		if !ends[a[0]] {
			t.Errorf("a request was due %s after m0, when no slot became free", time.Duration(a[0]-rd.Phases.M0))
		}
		open := 0
		for _, b := range spans {
			if b[0] <= a[0] && a[0] < b[1] {
				open++
			}
		}
		if open > 4 {
			t.Errorf("%d requests in flight, there are 4 slots", open)
		}
	}
	_, slow := loadOnce(t, serveSim(t, plain(30*time.Millisecond)), w, time.Second, closedLoad(4))
	if slow.Client.WireSHA256 != rd.Client.WireSHA256 || slow.Counts.Scheduled >= rd.Counts.Scheduled {
		t.Errorf("a slower server: %d requests of %d, digests equal %t", slow.Counts.Scheduled, rd.Counts.Scheduled, slow.Client.WireSHA256 == rd.Client.WireSHA256)
	}
}

// A closed loop that sends the whole workload ends its interval there and says so.
func TestClosedLoopRunsOut(t *testing.T) {
	f, rd := loadOnce(t, serveSim(t, plain(5*time.Millisecond)), turns(t, 40, time.Millisecond, nil), 20*time.Second, closedLoad(4))
	if rd.State != record.RoundComplete || rd.Counts.Scheduled != 40 || time.Duration(rd.Phases.M1-rd.Phases.M0) > 10*time.Second {
		t.Errorf("state %s, %d of 40 requests in %s", rd.State, rd.Counts.Scheduled, time.Duration(rd.Phases.M1-rd.Phases.M0))
	}
	if !slices.Contains(rd.Flags, "workload_ran_out") || len(f.Run().Notes) != 1 || !strings.Contains(f.Run().Notes[0].Text, "40 requests were all sent") {
		t.Errorf("flags %v, notes %+v", rd.Flags, f.Run().Notes)
	}
}

// Case K-04 over real sockets, in fifths: one place, 100 ms each, 20 ms apart. The mean is held loosely, the order exactly.
func TestWaitForAPlaceOverSockets(t *testing.T) {
	url := serveSim(t, plain(100*time.Millisecond))
	f, rd := loadOnce(t, url, turns(t, 100, 20*time.Millisecond, nil), time.Second, func(d *record.Declared) {
		d.Load.MaxInFlight = 1
		d.Warmup.Windows, d.Warmup.TrendWindows, d.Warmup.Band, d.Warmup.Trend = 2, 2, 0.99, 10
	})
	if rd.Counts.Scheduled != 50 || rd.Counts.Classes[record.OK] != 50 || !slices.Contains(rd.Flags, "client_limited") {
		t.Fatalf("counts %+v, flags %v, warm-up %s", rd.Counts, rd.Flags, rd.Steady.End)
	}
	var last record.Sample
	for s, err := range f.Samples(0) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Phase != record.PhaseMeasure {
			continue
		}
		if last.Seq > 0 && (s.Seq != last.Seq+1 || s.Slot < last.End) {
			t.Errorf("%s went %s before the one ahead of it had ended", s.ID, time.Duration(last.End-s.Slot))
		}
		if s.Pick-s.Sched > record.Instant(90*time.Millisecond) {
			t.Errorf("%s was picked %s late: waiting for a place is no lag", s.ID, time.Duration(s.Pick-s.Sched))
		}
		last = s
	}
	if wait := time.Duration(last.Slot - last.Pick); wait < 3*time.Second {
		t.Errorf("the last one waited %s for its place, want about 4 s", wait)
	}
}

// A server that ends each connection with its answer, asked oftener than this machine gets its ports back: the load ends
// after the warm-up that showed it, and says so as what it is.
func TestClosingServerEndsALoad(t *testing.T) {
	closing := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 4 {
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"A"}}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Millisecond)
		}
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":1,"completion_tokens":4}}`+"\n\ndata: [DONE]\n\n")
	}))
	closing.Config.SetKeepAlivesEnabled(false)
	closing.Start()
	defer closing.Close()
	f, rd := loadOnce(t, closing.URL, turns(t, 2400, 500*time.Microsecond, nil), time.Second, nil)
	run := f.Run()
	if len(run.Incidents) != 1 || run.Incidents[0].ID != record.PortsShort || !strings.Contains(run.Incidents[0].Text, "the server closes its connections: more connections than local ports") {
		t.Fatalf("incidents %+v; the warm-up %+v", run.Incidents, rd.Steady)
	}
	if run.Status != record.StatusComplete || rd.State == record.RoundComplete || rd.Phases.M0.Reached() {
		t.Errorf("run %s, round %s, measured from %d", run.Status, rd.State, rd.Phases.M0)
	}
}
