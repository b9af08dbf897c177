package runner

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

func openLoad(change func(*record.Declared)) record.Declared {
	d := record.Declared{
		Measure: 10 * time.Second, Warmup: record.Warmup{Window: time.Second}, Limits: record.DefaultLimits(), Load: record.Load{Kind: record.OpenLoop},
	}
	if change != nil {
		change(&d)
	}
	return d
}

func TestLoadsThatCannotWork(t *testing.T) {
	w := turns(t, 100, 100*time.Millisecond, nil)
	crowd := turns(t, 9000, time.Millisecond, nil)
	tests := []struct {
		name   string
		w      *workload.Workload
		change func(*record.Declared)
		want   string
	}{
		{"open", w, nil, ""},
		{"capped", crowd, func(d *record.Declared) { d.Measure, d.Load.MaxInFlight = 9*time.Second, 10 }, ""},
		{"closed", w, closedLoad(100), ""},
		{"closed, longer than the workload's schedule", w, func(d *record.Declared) { closedLoad(4)(d); d.Measure = time.Hour }, ""},
		{"open, longer than the workload", w, func(d *record.Declared) { d.Measure = time.Hour }, "longer than workload"},
		{"more slots than conversations", w, closedLoad(101), "a closed loop of 101 slots needs as many conversations, workload \"test\" has 100"},
		{"slots that sleep", w, func(d *record.Declared) { closedLoad(4)(d); d.Load.Think = d.Measure }, "send once in a measured interval of 10s"},
		{"both kinds", w, func(d *record.Declared) { closedLoad(4)(d); d.Load.MaxInFlight = 2 }, "set one of the two"},
		{"negative", w, func(d *record.Declared) { d.Load.MaxInFlight = -1 }, "neither can be negative"},
		{"no drain", w, func(d *record.Declared) { d.Limits.Drain = 0 }, "a drain limit of 0s"},
		// More descriptors than Linux gives to any process.
		{"more slots than descriptors", turns(t, 9000, time.Millisecond, nil), closedLoad(9000), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := Check(tt.w, openLoad(tt.change))
			switch {
			case tt.name == "more slots than descriptors":
				// Whether they fit is up to this machine; that it is asked shows in the words.
				if err != nil && !strings.Contains(err.Error(), "a peak of 9000 streams") {
					t.Error(err)
				}
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v does not say %q", err, tt.want)
			}
		})
	}
}

func TestPeakInFlight(t *testing.T) {
	// Each of 100 requests, one a second, plans 4 tokens: 10.2 s, so that eleven overlap.
	w := turns(t, 100, time.Second, nil)
	long := turns(t, 100, time.Second, func(_ int, turn *workload.Turn) { turn.Out.Tokens = 400 })
	tests := []struct {
		name   string
		w      *workload.Workload
		change func(*record.Declared)
		want   int
	}{
		{"overlap", w, nil, 11},
		{"longer answers", long, nil, 30},
		{"cut by the total limit", long, func(d *record.Declared) { d.Limits.Total = 5 * time.Second }, 5},
		{"capped", long, func(d *record.Declared) { d.Load.MaxInFlight = 3 }, 3},
		{"a cap that is never reached", w, func(d *record.Declared) { d.Load.MaxInFlight = 50 }, 11},
		{"closed", w, closedLoad(7), 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := openLoad(func(d *record.Declared) { d.Measure = 60 * time.Second })
			if tt.change != nil {
				tt.change(&d)
			}
			plan, err := Traffic(tt.w, d)
			if err != nil {
				t.Fatal(err)
			}
			if got := Peak(plan, d); got != tt.want {
				t.Errorf("peak %d, want %d", got, tt.want)
			}
		})
	}
}

// A disk that is about to be full ends the round with an error that is on record, before a write fails; nothing more is
// taken to be measured whole.
func TestDiskAboutToBeFull(t *testing.T) {
	if err := spaceLeft(t.TempDir()); err != nil {
		t.Errorf("this disk: %v", err)
	}
	if _, ok := freeSpace("/no/such/folder"); ok {
		t.Error("a folder that is not there told its size")
	}
	synctest.Test(t, func(t *testing.T) {
		run := &record.Run{Schema: record.Schema, ID: "disk", Kind: record.KindLoad}
		w, err := record.Create(filepath.Join(t.TempDir(), "run"), run)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		rw, err := w.Round(0, record.Head)
		if err != nil {
			t.Fatal(err)
		}
		left := 3
		broke := make(chan error, 1)
		c := (&collector{
			writer: rw, cause: func() error { return nil }, broke: func(err error) { broke <- err },
			space: func() error {
				if left--; left < 0 {
					return record.ErrDiskFull
				}
				return nil
			},
		}).start()
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		if len(broke) > 0 {
			t.Errorf("stopped after 3 s: %v", <-broke)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(broke) != 1 || !errors.Is(<-broke, record.ErrDiskFull) {
			t.Error("goes on with a full disk")
		}
		if err := c.close(); !errors.Is(err, record.ErrDiskFull) {
			t.Errorf("closed with %v", err)
		}
	})
}

// What cannot be said in a dialect is known without a server; a path may change what the dialect takes.
func TestWorkloadsThatDoNotFit(t *testing.T) {
	chat := turns(t, 20, 100*time.Millisecond, func(i int, turn *workload.Turn) {
		if i == 13 {
			turn.Messages, turn.Prompt = []workload.TurnMessage{{Role: "user", Content: *turn.Prompt}}, nil
		}
	})
	tests := []struct {
		name, dialect, url string
		w                  *workload.Workload
		want               string
	}{
		{"prompts", "openai-completions", "http://127.0.0.1", turns(t, 20, 100*time.Millisecond, nil), ""},
		{"messages in a chat", "openai-chat", "http://127.0.0.1", chat, ""},
		{"messages as prompts", "openai-completions", "http://127.0.0.1", chat, "workload test does not fit dialect openai-completions: turn r0013: it has chat messages"},
		{"messages by path", "ollama", "http://127.0.0.1/api/generate", chat, "turn r0013: it has chat messages"},
		{"bodies as they are", "http-json", "http://127.0.0.1", chat, "turn r0000: dialect http-json sends a turn's body as it is"},
	}
	for _, tt := range tests {
		d := openLoad(func(d *record.Declared) { d.Measure = time.Second })
		err := Fits(tt.w, d, API{Dialect: tt.dialect, Model: "m"}, tt.url)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v does not say %q", tt.name, err, tt.want)
		}
	}
}

// Linux has at most 64,512 local ports to give, and each rests for a minute: 2,000 new connections a second fit nowhere.
func TestPortsAreCountedBeforeTheLoad(t *testing.T) {
	sample := func(class record.Outcome, reused bool) record.Sample {
		return record.Sample{Class: class, Reused: reused}
	}
	opened, kept, failed := sample(record.OK, false), sample(record.OK, true), sample(record.HTTP503, false)
	quick, slow := turns(t, 4000, 500*time.Microsecond, nil), turns(t, 20, 100*time.Millisecond, nil)
	tests := []struct {
		name    string
		w       *workload.Workload
		samples []record.Sample
		change  func(*record.Declared)
		refused bool
	}{
		{"each dialled", quick, []record.Sample{opened, opened, opened, opened}, nil, true},
		{"each dialled, one failed", quick, []record.Sample{failed, opened, opened, opened}, nil, true},
		{"kept", quick, []record.Sample{opened, kept, kept, kept}, nil, false},
		{"kept at last", quick, []record.Sample{opened, failed, opened, kept}, nil, false},
		{"closed only after failures", quick, []record.Sample{failed, opened, failed, opened}, nil, false},
		{"nothing known", quick, []record.Sample{opened}, nil, false},
		{"seldom enough", slow, []record.Sample{opened, opened, opened, opened}, nil, false},
		{"a rate that is up to the server", quick, []record.Sample{opened, opened, opened, opened}, closedLoad(1000), false},
	}
	for _, tt := range tests {
		err := CheckPorts(record.ProbeReport{Samples: tt.samples}, tt.w, openLoad(func(d *record.Declared) {
			d.Measure = time.Second
			if tt.change != nil {
				tt.change(d)
			}
		}))
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "2000 new connections/s hold 120000 ports") {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
