package record

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// crashDir tells the child process of TestKillLosesOnlyTheUnflushed where to write.
const crashDir = "RECORD_TEST_CRASH_DIR"

const flushed = 500

// TestCrashingWriter is the child: it writes and flushes, says so, and goes on writing until it is killed.
func TestCrashingWriter(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("runs only as the child of TestKillLosesOnlyTheUnflushed")
	}
	w, err := Create(dir, newRun())
	must(t, err)
	rw, err := w.Round(0, Head)
	must(t, err)
	samples, streams := fabric{requests: flushed, rate: 100, m0: 1, ttft: 100, gap: 10, tokens: 10}.make()
	for i := 0; ; i++ {
		must(t, rw.Sample(samples[i%flushed], streams[i%flushed]))
		must(t, rw.Telemetry([]byte("{}")))
		if i == flushed-1 {
			must(t, rw.Flush())
			must(t, w.Journal(Event{Name: "flushed"}))
			fmt.Println("flushed")
		}
	}
}

func TestKillLosesOnlyTheUnflushed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrashingWriter$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "flushed\n" {
		t.Errorf("the child said %q, %v", line, err)
	}
	must(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Fatal("the child ended by itself")
	}

	f := open(t, dir)
	samples, err := collect(f.Samples(0))
	must(t, err)
	streams, err := collect(f.Streams(0))
	must(t, err)
	if len(samples) < flushed || len(streams) < flushed {
		t.Errorf("%d samples and %d streams are left, want at least %d", len(samples), len(streams), flushed)
	}
	if cut := f.Cut(); len(cut) == 0 || cut[len(cut)-1] != filepath.Join("rounds", "00-head", eventsFile) {
		t.Errorf("cut files %v, want the events: their writer never closed them", cut)
	}
	// What is left can still be summed up.
	sum := Summarise(samples[:flushed], streams[:flushed], Interval{M0: 1, M1: second(60)})
	if v, ok := sum.Metrics["ttft_p95"].Finite(); !ok || v <= 0 {
		t.Errorf("ttft_p95 %v", sum.Metrics["ttft_p95"])
	}
}
