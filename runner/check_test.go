package runner

import (
	"strings"
	"testing"
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
