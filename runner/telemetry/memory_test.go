package telemetry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestMemoryOfTheNewestReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &stage{play: func(_ int, a *actor) exit {
			a.open()
			a.say("device", `"dev":"GPU-2","name":"Stub","mem_total_b":1000`)
			a.sample()
			a.say("sample", `"dev":"GPU-2","mem_used_b":700`)
			a.say("procs", `"dev":"GPU-2","procs":[{"pid":41},{"pid":42}],"reliable":true`)
			time.Sleep(5 * time.Second)
			a.say("sample", `"dev":"GPU-2","mem_used_b":5`)
			a.say("procs", `"dev":"GPU-2","procs":[{"pid":43}],"reliable":false`)
			return a.wait()
		}}
		s, err := perform(t, Options{}, st)
		if err != nil {
			t.Fatal(err)
		}
		first := s.Memory()
		if len(first) != 2 || first[0].Dev != "GPU-1" || first[0].UsedB.Reason() != "unsupported" || first[0].Listed != 0 {
			t.Fatalf("memory = %+v", first)
		}
		if used, _ := first[1].UsedB.Get(); used != 700 || !slices.Equal(first[1].PIDs, []int{41, 42}) {
			t.Errorf("memory of the second device = %+v", first[1])
		}
		if total, _ := first[1].TotalB.Get(); total != 1000 {
			t.Errorf("total = %v", first[1].TotalB)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		later := s.Memory()[1]
		if used, _ := later.UsedB.Get(); used != 5 || later.T <= first[1].T {
			t.Errorf("later = %+v, want the newer reading", later)
		}
		if later.Listed != 0 || later.PIDs != nil {
			t.Errorf("a list that cannot be relied on was taken: %+v", later)
		}
	})
}

// What is not watched is left out of everything that follows, in the order that was asked for, also after the sensor's restart.
func TestWatchedDevicesAlone(t *testing.T) {
	open := func(a *actor) {
		a.say("hello", `"sensor":"actor","version":"1.2.3"`)
		for i, dev := range []string{"GPU-1", "GPU-2", "GPU-3"} {
			a.say("device", fmt.Sprintf(`"dev":%q,"name":"Stub","mem_total_b":%d`, dev, 1000*(i+1)))
			a.say("caps", fmt.Sprintf(`"dev":%q,"caps":{"temp_c":"ok"}`, dev))
		}
	}
	st := &stage{play: func(life int, a *actor) exit {
		open(a)
		for n := range 100 {
			select {
			case <-a.killed:
				return exit{}
			case <-time.After(time.Second):
			}
			if life == 0 && n == 5 {
				return exit{code: 1}
			}
			for i, dev := range []string{"GPU-1", "GPU-2", "GPU-3"} {
				a.say("sample", fmt.Sprintf(`"dev":%q,"mem_used_b":%d,"temp_c":%d`, dev, 100*(i+1), 90-10*i))
				a.say("procs", fmt.Sprintf(`"dev":%q,"ns":"host","reliable":true`, dev))
			}
		}
		return a.wait()
	}}
	synctest.Test(t, func(t *testing.T) {
		s, err := perform(t, Options{}, st)
		noError(t, err)
		s.Watch([]string{"GPU-3", "GPU-2", "GPU-9", "GPU-3"})
		var mu sync.Mutex
		var lines []string
		s.SetSink(func(line []byte) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, string(line))
		})
		want := []string{"GPU-3", "GPU-2"}
		for range 2 { // before the sensor's restart and after it
			time.Sleep(4*time.Second + time.Millisecond)
			synctest.Wait()
			var devices, described, reduced []string
			for _, m := range s.Memory() {
				devices = append(devices, m.Dev)
			}
			gpus, caps, _ := s.GPUs()
			for _, g := range gpus {
				described = append(described, g.UUID)
			}
			now := s.clock.Now()
			for _, g := range s.Reduce(now-2*second, now, nil).GPUs {
				reduced = append(reduced, g.UUID)
			}
			if !slices.Equal(devices, want) || !slices.Equal(described, want) || !slices.Equal(reduced, want) || len(caps) != 2 {
				t.Errorf("memory of %q, GPUs %q, reduced %q, caps %v; want %q", devices, described, reduced, caps, want)
			}
			if got := s.Latest(); !got.Equal(record.Of(80)) {
				t.Errorf("hottest is %v, the one of 90 °C is not watched", got)
			}
		}
		if len(st.starts()) != 2 {
			t.Errorf("%d starts of the sensor, want a restart", len(st.starts()))
		}
		s.Watch([]string{"GPU-2"})
		if m := s.Memory(); len(m) != 1 || m[0].Dev != "GPU-2" || !m[0].TotalB.Equal(record.Of(2000)) {
			t.Errorf("narrowed once more: %+v", m)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, line := range lines {
			if strings.Contains(line, "GPU-1") {
				t.Errorf("a line of a device that is not watched: %s", line)
			}
		}
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, "GPU-3") }) {
			t.Error("no line of one that is")
		}
	})
}
