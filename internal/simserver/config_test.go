package simserver

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everything uses every key once.
const everything = `{
  "model": "m", "revision": "r2", "seed": 7,
  "lanes": 4, "prefill_per_token": "0.24ms", "decode_base": "1ms", "decode_per_seq": "10us", "batch_limit": 9,
  "block_tokens": 8, "cache_blocks": 100, "kv_tokens": 4096, "template_tokens": 5,
  "cold": {"factor": 3, "decay": "5s"}, "drift_percent_per_minute": -2.5,
  "stall": {"every": "10s", "for": "350ms", "times": 3}, "speed_by_start": [1, 1.4, 1.4, 1], "state_env": "STATE",
  "default_tokens": 3, "natural_tokens": {"min": 2, "max": 9}, "tokens_per_event": 4, "events_per_write": 2,
  "ping": "1s",
  "errors": [{"kind": "http_500", "every": 50, "burst": 2, "after": 10}, {"kind": "reset", "share": 0.01}],
  "delay": {"every": 100, "for": "80ms"},
  "start": {"listen_after": "1s", "health_after": "2s", "inference_after": "3s", "inference_failure": "empty"},
  "refuse_start": {"after": "3s", "log": ["no GPU"], "code": 3},
  "exit": {"after_requests": 10, "after": "1m", "log": ["bye"], "code": 4},
  "ignore_sigterm": true, "stop_after": "5s", "drain": "1s", "idle_timeout": "2s",
  "children": {"count": 2, "ignore_sigterm": true, "own_session": true},
  "truth_log": "truth.jsonl",
  "plain": {"first": "50ms", "gap": "10ms"}
}`

func TestParseEverything(t *testing.T) {
	cfg, err := ParseConfig([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	if cfg.PrefillPerToken != Duration(240*time.Microsecond) || cfg.Children.Count != 2 || cfg.Errors[1].Share != 0.01 {
		t.Errorf("values lost: %+v", cfg)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(everything), &keys); err != nil {
		t.Fatal(err)
	}
	for key := range keysOf(reflect.TypeFor[Config]()) {
		if _, ok := keys[key]; !ok {
			t.Errorf("the test leaves out key %q", key)
		}
	}
}

// A configuration written by a program reads back as itself, whatever its zeros.
func TestRoundTrip(t *testing.T) {
	all, err := ParseConfig([]byte(everything))
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{"default": Default(), "demo": Demo(), "all": all, "quick": quick()} {
		data, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseConfig(data)
		if err != nil {
			t.Fatalf("%s: %v in %s", name, err, data)
		}
		if diff := cmp.Diff(cfg, back); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseEmptyIsDefault(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), cfg); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"unknown key", `{"lane": 3}`, `unknown key "lane": did you mean "lanes"?`},
		{"unknown key below", `{"cold": {"factr": 3}}`, `unknown key "cold.factr": did you mean "factor"?`},
		{"unknown key in a list", `{"errors": [{"knd": "reset"}]}`, `unknown key "errors[0].knd": did you mean "kind"?`},
		{"unknown key behind a pointer", `{"exit": {"cod": 1}}`, `did you mean "code"?`},
		{"nothing near", `{"quantisation": 3}`, `unknown key "quantisation"`},
		{"wrong case", `{"Lanes": 3}`, `did you mean "lanes"?`},
		{"embedded names are not keys", `{"Engine": {}}`, `unknown key "Engine"`},
		{"no object", `[]`, `must be one JSON object`},
		{"syntax", "{\n  \"lanes\": 3,,\n}", `line 2, column 14`},
		{"two values", `{} {}`, `line 1, column 4`},
		{"kind", `{"lanes": "3"}`, `cannot unmarshal string`},
		{"duration without unit", `{"decode_base": 5}`, `write it as a string with a unit`},
		{"bad duration", `{"decode_base": "5 parsecs"}`, `"5 parsecs" is not a duration`},
		{"negative duration", `{"decode_base": "-5ms"}`, `negative`},
		{"lanes", `{"lanes": 0}`, `lanes: must be at least 1, got 0`},
		{"several at once", `{"lanes": 0, "batch_limit": -1}`, "lanes: must be at least 1, got 0\nbatch_limit"},
		{"cold without decay", `{"cold": {"factor": 3}}`, `cold.decay: must be above 0`},
		{"endless freeze", `{"stall": {"every": "1s", "for": "1s"}}`, `stall.for: must be below stall.every`},
		{"stall without period", `{"stall": {"for": "1s"}}`, `stall.every: must be above 0`},
		{"speed", `{"speed_by_start": [1, 0]}`, `speed_by_start[1]: must be above 0`},
		{"speed without folder", `{"speed_by_start": [1], "state_env": ""}`, `state_env: must be set`},
		{"error kind", `{"errors": [{"kind": "http_418", "every": 2}]}`, `errors[0].kind: unknown "http_418"`},
		{"error of nobody", `{"errors": [{"kind": "reset"}]}`, `errors[0]: needs either every or share`},
		{"error of both", `{"errors": [{"kind": "reset", "every": 2, "share": 0.1}]}`, `needs either every or share`},
		{"burst", `{"errors": [{"kind": "reset", "every": 2, "burst": 3}]}`, `burst: must be 0 to every`},
		{"share", `{"errors": [{"kind": "reset", "share": 1.5}]}`, `share: must be 0 to 1`},
		{"span", `{"natural_tokens": {"min": 5, "max": 2}}`, `natural_tokens: needs 1 <= min <= max`},
		{"refusal code", `{"refuse_start": {"code": 0}}`, `refuse_start.code: must be 1 to 255`},
		{"exit without limit", `{"exit": {"code": 1}}`, `exit: needs after_requests or after`},
		{"delay of nobody", `{"delay": {"for": "1s"}}`, `delay.every: must be above 0`},
		{"model", `{"model": ""}`, `model: must not be empty`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseConfig([]byte(tt.in))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"lane", "lanes", 1}, {"kitten", "sitting", 3}, {"ab", "ba", 2}} {
		if got := editDistance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance of %q and %q is %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if editDistance(tt.a, tt.b) != editDistance(tt.b, tt.a) {
			t.Errorf("distance of %q and %q depends on the order", tt.a, tt.b)
		}
	}
}

// No input panics, and what is taken can be written and read again.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{everything, `{}`, `{"cold":null}`, `{"errors":[null]}`, `{"stall":{"every":"1ns","for":"0s"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := ParseConfig(data)
		if err != nil {
			return
		}
		out, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseConfig(out); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
	})
}
