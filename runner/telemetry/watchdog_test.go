package telemetry

import (
	"strings"
	"testing"
	"time"
)

func TestWatchdog(t *testing.T) {
	second := int64(time.Second)
	for name, c := range map[string]struct {
		dog  watchdog
		now  int64
		want string
	}{
		"fresh":                  {watchdog{last: second}, 2 * second, ""},
		"silent while it opens":  {watchdog{last: 0}, 29 * second, ""},
		"silent too long":        {watchdog{last: 0}, 30 * second, "silent for 30s"},
		"silent after opening":   {watchdog{last: 0, opened: true}, 10 * second, "silent for 10s"},
		"almost silent":          {watchdog{last: 0, opened: true}, 10*second - 1, ""},
		"busy":                   {watchdog{opened: true, busy: 10 * time.Second}, 0, ""},
		"hangs":                  {watchdog{opened: true, busy: 10*time.Second + 1}, 0, "hung for 10s"},
		"busy while it opens":    {watchdog{busy: 20 * time.Second}, 0, ""},
		"hangs while it opens":   {watchdog{busy: 31 * time.Second}, 0, "hung for 31s"},
		"busy and beating still": {watchdog{last: 0, opened: true, busy: 11 * time.Second}, 1, "hung"},
	} {
		if got := c.dog.verdict(c.now); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestTally(t *testing.T) {
	for _, c := range []struct {
		tally tally
		want  bool
	}{
		{tally{lines: 1, bad: 1}, false},
		{tally{lines: 100, bad: 10}, false},
		{tally{lines: 100, bad: 11}, true},
		{tally{lines: 200, bad: 2}, false},
		{tally{lines: 200, bad: 3}, true},
		{tally{lines: 1000, ignored: 1000}, false},
	} {
		if got := c.tally.faulty(); got != c.want {
			t.Errorf("%+v: faulty is %v", c.tally, got)
		}
	}
}

func TestGapAfter(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		200 * time.Millisecond: 5 * time.Second, time.Second: 5 * time.Second, 2 * time.Second: 10 * time.Second,
	} {
		if got := gapAfter(interval); got != want {
			t.Errorf("interval %v: %v, want %v", interval, got, want)
		}
	}
}
