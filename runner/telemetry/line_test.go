package telemetry

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestParseLine(t *testing.T) {
	good := `{"v":1,"type":"sample","t_ns":7,"dev":"GPU-1","sm_mhz":1980,"temp_c":-3,"reasons":"0x48","new_field":[1]}`
	l, err := ParseLine([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	bits, err := l.Bits()
	if *l.T != 7 || *l.SMMHz != 1980 || *l.TempC != -3 || bits != 0x48 || err != nil {
		t.Errorf("parsed %+v", l)
	}
	if l.MemMHz != nil {
		t.Error("a field that was not sent is present")
	}
}

func TestParseLineRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"not JSON":            `watch out`,
		"cut off":             `{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":19`,
		"no version":          `{"type":"beat"}`,
		"no device":           `{"v":1,"type":"sample","sm_mhz":1}`,
		"control in device":   `{"v":1,"type":"sample","dev":"GPU\u001b[1m"}`,
		"device too long":     `{"v":1,"type":"sample","dev":"` + strings.Repeat("x", maxDev+1) + `"}`,
		"negative clock":      `{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":-1}`,
		"negative limit":      `{"v":1,"type":"device","dev":"GPU-1","limits":{"power_mw":-1}}`,
		"negative pid":        `{"v":1,"type":"procs","dev":"GPU-1","procs":[{"pid":-1}]}`,
		"negative process":    `{"v":1,"type":"procs","dev":"GPU-1","procs":[{"pid":1,"mem_b":-1}]}`,
		"negative time":       `{"v":1,"type":"beat","t_ns":-1}`,
		"text for number":     `{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":"NaN"}`,
		"bare NaN":            `{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":NaN}`,
		"number out of range": `{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":1e999}`,
		"reasons not hex":     `{"v":1,"type":"sample","dev":"GPU-1","reasons":"hot"}`,
		"too many processes": `{"v":1,"type":"procs","dev":"GPU-1","procs":[` +
			strings.TrimSuffix(strings.Repeat(`{"pid":1},`, maxProcs+1), ",") + `]}`,
		"too long": `{"v":1,"type":"beat","text":"` + strings.Repeat("x", maxLine) + `"}`,
	} {
		if l, err := ParseLine([]byte(line)); err == nil {
			t.Errorf("%s: accepted as %+v", name, l)
		}
	}
}

func TestParseLineTellsWhyItIgnores(t *testing.T) {
	if _, err := ParseLine([]byte(`{"v":2,"type":"sample","dev":"GPU-1"}`)); !errors.Is(err, errVersion) {
		t.Errorf("newer protocol: %v", err)
	}
	if _, err := ParseLine([]byte(`{"v":1,"type":"horoscope"}`)); !errors.Is(err, errUnknownType) {
		t.Errorf("unknown type: %v", err)
	}
}

func TestParseLineCleansForeignText(t *testing.T) {
	line := `{"v":1,"type":"device","dev":"GPU-1","name":"\u001b[31mGPU\u0007` + strings.Repeat("x", 400) + `"}`
	l, err := ParseLine([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Name) > maxText || strings.ContainsAny(l.Name, "\x1b\x07") {
		t.Errorf("name of %d bytes: %q", len(l.Name), l.Name)
	}
}

func FuzzParseLine(f *testing.F) {
	for _, seed := range []string{
		`{"v":1,"type":"hello","sensor":"tailgate-nvml","version":"0.1.0","edges":true,"interval_ms":1000}`,
		`{"v":1,"type":"hello","unavailable":{"reason":"no_devices","text":"none","fix":"look"}}`,
		`{"v":1,"type":"device","dev":"GPU-1","limits":{"power_mw":700000},"modes":{"ecc":"on"},"mem_total_b":85899345920}`,
		`{"v":1,"type":"caps","dev":"GPU-1","caps":{"sm_mhz":"ok","reasons":"unsupported"}}`,
		`{"v":1,"type":"sample","t_ns":1798482946947,"dev":"GPU-1","reasons":"0x48","util_pct":87.5}`,
		`{"v":1,"type":"procs","dev":"GPU-1","procs":[{"pid":4294967295,"mem_b":1,"kind":"mps"}],"reliable":false}`,
		`{"v":1,"type":"beat","busy_ms":10001}`,
		`{"v":1,"type":"sample","dev":"GPU-1","sm_mhz":NaN}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLine(b)
		if err != nil {
			return
		}
		if l.V != ProtocolVersion || len(b) > maxLine || len(l.Procs) > maxProcs || len(l.Caps) > maxCaps {
			t.Errorf("beyond its limits: %+v", l)
		}
		if _, err := l.Bits(); err != nil {
			t.Errorf("accepted reasons %q", l.Reasons)
		}
		for _, text := range []string{l.Name, l.Text, l.Sensor, l.NS} {
			if clean(text) != text {
				t.Errorf("text %q is not clean", text)
			}
		}
		if _, err := json.Marshal(Reading{Signals: l.Signals, Procs: l.Procs}); err != nil {
			t.Errorf("a reading of it cannot be stored: %v", err)
		}
	})
}
