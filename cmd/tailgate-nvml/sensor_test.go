//go:build linux && cgo

package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// rehearse runs a sensor over the fake driver in fake time. test gets its stdin and the lines so far; the sensor must end
// when stdin closes.
func rehearse(t *testing.T, d *fakeDriver, interval time.Duration, test func(stdin io.Writer, lines *buffer, s *sensor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		now := func() int64 { return int64(time.Since(begin)) + 1 }
		d.hung = make(chan struct{})
		defer close(d.hung) // no goroutine may outlive the bubble
		in, stdin := io.Pipe()
		var lines buffer
		s := newSensor(d, &lines, interval)
		s.print.now, s.busy.now = now, now
		done := make(chan int, 1)
		go func() { done <- s.run(in) }()
		synctest.Wait()
		test(stdin, &lines, s)
		_ = stdin.Close()
		left := time.Now()
		if exit := <-done; exit != 0 {
			t.Errorf("exit %d", exit)
		}
		if took := time.Since(left); took > time.Second {
			t.Errorf("it took %v to leave", took)
		}
		if !bytes.Contains(lines.bytes(), []byte(`"type":"bye"`)) {
			t.Error("no bye")
		}
	})
}

func tell(t *testing.T, stdin io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(stdin, text); err != nil {
		t.Error(err)
	}
	synctest.Wait()
}

func count(lines *buffer, kind string) int {
	return bytes.Count(lines.bytes(), []byte(`"type":"`+kind+`"`))
}

func fake(text string) *fakeDriver { return &fakeDriver{scenario: parseScenario(text, 0)} }

func TestSensorKeepsItsInterval(t *testing.T) {
	rehearse(t, fake(""), 500*time.Millisecond, func(stdin io.Writer, lines *buffer, _ *sensor) {
		time.Sleep(20*time.Second + time.Millisecond)
		if n := count(lines, "sample"); n != 41 {
			t.Errorf("%d samples in 20 s", n)
		}
		if n := count(lines, "beat"); n != 11 {
			t.Errorf("%d beats in 20 s", n)
		}
		if n := count(lines, "procs"); n != 3 {
			t.Errorf("%d process lists in 20 s", n)
		}
		tell(t, stdin, "rate 2000\n")
		time.Sleep(20*time.Second + time.Millisecond)
		if n := count(lines, "sample"); n != 51 {
			t.Errorf("%d samples after 20 s more at a quarter of the rate", n)
		}
		tell(t, stdin, "rate 0\nedge r1.end\n")
		time.Sleep(20 * time.Second)
		if n := count(lines, "sample"); n != 51 {
			t.Errorf("%d samples after polling was stopped", n)
		}
		if n := count(lines, "beat"); n != 31 {
			t.Errorf("%d beats in 60 s", n)
		}
		if n := count(lines, "counters"); n != 1 {
			t.Errorf("%d counters for one edge", n)
		}
	})
}

func TestSensorWithoutPollingStillReadsOnce(t *testing.T) {
	rehearse(t, fake(""), 0, func(_ io.Writer, lines *buffer, _ *sensor) {
		time.Sleep(time.Minute)
		if n := count(lines, "sample"); n != 1 {
			t.Errorf("%d samples", n)
		}
	})
}

func TestSensorIgnoresWhatItDoesNotUnderstand(t *testing.T) {
	rehearse(t, fake(""), time.Minute, func(stdin io.Writer, lines *buffer, _ *sensor) {
		tell(t, stdin, "edge R3 START\nrate -1\nrate fast\nsing\n\n")
		if n := count(lines, "counters"); n != 0 {
			t.Errorf("%d counters", n)
		}
	})
}

func TestSensorTellsThatTheDriverHangs(t *testing.T) {
	d := fake("")
	rehearse(t, d, time.Second, func(_ io.Writer, lines *buffer, s *sensor) {
		d.mu.Lock()
		d.rows = append(d.rows, scenarioRow{0, "0", "nvmlDeviceGetPowerUsage", "hang"})
		d.mu.Unlock()
		time.Sleep(6*time.Second + time.Millisecond)
		if got := s.busy.busyMS(); got < 4900 || got > 5100 {
			t.Errorf("a call that began 5 s ago is %d ms old", got)
		}
		if n := count(lines, "beat"); n != 4 {
			t.Errorf("%d beats while the driver hangs", n)
		}
	})
}

func TestSensorTellsChangesOnce(t *testing.T) {
	d := fake("")
	rehearse(t, d, time.Second, func(_ io.Writer, lines *buffer, _ *sensor) {
		d.mu.Lock()
		d.rows = append(d.rows, scenarioRow{0, "0", "nvmlDeviceGetPowerUsage", "nvml:15"})
		d.mu.Unlock()
		time.Sleep(5*time.Second + time.Millisecond)
		d.mu.Lock()
		d.rows = d.rows[:len(d.rows)-1]
		d.mu.Unlock()
		time.Sleep(5 * time.Second)
		if caps, errs := count(lines, "caps"), count(lines, "error"); caps != 3 || errs != 1 {
			t.Errorf("%d caps and %d errors for one loss and one return", caps, errs)
		}
	})
}

func TestSensorAsksNoMoreWhatIsUnsupported(t *testing.T) {
	d := fake("")
	d.missing = map[string]bool{"nvmlDeviceGetCurrentClocksEventReasons": true, "nvmlDeviceGetTemperatureV": true}
	p := newProbe(&fakeDevice{d, "0"}, &meter{now: func() int64 { return 1 }}, &printer{out: io.Discard, now: monotonic})
	if l := p.sample(); l["reasons"] != "0x0" || l["temp_c"] != int64(45) {
		t.Errorf("older names are not used: %v", l)
	}
	d.missing = nil
	p.sample()
	if c := p.codes["nvmlDeviceGetTemperatureV"]; c != symbolMissing {
		t.Errorf("a settled answer was asked for again: %v", c)
	}
}

func TestSensorWatchesOnlyWhatItIsAskedTo(t *testing.T) {
	var lines buffer
	s := newSensor(fake("0 * nvmlDeviceGetCount 3\n"), &lines, time.Second)
	s.only = []string{"GPU-00000000-0000-4000-8000-000000000001"}
	probes := s.announce(s.devices())
	if len(probes) != 1 || probes[0].uuid != s.only[0] || count(&lines, "device") != 1 {
		t.Errorf("%d devices, %s", len(probes), lines.bytes())
	}
}

func TestParseCommand(t *testing.T) {
	tokens := regexp.MustCompile(`^[a-z0-9.-]{1,40}$`)
	for text, want := range map[string]command{
		"edge r3.start":  {token: "r3.start"},
		"edge a-1\r":     {token: "a-1"},
		"rate 200":       {interval: 200 * time.Millisecond},
		"rate 0":         {},
		" rate 3600000 ": {interval: time.Hour},
	} {
		if got, understood := parse(text, tokens); got != want || !understood {
			t.Errorf("%q: %+v, %v", text, got, understood)
		}
	}
	for _, text := range []string{
		"", "edge", "edge ", "edge R", "edge a b", "edge " + strings.Repeat("a", 41), "rate", "rate x", "rate 3600001",
		"rate 9223372036854775807", "rate 99999999999999999999", "EDGE a",
	} {
		if got, understood := parse(text, tokens); understood {
			t.Errorf("%q is understood as %+v", text, got)
		}
	}
}

func TestNamespaceOf(t *testing.T) {
	for link, want := range map[string]string{
		"pid:[4026531836]": "host", "pid:[4026532201]": "container", "": "unknown", "mnt:[1]": "unknown",
	} {
		if got := namespaceOf(link); got != want {
			t.Errorf("%q: %s, want %s", link, got, want)
		}
	}
}

func TestSettings(t *testing.T) {
	env := map[string]string{"TAILGATE_INTERVAL_MS": "200", "TAILGATE_DEVICES": " GPU-1,,GPU-2"}
	interval, only, err := settings(func(name string) string { return env[name] })
	if err != nil || interval != 200*time.Millisecond || strings.Join(only, " ") != "GPU-1 GPU-2" {
		t.Errorf("%v %q %v", interval, only, err)
	}
	interval, only, err = settings(func(string) string { return "" })
	if err != nil || interval != defaultInterval || only != nil {
		t.Errorf("without an environment: %v %q %v", interval, only, err)
	}
	for _, bad := range []string{"-1", "fast", "1.5", "3600001"} {
		if _, _, err := settings(func(string) string { return bad }); err == nil {
			t.Errorf("interval %q is taken", bad)
		}
	}
}

func TestCommandLine(t *testing.T) {
	none := func(string) string { return "" }
	var out, errs bytes.Buffer
	if exit := tailgateNVML([]string{"--version"}, none, nil, &out, &errs, "host"); exit != 0 ||
		out.String() != "tailgate-nvml "+release()+"\n" {
		t.Errorf("exit %d, %q", exit, out.String())
	}
	for want, args := range map[int][]string{0: {"--help"}, 2: {"--skp"}} {
		if exit := tailgateNVML(args, none, nil, &out, &errs, "host"); exit != want {
			t.Errorf("%q: exit %d, want %d", args, exit, want)
		}
	}
	bad := func(string) string { return "x" }
	if exit := tailgateNVML(nil, bad, nil, &out, &errs, "host"); exit != 2 {
		t.Errorf("exit %d for a bad environment", exit)
	}
}

func TestCodes(t *testing.T) {
	for c, want := range map[code]string{
		ok: "ok", notSupported: "unsupported", noPermission: "no_permission", symbolMissing: "symbol_missing",
		functionNotFound: "symbol_missing", gpuLost: "error", unknownError: "error", 25: "error",
	} {
		if got := c.capability(); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	reasons := map[string]code{}
	for _, c := range []code{libraryNotFound, driverNotLoaded, versionMismatch, noPermission, symbolMissing, unknownError} {
		u := whyNot(c)
		if other, twice := reasons[u.Reason]; twice || u.Text == "" || u.Fix == "" {
			t.Errorf("%v: %+v, also of %v", c, u, other)
		}
		reasons[u.Reason] = c
	}
}
