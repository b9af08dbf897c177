package target

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLogIsCutBeneathItsWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	writer, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	l := &logbook{path: path, most: 100, kept: 10}
	write := func(s string) {
		t.Helper()
		if _, err := writer.WriteString(s); err != nil {
			t.Fatal(err)
		}
	}
	write("0123456789" + strings.Repeat("x", 90))
	if cut, err := l.check(); cut || err != nil {
		t.Errorf("a log of just the limit: %v, %v", cut, err)
	}
	write("y")
	if cut, err := l.check(); !cut || err != nil {
		t.Errorf("a log over the limit: %v, %v", cut, err)
	}
	write("goes on\n")
	text := read(t, path)
	if !strings.HasPrefix(text, "0123456789\n[tailgate: the log") || !strings.HasSuffix(text, "removed]\ngoes on\n") {
		t.Errorf("log = %q", text)
	}
	if cut, err := (&logbook{path: path + "-absent"}).check(); cut || err != nil {
		t.Errorf("no log: %v, %v", cut, err)
	}
}

func TestServerThatFloodsItsLog(t *testing.T) {
	spec := scripted(t, "")
	spec.Start = `echo first; truncate -s 257M "` + spec.LogPath + `"; while sleep 0.1; do echo tick; done`
	s := start(t, spec)
	deadline := time.Now().Add(30 * time.Second)
	for !slices.Equal(noteIDs(s), []string{"server_log_cut"}) {
		if time.Now().After(deadline) {
			t.Fatal("the log is not cut")
		}
		time.Sleep(20 * time.Millisecond)
	}
	size := func() int64 {
		info, err := os.Stat(spec.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for was := size(); size() == was; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server writes no more")
		}
	}
	if got := size(); got < logKept || got > logKept+1<<20 {
		t.Errorf("%d bytes, want the first %d and what came after", got, logKept)
	}
	if tail := s.LogTail(); len(tail) == 0 || tail[len(tail)-1] != "tick" {
		t.Errorf("tail %q", tail)
	}
}
