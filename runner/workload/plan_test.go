package workload

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// checkPlan holds for every plan: offsets rise, successors come after what they wait for, bounds are kept.
func checkPlan(t *testing.T, rs []Request, from, to time.Duration) {
	t.Helper()
	for i, r := range rs {
		if r.Offset < from || r.Offset >= to {
			t.Errorf("%s at %s lies outside [%s, %s)", r.Turn.ID, r.Offset, from, to)
		}
		if i > 0 && r.Offset < rs[i-1].Offset {
			t.Errorf("%s at %s comes after one at %s", r.Turn.ID, r.Offset, rs[i-1].Offset)
		}
		for k, a := range r.After {
			if a < 0 || a >= i || rs[a].Turn.Conv != r.Turn.Conv || rs[a].Turn.ID != r.Turn.After[k] {
				t.Errorf("%s waits for request %d", r.Turn.ID, a)
			}
		}
		if r.Turn.Out.Mode == "" || r.Turn.Out.Tokens == 0 || r.Turn.Group == "" {
			t.Errorf("%s lacks the manifest's defaults: %+v", r.Turn.ID, r.Turn)
		}
	}
}

func TestPlan(t *testing.T) {
	w := hundred(t)
	for _, measure := range []time.Duration{100 * ms, 3 * time.Second, 8 * time.Second, 12 * time.Second} {
		p, err := w.Plan(measure, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, p.Measured, 0, measure)
		checkPlan(t, p.Tail, measure, measure+TailSpan)
		checkPlan(t, p.Warmup(0), 0, time.Second)
		if measure == 12*time.Second && (len(p.Measured) != 100 || len(p.Tail) != 0) {
			t.Errorf("the whole workload has %d + %d requests", len(p.Measured), len(p.Tail))
		}
		// What follows a measured turn is dropped from the tail; nothing else is.
		late := 0
		for _, x := range w.timeline() {
			if x.offset >= measure && len(w.Turns[x.turn].After) == 0 {
				late++
			}
		}
		if n := len(slices.DeleteFunc(slices.Clone(p.Tail), func(r Request) bool { return len(r.After) > 0 })); n != late {
			t.Errorf("measure %s: %d independent arrivals in the tail, want %d", measure, n, late)
		}
	}
}

// W-04: turn 1 answered in 400 ms, think 1,000, turn 2 in 300 ms, think 500: sends at 0, 1400 and 2200 ms.
func TestPlanKeepsThinkTimes(t *testing.T) {
	w := dialogue(t, Manifest{Arrivals: Arrivals{Kind: "trace", SpanNS: int64(10 * time.Second)}})
	p, err := w.Plan(10*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	answer := map[string]time.Duration{"1": 400 * ms, "2": 300 * ms}
	ends := make([]time.Duration, len(p.Measured))
	sends := map[string]time.Duration{}
	for i, r := range p.Measured {
		due := r.Offset
		for _, a := range r.After {
			due = max(due, ends[a]+r.Delay)
		}
		sends[r.Turn.ID] = due
		ends[i] = due + answer[r.Turn.ID]
	}
	if sends["1"] != 0 || sends["2"] != 1400*ms || sends["3"] != 2200*ms {
		t.Errorf("sends at %s, %s, %s; want 0, 1.4s, 2.2s", sends["1"], sends["2"], sends["3"])
	}
}

func TestPlanRefuses(t *testing.T) {
	w := hundred(t)
	for _, c := range []struct {
		measure, window time.Duration
		want            string
	}{
		{13 * time.Second, time.Second, "is longer than workload"},
		{0, time.Second, "must be positive"},
		{time.Second, -1, "must be positive"},
	} {
		if _, err := w.Plan(c.measure, c.window); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("measure %s, window %s: %v, want %q", c.measure, c.window, err, c.want)
		}
	}
	late, err := New(Manifest{Name: "late"}, []Turn{{
		ID: "a", Conv: "a", N: 1, At: time.Minute, Prompt: &Text{Inline: "x"},
		Out: Output{Tokens: 1},
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Plan(time.Second, time.Second); err == nil || !strings.Contains(err.Error(), "no arrival") {
		t.Errorf("an interval without an arrival: %v", err)
	}
}

// Windows of 10, 30, 0 and 25 tokens: the mean of those not empty is 21.67, and 25 is the nearest.
func TestWarmupSlice(t *testing.T) {
	var turns []Turn
	for i, n := range []int{9, 29, 0, 24, 500} {
		if n > 0 {
			id := string(rune('a' + i))
			turns = append(turns, Turn{
				ID: id, Conv: id, N: 1, At: time.Duration(i)*time.Second + 300*ms, InTokens: n,
				HashIDs: blocks(n, 512, uint64(i)), Out: Output{Tokens: 1},
			})
		}
	}
	w, err := New(Manifest{Name: "w", BlockSize: 512, HashScope: ScopeGlobal}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := w.Plan(4*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Warmup(7)
	if len(got) != 1 || got[0].Turn.ID != "d" || got[0].Offset != 300*ms || got[0].Salt == "" {
		t.Errorf("warm-up %+v, want turn d at 300ms", got)
	}
	if again := p.Warmup(7); again[0].Salt != got[0].Salt || p.Warmup(8)[0].Salt == got[0].Salt {
		t.Error("a window's salt must be its own and always the same")
	}
	if p.Measured[0].Salt != "" {
		t.Error("measured traffic is salted")
	}
}

// A successor whose predecessor lies before the slice stands on its own in a warm-up window.
func TestWarmupCutsConversations(t *testing.T) {
	w := hundred(t)
	for _, window := range []time.Duration{250 * ms, time.Second, 30 * time.Second} {
		p, err := w.Plan(8*time.Second, window)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Warmup(0)) == 0 {
			t.Errorf("window %s: no traffic", window)
		}
		for _, r := range p.Warmup(0) {
			if len(r.After) != 0 && len(r.After) != len(r.Turn.After) || len(r.After) == 0 && r.Delay != 0 {
				t.Errorf("window %s: %s waits for %v and %s", window, r.Turn.ID, r.After, r.Delay)
			}
		}
	}
}

func TestInfo(t *testing.T) {
	w := hundred(t)
	i := w.Info(8 * time.Second)
	p, err := w.Plan(8*time.Second, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if i.Requests != len(p.Measured) || i.Digest != w.Digest() || i.InTokens.P50 == 0 || i.OutTokens.Max != 12 {
		t.Errorf("info %+v for %d requests", i, len(p.Measured))
	}
	if share, ok := i.PrefixShare.Get(); !ok || share < 0.3 || share > 0.9 {
		t.Errorf("prefix share %v", share)
	}
	if rate, _ := i.Rate.Get(); rate != float64(len(p.Measured))/8 {
		t.Errorf("rate %g", rate)
	}
	if v := dialogue(t, Manifest{}).Describe().PrefixShare; v.Reason() == "" {
		t.Error("real text has a prefix share out of nowhere")
	}
}
