package record

import (
	"encoding/json"
	"strings"
	"testing"

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
