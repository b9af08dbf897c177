package telemetry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSamplerConvertsTime(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		a.open()
		a.measure(100)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(10*time.Second + time.Millisecond)
		st := s.Reduce(2*second, 6*second, nil)
		if g := one(t, st); g.Ticks != 4 || len(st.Gaps) != 0 {
			t.Errorf("%d ticks in four seconds, gaps %v", g.Ticks, st.Gaps)
		}
		if got := s.Latest(); !got.Equal(record.Of(60)) {
			t.Errorf("latest temperature %v", got)
		}
		if st.Host.Ticks != 4 {
			t.Errorf("%d host ticks in four seconds", st.Host.Ticks)
		}
	})
}

func TestSamplerDistrustsAForeignClock(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		here := a.mono
		a.mono = func() int64 { return here() - int64(2*time.Second) }
		a.open()
		a.measure(1)
		a.mono = here // too late: a clock that was wrong once is not believed again
		a.measure(100)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		ticks := s.store.devices[gpu].ticks
		if len(ticks) != 6 { // the first came before Start returned
			t.Errorf("%d ticks", len(ticks))
		}
		for i, r := range ticks {
			if want := record.Instant(i+1)*second + 1; !r.OnArrival || r.T != want {
				t.Errorf("tick %d at %v, on arrival %v", i, r.T, r.OnArrival)
			}
		}
	})
}

// Case G-04: whatever keeps the driver from starting is a reason in plain words, an error only where the GPU is required.
func TestSamplerModes(t *testing.T) {
	play := func(_ int, a *actor) exit {
		a.say("hello", `"unavailable":{"reason":"library_not_found","text":"no driver","fix":"install one"}`)
		return exit{code: 3}
	}
	for name, c := range map[string]struct {
		o      Options
		reason string
		lives  int
		fails  bool
	}{
		"off":                  {Options{Mode: Off, Sensor: "actor"}, "off by configuration", 0, false},
		"not found":            {Options{Mode: Optional}, notFound, 0, false},
		"not found, required":  {Options{Mode: Required}, notFound, 0, true},
		"no driver":            {Options{Mode: Optional, Sensor: "actor"}, "no driver: install one (library_not_found)", 1, false},
		"no driver but needed": {Options{Mode: Required, Sensor: "actor"}, "no driver: install one (library_not_found)", 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			st := &stage{play: play}
			synctest.Test(t, func(t *testing.T) {
				s, err := perform(t, c.o, st)
				var missing *UnavailableError
				if errors.As(err, &missing) != c.fails || c.fails && missing.Reason != c.reason {
					t.Fatalf("error %v", err)
				}
				if len(st.starts()) != c.lives {
					t.Errorf("started %d times", len(st.starts()))
				}
				if err != nil {
					return
				}
				if _, _, reason := s.GPUs(); reason != c.reason {
					t.Errorf("reason %q, want %q", reason, c.reason)
				}
				if got := s.Latest(); !got.Equal(record.NA(c.reason)) {
					t.Errorf("latest %v", got)
				}
			})
		})
	}
	if _, err := Start(t.Context(), Options{Mode: "perhaps"}); err == nil {
		t.Error("an unknown mode is accepted")
	}
}

func TestSensorOfAnotherReleaseIsRefused(t *testing.T) {
	o := Options{Mode: Optional, Sensor: "actor", Version: "1.2.4"}
	st := &stage{play: func(_ int, a *actor) exit { a.open(); return a.wait() }}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, o, st)
		noError(t, err)
		if _, _, reason := s.GPUs(); !strings.HasPrefix(reason, "sensor_version") || len(st.starts()) != 1 {
			t.Errorf("reason %q after %d starts", reason, len(st.starts()))
		}
	})
	newer := &stage{play: func(_ int, a *actor) exit {
		_, _ = fmt.Fprintln(a.stdout, `{"v":2,"type":"hello"}`)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, newer)
		noError(t, err)
		if _, _, reason := s.GPUs(); !strings.HasPrefix(reason, "sensor_version") {
			t.Errorf("reason %q", reason)
		}
	})
}

func TestSensorThatDiesIsStartedAgain(t *testing.T) {
	st := &stage{play: func(life int, a *actor) exit {
		a.open()
		a.measure(3)
		if life < 2 {
			return exit{code: 1}
		}
		a.measure(100)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(30*time.Second + time.Millisecond)
		if n := len(st.starts()); n != 3 {
			t.Errorf("started %d times", n)
		}
		if g := one(t, s.Reduce(1, 20*second, nil)); g.Ticks < 18 {
			t.Errorf("%d ticks", g.Ticks)
		}
	})
}

func TestSensorRestartsAreLimited(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		a.open()
		a.measure(1)
		return exit{code: 1}
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(time.Minute)
		s.SetSink(func([]byte) {}) // a new round does not bring back what is lost
		time.Sleep(time.Minute)
		if n := len(st.starts()); n != 1+restartsPerRound {
			t.Errorf("started %d times", n)
		}
		state := s.Reduce(60*second, 90*second, nil)
		if g := one(t, state); g.Ticks != 0 || g.ReasonsNA != "gap" {
			t.Errorf("%+v", g)
		}
		if len(state.Gaps) == 0 || !strings.Contains(state.Gaps[0].Reason, "restarts are spent") {
			t.Errorf("gaps %+v", state.Gaps)
		}
	})
}

func TestSessionRestartsAreLimited(t *testing.T) {
	s := &sensor{}
	for range restartsPerSession {
		s.round.Store(0)
		if !s.mayRestart(&ending{}) {
			t.Fatal("a restart within the budget is refused")
		}
	}
	s.round.Store(0)
	if s.mayRestart(&ending{}) {
		t.Error("the session's budget is not kept")
	}
}

func TestSensorThatHangsIsKilled(t *testing.T) {
	for name, hang := range map[string]func(a *actor){
		"silent": func(*actor) {},
		"beats with a call in progress": func(a *actor) {
			for ms := 0; ms <= 12000; ms += 2000 {
				a.say("beat", fmt.Sprint(`"busy_ms":`, ms))
				time.Sleep(2 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := &stage{play: func(life int, a *actor) exit {
				a.open()
				a.sample()
				if life == 0 {
					hang(a)
					<-a.killed
					return exit{signal: syscall.SIGKILL}
				}
				a.measure(100)
				return a.wait()
			}}
			synctest.Test(t, func(t *testing.T) {
				s, err := perform(t, Options{}, st)
				noError(t, err)
				time.Sleep(25*time.Second + time.Millisecond)
				if len(st.starts()) != 2 {
					t.Fatalf("started %d times", len(st.starts()))
				}
				gaps := s.Reduce(1, 24*second, nil).Gaps
				if len(gaps) != 1 || gaps[0].To < 9*second || gaps[0].To > 16*second ||
					!strings.Contains(gaps[0].Reason, "killed") {
					t.Errorf("gaps %+v", gaps)
				}
			})
		})
	}
}

func TestSensorThatDoesNotDieIsAbandoned(t *testing.T) {
	release := make(chan struct{})
	st := &stage{immortal: true}
	st.play = func(_ int, a *actor) exit {
		a.open()
		a.sample()
		<-release
		return exit{}
	}
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		begin := time.Now()
		st.mono = func() int64 { return boot + int64(time.Since(begin)) }
		o := Options{Mode: Optional, Sensor: "actor", Interval: time.Second, Clock: record.NewClock(), ProcRoot: "testdata/proc"}
		s, err := start(t.Context(), o, &boundedLog{}, st.launch, st.mono)
		noError(t, err)
		time.Sleep(silenceLimit + killGrace + 2*time.Second)
		gaps := s.Reduce(1, s.clock.Now(), nil).Gaps
		if len(gaps) != 1 || !strings.Contains(gaps[0].Reason, "sensor_stuck") {
			t.Errorf("gaps %+v", gaps)
		}
		noError(t, s.Close()) // must not wait for it
		close(release)
	})
}

func TestSensorSkipsTheFunctionItDiedOf(t *testing.T) {
	for name, how := range map[string]exit{"missing": {code: 127}, "broken": {signal: syscall.SIGSEGV}} {
		t.Run(name, func(t *testing.T) {
			st := &stage{play: func(life int, a *actor) exit {
				if life == 0 {
					_, _ = fmt.Fprint(a.stderr, "first nvmlInit_v2\nfirst nvmlDeviceGetName\n")
					return how
				}
				a.open()
				a.measure(100)
				return a.wait()
			}}
			synctest.Test(t, func(t *testing.T) {
				_, err := perform(t, Options{}, st)
				noError(t, err)
				starts := st.starts()
				if len(starts) != 2 || !slices.Equal(starts[1], []string{"--skip", "nvmlDeviceGetName"}) {
					t.Errorf("starts %q", starts)
				}
			})
		})
	}
}

func TestSensorBoundEagerlyIsExplained(t *testing.T) {
	st := &stage{play: func(int, *actor) exit { return exit{code: 127} }}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		if _, _, reason := s.GPUs(); !strings.Contains(reason, "bound eagerly") || len(st.starts()) != 1 {
			t.Errorf("reason %q after %d starts", reason, len(st.starts()))
		}
	})
}

func TestFaultySensorIsLost(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		a.open()
		a.measure(2)
		for range 11 {
			_, _ = fmt.Fprintln(a.stdout, "segmentation violation, maybe")
		}
		a.measure(100)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(20 * time.Second)
		gaps := s.Reduce(1, 20*second, nil).Gaps
		if len(st.starts()) != 1 || len(gaps) != 1 || !strings.HasPrefix(gaps[0].Reason, "error: actor sent 11 bad lines") {
			t.Errorf("%d starts, gaps %+v", len(st.starts()), gaps)
		}
	})
}

func TestSensorMayStumble(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		a.open()
		_, _ = fmt.Fprintln(a.stdout, strings.Repeat("x", 3*maxLine))
		a.say("sample", `"dev":"GPU-of-somebody-else","util_pct":1`)
		a.say("horoscope", "")
		a.measure(100)
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		time.Sleep(3*time.Second + time.Millisecond)
		if g := one(t, s.Reduce(1, 5*second, nil)); g.Ticks < 3 {
			t.Errorf("%d ticks", g.Ticks)
		}
		// The sensor's goroutine counts; it is asleep in fake time while the test runs.
		synctest.Wait()
		if got := s.sensor.tally; got.bad != 1 || got.ignored != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestEdgesReachTheSensor(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit {
		a.open()
		a.sample()
		for a.stdin.Scan() {
			token, _ := strings.CutPrefix(a.stdin.Text(), "edge ")
			a.say("procs", fmt.Sprintf(`"dev":"GPU-1","edge":%q,"ns":"host","procs":[{"pid":10,"kind":"compute"}]`, token))
		}
		return exit{}
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		var mu sync.Mutex
		var lines []string
		s.SetSink(func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, string(b))
		})
		s.Edge("r3.start")
		synctest.Wait()
		s.SetSink(nil)
		s.Edge("r3.end")
		synctest.Wait()
		want := `"source":"actor","type":"procs","dev":"GPU-1","edge":"r3.start"`
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, want) }) {
			t.Errorf("no such line in %q", lines)
		}
		if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "r3.end") }) {
			t.Errorf("a sink that was taken away is called: %q", lines)
		}
		procs := one(t, s.Reduce(1, s.clock.Now()+1, func(pid int) bool { return pid == 10 })).Procs
		if len(procs) != 1 || !procs[0].Ours {
			t.Errorf("processes %+v", procs)
		}
	})
}

func TestSinkGetsBothSources(t *testing.T) {
	st := &stage{play: func(_ int, a *actor) exit { a.open(); a.measure(100); return a.wait() }}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		sources := map[string]int{}
		s.SetSink(func(b []byte) { // one at a time, so that a map will do
			for _, source := range []string{"host", "actor"} {
				if strings.Contains(string(b), fmt.Sprintf(`"source":%q`, source)) {
					sources[source]++
				}
			}
			if strings.ContainsRune(string(b), '\n') {
				t.Errorf("a line with a line feed: %q", b)
			}
		})
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		s.SetSink(nil)
		if sources["host"] != 3 || sources["actor"] != 3 {
			t.Errorf("%v", sources)
		}
	})
}
