package record

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A duration the server gave as 0 is not one it did not give.
func TestServerTimes(t *testing.T) {
	for _, tt := range []struct {
		times ServerTimes
		want  string
	}{
		{ServerTimes{}, ""},
		{ServerTimes{Prompt: new(int64(0))}, `"server":{"prompt_ns":0}`},
		{
			ServerTimes{Queue: new(int64(1)), Prompt: new(int64(2)), Decode: new(int64(3)), Load: new(int64(4))},
			`"server":{"queue_ns":1,"prompt_ns":2,"decode_ns":3,"load_ns":4}`,
		},
	} {
		text, err := json.Marshal(Sample{Server: tt.times})
		if err != nil {
			t.Fatal(err)
		}
		if tt.want == "" && strings.Contains(string(text), "server") || !strings.Contains(string(text), tt.want) {
			t.Errorf("%s does not hold %q", text, tt.want)
		}
		var back Sample
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.times, back.Server); diff != "" {
			t.Error(diff)
		}
	}
	s := Sample{V: 1, Class: OK, Phase: PhaseMeasure, Server: ServerTimes{Load: new(int64(-1))}}
	if err := checkSample(&s); err == nil || !strings.Contains(err.Error(), "server time") {
		t.Errorf("a negative server time: %v", err)
	}
}

// S-13: a model that was loaded for a measured request marks the round, one that failed or was quick does not.
func TestModelReloaded(t *testing.T) {
	for _, tt := range []struct {
		load  time.Duration
		class Outcome
		want  bool
	}{{250 * time.Millisecond, OK, true}, {100 * time.Millisecond, OK, false}, {time.Second, StreamError, false}} {
		sum := sumOf(20, func(i int, s *Sample, _ *Stream) {
			if i == 7 {
				s.Server.Load, s.Class = new(int64(tt.load)), tt.class
			}
		}, time.Millisecond)
		if got := slices.Contains(sum.Flags, "model_reloaded"); got != tt.want {
			t.Errorf("load of %v in a request that was %s: flag %t", tt.load, tt.class, got)
		}
	}
}
