package telemetry

import (
	"fmt"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestStoreRefusesWhatItDoesNotKnow(t *testing.T) {
	s := watching(t, nil)
	if s.add(Reading{T: 1, Type: "sample", Dev: "GPU-2"}) || s.capable("GPU-2", nil) {
		t.Error("a device that was never announced is taken")
	}
	if !s.add(tick(2, nil)) || s.add(tick(1, nil)) {
		t.Error("readings must come in order of time")
	}
	for i := range maxDevices {
		s.announce(Line{Dev: fmt.Sprint("GPU-x", i)})
	}
	if s.announce(Line{Dev: "one too many"}) {
		t.Error("there is no limit on devices")
	}
}

func TestStoreStaysBounded(t *testing.T) {
	s := watching(t, nil)
	for i := range record.Instant(maxReadings + 10) {
		s.add(Reading{T: i, Type: "sample", Dev: gpu})
		s.trouble(i, "again", false)
	}
	ticks := s.devices[gpu].ticks
	if len(ticks) > maxReadings || len(s.troubles) > maxTroubles {
		t.Errorf("%d readings, %d troubles", len(ticks), len(s.troubles))
	}
	if last := ticks[len(ticks)-1].T; last != maxReadings+9 {
		t.Errorf("the newest reading is %d", last)
	}
}

func TestStoreDescribesDevices(t *testing.T) {
	s := newStore(0)
	s.announce(Line{
		Dev: gpu, Name: "Stub", Limits: Limits{PowerMW: new(7e5)}, Modes: Modes{ECC: "on"}, MemTotalB: new(8e10),
	})
	s.capable(gpu, map[string]string{"sm_mhz": "ok"})
	gpus, caps, reason := s.gpus()
	if len(gpus) != 1 || gpus[0].Name != "Stub" || gpus[0].ECC != "on" || !gpus[0].PowerLimitMW.Equal(record.Of(7e5)) ||
		!gpus[0].SMMaxMHz.Equal(record.NA("unsupported")) || caps[gpu]["sm_mhz"] != "ok" || reason != "" {
		t.Errorf("%+v %v %q", gpus, caps, reason)
	}
	caps[gpu]["sm_mhz"] = "changed by the caller"
	if _, caps, _ = s.gpus(); caps[gpu]["sm_mhz"] != "ok" {
		t.Error("callers share the store's map")
	}
}
