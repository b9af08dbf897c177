package target

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// sysctl makes a /proc/sys of two files; an empty text leaves the file out.
func sysctl(t *testing.T, local, reserved string) string {
	t.Helper()
	sys := t.TempDir()
	dir := filepath.Join(sys, "net", "ipv4")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ip_local_port_range": local, "ip_local_reserved_ports": reserved} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sys
}

func TestForbiddenPorts(t *testing.T) {
	tests := []struct {
		name, local, reserved string
		want                  []span
		bad                   bool
	}{
		{name: "kernel's default", want: []span{{32768, 60999}}},
		{name: "as printed", local: "32768\t60999\n", reserved: "\n", want: []span{{32768, 60999}}},
		{name: "reserved", local: "1024 65000", reserved: "8080,9100-9200\n", want: []span{{1024, 65000}, {8080, 8080}, {9100, 9200}}},
		{name: "one number", local: "1024", bad: true},
		{name: "backwards", local: "2000 1000", bad: true},
		{name: "words", local: "1024 65000", reserved: "http", bad: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := forbidden(sysctl(t, tt.local, tt.reserved))
			if (err != nil) != tt.bad {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(span{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseSpan(f *testing.F) {
	for _, s := range []string{"", "1", "1-2", "2-1", "-", "1-", "-1", "70000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseSpan(text); err == nil && (s.low < 0 || s.low > s.high || s.high > highestPort) {
			t.Errorf("%q: %+v", text, s)
		}
	})
}

func TestChoosePort(t *testing.T) {
	// The candidates are 10000 and 10002; the first is taken.
	sys := sysctl(t, "10003 65535", "10001")
	l := listen(t, "127.0.0.1:10000")
	defer l.Close()
	next := 0
	inOrder := func(n int) int { next++; return (next - 1) % n }
	if port, err := choosePort(sys, inOrder); err != nil || port != 10002 {
		t.Errorf("port %d, %v; want 10002", port, err)
	}
	_, err := choosePort(sysctl(t, "1024 65535", ""), inOrder)
	wantError(t, err, record.PortTaken)
	for range 20 {
		port, err := choosePort("/proc/sys", pickRandom)
		if err != nil || len(strconv.Itoa(port)) != 5 {
			t.Fatalf("port %d, %v", port, err)
		}
	}
}

func TestFixedPortThatIsTaken(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		l := listen(t, addr)
		_, port, _ := strings.Cut(strings.TrimPrefix(l.Addr().String(), "[::]"), ":")
		n, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		spec := scripted(t, "sleep 300")
		spec.Port = n
		_, err = Start(t.Context(), spec)
		if e := wantError(t, err, record.PortTaken); !strings.Contains(e.Text, "pid "+strconv.Itoa(os.Getpid())) {
			t.Errorf("%s: the holder is not named: %s", addr, e.Text)
		}
	}
}
