package telemetry

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
