package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func aCalibration() *Calibration {
	return &Calibration{
		Schema: 1, Run: "20260304-101500-k3f9", Date: time.Date(2026, 3, 4, 10, 15, 0, 500, time.UTC), Tailgate: Tool{Version: "1.2.0"},
		Commit:   strings.Repeat("a", 40),
		Workload: CalibratedWorkload{Name: "chat", Version: 3, Digest: "sha256:" + strings.Repeat("0", 64)},
		Host:     CalibratedHost{Name: "gpu-04", CPU: "EPYC", Kernel: "6.8", Cores: 64},
		GPUs:     []CalibratedGPU{{UUID: "GPU-a", Name: "H100", Driver: "570.86"}},
		Measure:  time.Minute, Pairs: 9, Planned: 9, Level: 0.023, MaxPairs: 8, Verdict: "pass",
		Drift: CalibrationDrift{Metric: "ttft_p50", Change: Of(-0.004), SlotEffect: Of(0.001), Range: Of(0.02)},
		Metrics: map[string]CalibratedMetric{
			"ttft_p50": {SD: Of(0.012), RoundSD: Of(0.0085), DF: 8, Lag1: Of(-0.1), Supported: Of(0.03), Median: Of(182), Unit: "ms", Tolerance: Of(0.05)},
			"itl_p50":  {SD: Of(0.003), RoundSD: Of(0.0021), DF: 8, Lag1: NA("all pairs differ alike"), Supported: Of(0.01), Median: Of(21), Unit: "ms", Tolerance: NA("not gated")},
		},
	}
}

func TestCalibrationRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), CalibrationFile)
	want := aCalibration()
	for range 2 {
		if err := WriteCalibration(path, want); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadCalibration(path, data)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.SHA256) != 64 {
		t.Errorf("digest %q", got.SHA256)
	}
	want.SHA256 = got.SHA256
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every mistake is said with file, line and field.
func TestBadCalibrations(t *testing.T) {
	good, err := encode(aCalibration())
	if err != nil {
		t.Fatal(err)
	}
	// The good file, one key a line: line 2 is schema, line 3 run, and so on.
	tests := []struct{ name, from, to, want string }{
		{"empty", string(good), "", "c.json:1: the file ends early"},
		{"not JSON", `"run": `, `"run" `, `c.json:3: run: not JSON: invalid character '"' after object key`},
		{"cut", "\n}\n", "", "c.json:93: the file ends early"},
		{"two values", "\n}\n", "\n}\n{}", "c.json:95: something follows the value"},
		{"a list", string(good), "[]", "c.json:1: want an object"},
		{"newer", `"schema": 1`, `"schema": 2`, "c.json:1: schema: 2 is newer than the 1 this tailgate reads; use the version that wrote it"},
		{"older", `"schema": 1`, `"schema": 0`, "c.json:2: schema: 0: not a calibration"},
		{"unknown key", `"run":`, `"runs":`, `c.json:3: unknown key "runs"`},
		{"unknown key of a metric", `"s_d":`, `"sd":`, `c.json:52: metrics.itl_p50: unknown key "sd"`},
		{"other case", `"run":`, `"Run":`, `c.json:3: unknown key "Run"`},
		{"missing key", ` "verdict": "pass",` + "\n", "", `c.json:1: the key "verdict" is missing`},
		{"twice", `"verdict": "pass"`, `"pairs": 9`, "c.json:32: pairs: is there twice"},
		{"number as text", `"pairs": 9`, `"pairs": "9"`, "c.json:28: pairs: want a whole number"},
		{"fraction of a pair", `"pairs": 9`, `"pairs": 9.5`, "c.json:28: pairs: want a whole number"},
		{"null", `"pairs": 9`, `"pairs": null`, "c.json:28: pairs: want a whole number"},
		{"text as number", `"verdict": "pass"`, `"verdict": 1`, "c.json:32: verdict: want text"},
		{"no time", `"date": "2026-03-04T10:15:00.0000005Z"`, `"date": "yesterday"`, "c.json:4: date: not a time such as 2026-03-04T10:15:00Z"},
		{"no date", `"date": "2026-03-04T10:15:00.0000005Z"`, `"date": "0001-01-01T00:00:00Z"`, "c.json:4: date: no date of a calibration"},
		{"digest", `"sha256:0`, `"sha256:x`, "c.json:12: workload.digest: want sha256: and 64 hex digits"},
		{"too few pairs", `"pairs": 9`, `"pairs": 3`, "c.json:28: pairs: 3 is out of range: 4 to 12"},
		{"more pairs than planned", `"planned": 9`, `"planned": 8`, "c.json:29: planned: 8 is out of range: pairs to 12"},
		{"verdict", `"verdict": "pass"`, `"verdict": "good"`, "c.json:32: verdict: want pass, fail, inconclusive or invalid"},
		{"negative spread", `"value": 0.012`, `"value": -0.012`, "c.json:76: metrics.ttft_p50.s_d: -0.012 is out of range"},
		{"no spread", `"value": 0.012`, `"value": 0`, "c.json:76: metrics.ttft_p50.s_d: 0 is out of range"},
		{"infinite spread", `"value": 0.012`, `"value": null, "infinite": true`, "c.json:76: metrics.ttft_p50.s_d: +Inf is out of range"},
		{"spread as text", `"value": 0.012`, `"value": "0.012"`, "c.json:77: metrics.ttft_p50.s_d.value: want a number"},
		{"too large a number", `"value": 0.012`, `"value": 1e999`, "c.json:77: metrics.ttft_p50.s_d.value: want a number"},
		{"df", `"df": 8`, `"df": 9`, "c.json:58: metrics.itl_p50.df: 9 is out of range: 0 to one less than pairs"},
		{"key of a metric", `"itl_p50"`, `"ITL p50"`, "c.json:47: metrics.ITL p50: no key of a metric"},
		{"gpu without name", `"uuid": "GPU-a"`, `"uuid": ""`, "c.json:22: gpus[0].uuid: missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(string(good), tt.from, tt.to, 1)
			if text == string(good) {
				t.Fatalf("%q is not in the file:\n%s", tt.from, good)
			}
			c, err := ReadCalibration("c.json", []byte(text))
			if err == nil {
				t.Fatalf("accepted as %+v", c)
			}
			if _, ok := errors.AsType[*CalibrationError](err); !ok || err.Error() != tt.want {
				t.Errorf("\n got %s\nwant %s", err, tt.want)
			}
		})
	}
	if _, err := ReadCalibration("c.json", bytes.Repeat([]byte(" "), maxCalibration+1)); err == nil || err.Error() != "c.json:1: larger than 1 MiB" {
		t.Errorf("%v", err)
	}
	long := strings.Replace(string(good), `"gpu-04"`, `"`+strings.Repeat("x", maxWord+1)+`"`, 1)
	if _, err := ReadCalibration("c.json", []byte(long)); err == nil || !strings.Contains(err.Error(), "host.name: a text of 4097 bytes") {
		t.Errorf("%v", err)
	}
}

// What is accepted can be written and read again without a change, whatever is in it.
func FuzzCalibration(f *testing.F) {
	text, err := json.Marshal(aCalibration())
	if err != nil {
		f.Fatal(err)
	}
	seed(f, text)
	f.Add([]byte(`{"schema":1,"metrics":{"a":{"s_d":{"value":null,"infinite":true}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadCalibration("c.json", data)
		if err != nil {
			if wrong, ok := errors.AsType[*CalibrationError](err); !ok || wrong.Line < 1 || wrong.Line > 1+bytes.Count(data, []byte{'\n'}) || wrong.Text == "" {
				t.Fatalf("%#v", err)
			}
			return
		}
		for key, m := range c.Metrics {
			if s, ok := m.SD.Get(); ok && !(s > 0 && s < 10) {
				t.Fatalf("%s: s_d %v", key, s)
			}
		}
		once, err := encode(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ReadCalibration("c.json", once)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, once)
		}
		if twice, err := encode(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("it changed in rewriting: %v", err)
		}
	})
}
