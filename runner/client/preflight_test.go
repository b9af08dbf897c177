package client

import (
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestStreamsFitTheDescriptors(t *testing.T) {
	tests := []struct {
		limit uint64
		peak  int
		fits  bool
	}{
		{256, 0, true},
		{256, 1, false},
		{256, 300, false}, // K-01a
		{100, 1, false},
		{1024, 384, true},
		{1024, 385, false},
		{20256, 10_000, true},
		{20255, 10_000, false},
		{math.MaxUint64, 1 << 30, true},
	}
	for _, tt := range tests {
		err := streamsFit(tt.limit, tt.peak)
		if (err == nil) != tt.fits {
			t.Errorf("limit %d, peak %d: %v", tt.limit, tt.peak, err)
		}
	}
	err := streamsFit(256, 300)
	for _, want := range []string{"more streams than descriptors", "300", "856", "256", "ulimit -Hn 856"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestPortsFitTheRate(t *testing.T) {
	tests := []struct {
		ports int
		rate  float64
		fits  bool
	}{
		{28232, 0, true},
		{28232, 470, true},
		{28232, 471, false},
		{200, 1500, false}, // K-01b
		{200, 200.0 / 60, true},
		{200, 3.34, false},
		{0, 0.001, false},
		{0, 0, true},
		{28232, math.Inf(1), false},
	}
	for _, tt := range tests {
		err := portsFit(tt.ports, tt.rate)
		if (err == nil) != tt.fits {
			t.Errorf("%d ports, %g/s: %v", tt.ports, tt.rate, err)
		}
	}
	err := portsFit(200, 1500)
	for _, want := range []string{"more connections than local ports", "1500 new", "90000", "200", "3.333/s", "ip_local_port_range"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestLocalPorts(t *testing.T) {
	tests := []struct {
		span, reserved string
		want           int
		bad            bool
	}{
		{span: "32768\t60999\n", want: 28232},
		{span: "40000 40199", reserved: "\n", want: 200},
		{span: "40000 40199", reserved: "8080,40000-40009,40199\n", want: 189},
		{span: "40000 40199", reserved: "39990-41000", want: 0},
		{span: "40000 40199", reserved: "x,-,5-", want: 200},
		{span: "1 1", want: 1},
		{span: "2 1", bad: true},
		{span: "1", bad: true},
		{span: "a b", bad: true},
		{span: "1 70000", bad: true},
		{span: "", bad: true},
	}
	for _, tt := range tests {
		got, err := localPorts(tt.span, tt.reserved)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%q without %q: %d, %v", tt.span, tt.reserved, got, err)
		}
	}
}

// The soft limit is raised before anything is compared with it: K-01a, the other half.
func TestDescriptorsAreRaised(t *testing.T) {
	if ran := inChild(t, "TestDescriptorsAreRaised", nil); ran {
		return
	}
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Max < 1024 {
		t.Skipf("the hard limit is %d", l.Max)
	}
	lowered := l
	lowered.Cur = 256
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	ceiling, err := Descriptors()
	if err != nil || ceiling != connections(l.Max) {
		t.Errorf("ceiling %d, %v; the hard limit is %d", ceiling, err, l.Max)
	}
	if err := CheckStreams(300); err != nil {
		t.Error(err)
	}
	// Now there is nothing to raise.
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: 256}); err != nil {
		t.Fatal(err)
	}
	if err := CheckStreams(300); err == nil {
		t.Error("300 streams in 256 descriptors were allowed")
	}
	if ceiling, err := Descriptors(); ceiling != 0 || err != nil {
		t.Errorf("ceiling %d, %v", ceiling, err)
	}
}

func TestPortsOfThisMachine(t *testing.T) {
	if err := CheckPorts(0); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(portFile); err != nil {
		t.Skip("no range to read")
	}
	if err := CheckPorts(1e6); err == nil {
		t.Error("a million new connections a second were allowed")
	}
}
