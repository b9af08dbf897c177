package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/simserver"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/telemetry"
)

// twoGPUs is a sensor of two devices: GPU-a always holds 1 GiB, GPU-b 20 GiB more while the file named by $HELD holds the pid of
// a process that lives.
const twoGPUs = `#!/bin/bash
echo '{"v":1,"type":"hello","sensor":"two","version":"1"}'
for d in GPU-a GPU-b; do
  echo '{"v":1,"type":"device","dev":"'$d'","name":"Two","vendor":"NVIDIA","mem_total_b":80000000000,"modes":{"mig":"off"}}'
  echo '{"v":1,"type":"caps","dev":"'$d'","caps":{"mem_used_b":"ok"}}'
done
while :; do
  b=1000000000
  if read -r pid 2>/dev/null <"$HELD" && kill -0 "$pid" 2>/dev/null; then b=21000000000; fi
  echo '{"v":1,"type":"sample","dev":"GPU-a","mem_used_b":1000000000}'
  echo '{"v":1,"type":"sample","dev":"GPU-b","mem_used_b":'$b'}'
  # Ends with its stdin, as a sensor must.
  read -r -t 0.05 line; [ $? -gt 128 ] || [ -n "$line" ] || exit 0
done
`

// watchedSession is a short session of one pair on twoGPUs with the given choice of devices. Its servers take memory of GPU-b
// if uses is true. It returns the run and what each server was told of its GPUs.
func watchedSession(t *testing.T, devices Devices, uses, expect bool, change func(*record.Run)) (*record.Run, []string) {
	t.Helper()
	held := filepath.Join(t.TempDir(), "held")
	path := filepath.Join(t.TempDir(), "two")
	if err := os.WriteFile(path, []byte(twoGPUs), 0o755); err != nil {
		t.Fatal(err)
	}
	clock := record.NewClock()
	sampler, err := telemetry.Start(context.Background(), telemetry.Options{
		Mode: telemetry.Required, Interval: 50 * time.Millisecond, Sensor: path, Env: []string{"PATH=" + os.Getenv("PATH"), "HELD=" + held}, Clock: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sampler.Close() })
	if len(devices.Watched) > 0 {
		sampler.Watch(devices.Watched)
	}
	run := shortSessionOf(t, "AB", simserver.Default(), nil, func(run *record.Run) {
		run.Environment.GPUs, run.Environment.Caps, _ = sampler.GPUs()
		if change != nil {
			change(run)
		}
	}, func(s *Session, _ Progress) {
		if s.plan.Telemetry == nil {
			t.Error("nothing is observed")
		}
	}, func(p *Plan) {
		p.Telemetry, p.Devices, p.Clock = sampler, devices, clock
		for name, arm := range p.Arms {
			arm.ExpectGPU = expect
			arm.Env = append(arm.Env, cudaVisible+"=1", "SEEN="+held+".seen")
			line := `echo "$CUDA_VISIBLE_DEVICES $CUDA_DEVICE_ORDER" >>"$SEEN"; exec ` + arm.Start
			if uses {
				line = "echo $$ >" + held + "; " + line
			}
			arm.Start = line
			p.Arms[name] = arm
		}
	})
	told, err := os.ReadFile(held + ".seen")
	if err != nil {
		t.Fatal(err)
	}
	return run, strings.Split(strings.TrimSuffix(string(told), "\n"), "\n")
}

func noteOf(run *record.Run, id string) []record.Note {
	return slices.DeleteFunc(slices.Clone(run.Notes), func(n record.Note) bool { return n.ID != id })
}

func watchedBy(run *record.Run) []string {
	var list []string
	for _, rd := range run.Rounds {
		for _, g := range rd.Machine.GPUs {
			list = append(list, fmt.Sprintf("%d:%s", rd.Slot, g.UUID))
		}
	}
	return list
}

// A number without an order is the device whose memory grew with the first start, for the whole session; the servers are told
// what they were told before.
func TestMappingIsInferredFromGrowth(t *testing.T) {
	devices := Devices{From: cudaVisible, Watched: []string{"GPU-a", "GPU-b"}, Named: 1, Why: "numbers without an order"}
	run, told := watchedSession(t, devices, true, true, nil)
	if run.Status != record.StatusComplete || len(run.Incidents) > 0 {
		t.Fatalf("status %s, incidents %+v", run.Status, run.Incidents)
	}
	notes := noteOf(run, "gpu_mapping_inferred")
	want := "the first server took memory on GPU-b: nothing else is watched, in any round; numbers without an order; name UUIDs under target.gpus to be sure"
	if len(notes) != 1 || notes[0].Text != want || notes[0].Slot == nil || *notes[0].Slot != 0 {
		t.Errorf("notes %+v, want one at slot 0: %s", notes, want)
	}
	if got := watchedBy(run); !slices.Equal(got, []string{"0:GPU-b", "1:GPU-b"}) {
		t.Errorf("watched by slot: %q", got)
	}
	if gpus := run.Environment.GPUs; len(gpus) != 1 || gpus[0].UUID != "GPU-b" || len(run.Environment.Caps) != 1 {
		t.Errorf("on record: %+v, %v", gpus, run.Environment.Caps)
	}
	for _, rd := range run.Rounds {
		if wait, ok := rd.Stop.MemoryWait.Finite(); !ok {
			t.Errorf("slot %d: memory not proven free (%v), %v", rd.Slot, wait, rd.Stop.MemoryWait.Reason())
		}
	}
	if !slices.Equal(told, []string{"1 ", "1 "}) {
		t.Errorf("the servers were told %q", told)
	}
}

// Nothing grew: the server is not on the GPU, and no mapping is made up.
func TestMappingWithoutGrowth(t *testing.T) {
	devices := Devices{From: cudaVisible, Watched: []string{"GPU-a", "GPU-b"}, Named: 1, Why: "numbers without an order"}
	run, _ := watchedSession(t, devices, false, true, nil)
	if len(run.Incidents) != 1 || run.Incidents[0].ID != record.GPUNotUsed || len(noteOf(run, "gpu_mapping_inferred")) > 0 {
		t.Errorf("incidents %+v, notes %+v", run.Incidents, run.Notes)
	}
	// Where no GPU is expected both stay watched, and that is said.
	run, _ = watchedSession(t, devices, false, false, nil)
	notes := noteOf(run, "gpu_mapping_unknown")
	if len(run.Incidents) > 0 || len(notes) != 1 || !strings.Contains(notes[0].Text, "took memory on none") || len(run.Environment.GPUs) != 2 {
		t.Errorf("incidents %+v, notes %+v, GPUs %+v", run.Incidents, run.Notes, run.Environment.GPUs)
	}
	if got := watchedBy(run); len(got) != 4 {
		t.Errorf("watched by slot: %q, want both in each", got)
	}
}

// Named GPUs are told to every server by UUID, and are all that is looked at: growth on another is no use of theirs.
func TestNamedGPUsAreAllThatIsWatched(t *testing.T) {
	name := func(id string) Devices {
		return Devices{From: "target.gpus", Visible: []string{id}, Watched: []string{id}}
	}
	run, told := watchedSession(t, name("GPU-b"), true, true, nil)
	if len(run.Incidents) > 0 || len(run.Notes) > 0 {
		t.Errorf("incidents %+v, notes %+v", run.Incidents, run.Notes)
	}
	if got := watchedBy(run); !slices.Equal(got, []string{"0:GPU-b", "1:GPU-b"}) {
		t.Errorf("watched by slot: %q", got)
	}
	if line := "GPU-b " + pciOrder; !slices.Equal(told, []string{line, line}) {
		t.Errorf("the servers were told %q", told)
	}
	run, _ = watchedSession(t, name("GPU-a"), true, true, nil)
	if len(run.Incidents) != 1 || run.Incidents[0].ID != record.GPUNotUsed || !strings.Contains(run.Incidents[0].Text, "GPU-a") || strings.Contains(run.Incidents[0].Text, "GPU-b") {
		t.Errorf("a server on the other GPU: %+v", run.Incidents)
	}
}

// Servers that stay up side by side are confirmed by the first of them alone.
func TestMappingOfServersThatStayUp(t *testing.T) {
	devices := Devices{From: cudaVisible, Watched: []string{"GPU-a", "GPU-b"}, Named: 1, Why: "numbers without an order"}
	run, _ := watchedSession(t, devices, true, false, residing("/reset_prefix_cache"))
	if len(run.Incidents) > 0 || len(noteOf(run, "gpu_mapping_inferred")) != 1 {
		t.Errorf("incidents %+v, notes %+v", run.Incidents, run.Notes)
	}
	if got := watchedBy(run); !slices.Equal(got, []string{"0:GPU-b", "1:GPU-b"}) {
		t.Errorf("watched by slot: %q", got)
	}
}

func TestMappedSaysWhatIsWatched(t *testing.T) {
	d := Devices{Named: 1, Why: "numbers"}
	for _, tt := range []struct {
		on              []string
		doubt, id, text string
	}{
		{[]string{"GPU-b"}, "", "gpu_mapping_inferred", "the first server took memory on GPU-b: nothing else is watched, in any round; numbers; name UUIDs under target.gpus to be sure"},
		{[]string{"GPU-a", "GPU-b"}, "", "gpu_mapping_inferred", "the first server took memory on GPU-a, GPU-b: nothing else is watched, in any round; numbers (1 named, 2 in use); name UUIDs under target.gpus to be sure"},
		{nil, "", "gpu_mapping_unknown", "all GPUs that may be meant are watched: numbers, and the first server took memory on none; name UUIDs under target.gpus"},
		{[]string{"GPU-b"}, "GPU-a told nothing", "gpu_mapping_unknown", "all GPUs that may be meant are watched: numbers, and GPU-a told nothing; name UUIDs under target.gpus"},
	} {
		if id, text := mapped(d, tt.on, tt.doubt); id != tt.id || text != tt.text {
			t.Errorf("%q, %q:\n got %s %s\nwant %s %s", tt.on, tt.doubt, id, text, tt.id, tt.text)
		}
	}
}
