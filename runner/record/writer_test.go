package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func newRun() *Run {
	return &Run{ID: "t-1", Kind: KindLoad, Status: StatusPlanned, Declared: Declared{Order: []Arm{Head}}}
}

func TestCreateMakesAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "t-1")
	w, err := Create(dir, newRun())
	must(t, err)
	if w.Dir() != dir {
		t.Errorf("Dir is %s, want %s", w.Dir(), dir)
	}
	if text, err := os.ReadFile(filepath.Join(dir, ".gitignore")); err != nil || string(text) != "*\n" {
		t.Errorf(".gitignore holds %q, %v", text, err)
	}
	if info, err := os.Stat(filepath.Join(dir, reserveFile)); err != nil || info.Size() != reserveSize {
		t.Errorf("reserve: %v, %v", info, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	text, err := os.ReadFile(filepath.Join(dir, reserveFile))
	must(t, err)
	_, err = z.Write(text)
	must(t, err)
	must(t, z.Close())
	if packed.Len() < reserveSize {
		t.Errorf("the reserve packs to %d bytes: a compressing file system would hold back nothing", packed.Len())
	}
	if run := open(t, dir).Run(); run.Schema != Schema || run.Status != StatusPlanned {
		t.Errorf("run.json has schema %d, status %s", run.Schema, run.Status)
	}
	must(t, w.Close())
	must(t, w.Close())
	if _, err := os.Stat(filepath.Join(dir, reserveFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the reserve outlives the run: %v", err)
	}
	if err := w.Journal(Event{Name: "late"}); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed journal took an event: %v", err)
	}
}

func TestCreateRefusesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, newRun())
	must(t, err)
	must(t, w.Close())
	before := files(t, dir)
	if _, err := Create(dir, newRun()); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("error %v, want fs.ErrExist", err)
	}
	for name, text := range files(t, dir) {
		if !bytes.Equal(before[name], text) {
			t.Errorf("%s was touched", name)
		}
	}
}

func TestCreateRefusesAnyFile(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, filePerm))
	if _, err := Create(dir, newRun()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want fs.ErrExist", err)
	}
}

func TestASlotIsMeasuredOnce(t *testing.T) {
	w, err := Create(t.TempDir(), newRun())
	must(t, err)
	rw, err := w.Round(3, Head)
	must(t, err)
	if got := filepath.Base(rw.Dir()); got != "03-head" {
		t.Errorf("folder %s, want 03-head", got)
	}
	if _, err := w.Round(3, Head); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want fs.ErrExist", err)
	}
	c, err := w.Conditioning(Base)
	must(t, err)
	must(t, c.Close(Round{Slot: -1, Arm: Base, State: RoundPartial}, nil, nil))
	must(t, w.Close())
}

func TestRoundFiles(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(dir, newRun())
	must(t, err)
	rw, err := w.Round(0, Head)
	must(t, err)
	silent := due(0, 0)
	silent.Class = EmptyOutput
	must(t, rw.Sample(silent, Stream{Seq: 0}))
	if _, err := os.Stat(filepath.Join(rw.Dir(), eventsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a round without events has an event file: %v", err)
	}
	talking := due(1, 0)
	talking.Class = OK
	must(t, rw.Sample(talking, Stream{Seq: 1, T: []int64{0, 10_000_400, 10_000_400}}))
	var both sync.WaitGroup
	both.Go(func() { must(t, rw.Telemetry([]byte("{\"a\":1}\n"))) })
	both.Go(func() { must(t, rw.Telemetry([]byte(`{"a":1}`))) })
	both.Wait()
	must(t, rw.Flush())
	must(t, rw.Close(Round{Arm: Head, State: RoundComplete}, nil, map[string]int{"x": 1}))
	must(t, rw.Close(Round{Arm: Base}, nil, nil))
	must(t, w.Close())
	if err := rw.Telemetry([]byte("{}")); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a closed round took telemetry: %v", err)
	}

	got := files(t, rw.Dir())
	if text := string(got[telemetryFile]); text != "{\"a\":1}\n{\"a\":1}\n" {
		t.Errorf("telemetry %q", text)
	}
	if !strings.Contains(string(got[clientFile]), `"x": 1`) {
		t.Errorf("client.json %q", got[clientFile])
	}
	f := open(t, dir)
	rd, err := f.Round(0)
	must(t, err)
	if rd.Arm != Head || rd.State != RoundComplete {
		t.Errorf("round %+v; the second Close must change nothing", rd)
	}
	samples, err := collect(f.Samples(0))
	must(t, err)
	streams, err := collect(f.Streams(0))
	must(t, err)
	if len(samples) != 2 || len(streams) != 1 {
		t.Fatalf("%d samples, %d streams, want 2 and 1", len(samples), len(streams))
	}
	// Offsets 10,000,400 and 20,000,800 lie at 10,000 and 20,001 µs: errors do not add up.
	if st := streams[0]; st.T[1] != 10_000_000 || st.T[2] != 10_001_000 {
		t.Errorf("gaps %v", st.T)
	}
}

// What we write we must be able to read, whatever a server or a commit message holds.
func TestLongTextsAreShortened(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("\"schön\n", 2000)
	run := newRun()
	run.Command = long
	run.Incidents = []Incident{{ID: StartFailed, Text: "short", Tail: []string{strings.Repeat("x", maxText), long}}}
	w, err := Create(dir, run)
	must(t, err)
	must(t, w.Journal(Event{Name: "e", Text: long}))
	rw, err := w.Round(0, Head)
	must(t, err)
	s := due(0, 0)
	s.Class, s.Detail, s.Assertions = Assertion, long, []AssertionResult{{Name: "json", Detail: long}}
	must(t, rw.Sample(s, Stream{}))
	if s.Assertions[0].Detail != long {
		t.Error("the caller's sample was changed")
	}
	must(t, rw.Close(Round{Arm: Head, State: RoundPartial}, nil, nil))
	must(t, w.Close())

	f := open(t, dir)
	got := f.Run()
	if len(got.Command) > maxText || !strings.HasPrefix(got.Command, "\"schön\n") || !strings.HasSuffix(got.Command, ellipsis) {
		t.Errorf("command has %d bytes and ends in %q", len(got.Command), got.Command[len(got.Command)-8:])
	}
	if tail := got.Incidents[0].Tail; tail[0] != strings.Repeat("x", maxText) || len(tail[1]) > maxText {
		t.Errorf("tails of %d and %d bytes", len(tail[0]), len(tail[1]))
	}
	samples, err := collect(f.Samples(0))
	must(t, err)
	if len(samples) != 1 || len(samples[0].Detail) > maxText {
		t.Errorf("samples %d", len(samples))
	}
}

// fullDisk gives room for some bytes and then fails as the kernel does.
type fullDisk struct {
	left int
	err  error
}

func (d *fullDisk) open(name string, flag int) (file, error) {
	f, err := openFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &fullFile{f, d, name}, nil
}

type fullFile struct {
	file
	disk *fullDisk
	name string
}

func (f *fullFile) Write(p []byte) (int, error) {
	n := min(len(p), f.disk.left)
	f.disk.left -= n
	k, err := f.file.Write(p[:n])
	if err == nil && n < len(p) {
		err = &fs.PathError{Op: "write", Path: f.name, Err: f.disk.err}
	}
	return k, err
}

func TestFullDiskIsNamedAndSticks(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO} {
		t.Run(cause.Error(), func(t *testing.T) {
			dir := t.TempDir()
			disk := &fullDisk{left: 1 << 30, err: cause}
			run := newRun()
			w, err := create(dir, run, disk.open)
			must(t, err)
			rw, err := w.Round(0, Head)
			must(t, err)
			s := due(0, 0)
			s.Class = OK
			must(t, rw.Sample(s, Stream{T: []int64{0, 5}}))
			must(t, rw.Flush())
			disk.left = 100
			must(t, rw.Sample(s, Stream{T: []int64{0, 5}}))
			first := rw.Flush()
			if errors.Is(first, ErrDiskFull) != (cause != syscall.EIO) || !errors.Is(first, cause) {
				t.Fatalf("error %v, disk full %v", first, errors.Is(first, ErrDiskFull))
			}
			disk.left = 1 << 30
			for name, again := range map[string]error{
				"Sample": rw.Sample(s, Stream{}), "Flush": rw.Flush(), "Telemetry": rw.Telemetry([]byte("{}")), "Close": rw.Close(Round{Arm: Head, State: RoundComplete}, nil, nil),
			} {
				if !errors.Is(again, cause) {
					t.Errorf("%s forgot the error: %v", name, again)
				}
			}
			must(t, w.Save(run))
			must(t, w.Close())
			f := open(t, dir)
			rd, err := f.Round(0)
			must(t, err)
			if rd.State != RoundPartial {
				t.Errorf("the round is %s, want partial", rd.State)
			}
			samples, err := collect(f.Samples(0))
			must(t, err)
			if len(samples) != 1 || len(f.Cut()) == 0 {
				t.Errorf("%d samples, cut files %v; want the flushed one, and a cut file", len(samples), f.Cut())
			}
		})
	}
}

// The last run.json fits on a full disk because the reserve is given up for it.
func TestReserveSavesTheIndex(t *testing.T) {
	dir := t.TempDir()
	disk := &fullDisk{left: 1 << 30, err: syscall.ENOSPC}
	run := newRun()
	w, err := create(dir, run, disk.open)
	must(t, err)
	must(t, w.Journal(Event{Name: "first"}))
	disk.left = 10
	if err := w.Journal(Event{Name: "second"}); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("error %v, want ErrDiskFull", err)
	}
	disk.left = 0
	freed := false
	w.open = func(name string, flag int) (file, error) {
		if _, err := os.Stat(filepath.Join(dir, reserveFile)); errors.Is(err, fs.ErrNotExist) && !freed {
			freed = true
			disk.left += reserveSize
		}
		return disk.open(name, flag)
	}
	run.Status = StatusBroken
	must(t, w.Save(run))
	if !freed {
		t.Fatal("run.json was written without giving up the reserve: the disk was not full")
	}
	must(t, w.Journal(Event{Name: "third"}))
	if err := w.Close(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Close forgot the journal's error: %v", err)
	}
	if got := open(t, dir).Run().Status; got != StatusBroken {
		t.Errorf("status %s, want broken", got)
	}
	text, err := os.ReadFile(filepath.Join(dir, journalFile))
	must(t, err)
	if want := "{\"t_ns\":0,\"event\":\"first\"}\n{\"t_ns\":0,\"event\":\"third\"}\n"; string(text) != want {
		t.Errorf("journal %q, want %q", text, want)
	}
}

// A failed Save leaves the old index whole.
func TestSaveIsAllOrNothing(t *testing.T) {
	dir := t.TempDir()
	disk := &fullDisk{left: 1 << 30, err: syscall.ENOSPC}
	run := newRun()
	w, err := create(dir, run, disk.open)
	must(t, err)
	run.Status = StatusRunning
	disk.left = 20
	if err := w.Save(run); !errors.Is(err, ErrDiskFull) {
		t.Fatalf("error %v, want ErrDiskFull", err)
	}
	if got := open(t, dir).Run().Status; got != StatusPlanned {
		t.Errorf("status %s, want the old one", got)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".*.tmp")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
	must(t, w.Close())
}

// The kernel's own full device: the error we look for is the one it gives.
func TestKernelSaysDiskFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	w, err := Create(t.TempDir(), newRun())
	must(t, err)
	w.open = func(name string, flag int) (file, error) {
		if filepath.Base(name) == samplesFile {
			name, flag = "/dev/full", os.O_WRONLY
		}
		return openFile(name, flag)
	}
	rw, err := w.Round(0, Head)
	must(t, err)
	must(t, rw.Sample(due(0, 0), Stream{}))
	if err := rw.Flush(); !errors.Is(err, ErrDiskFull) {
		t.Errorf("error %v, want ErrDiskFull", err)
	}
	if err := rw.Close(Round{Arm: Head}, nil, nil); !errors.Is(err, ErrDiskFull) {
		t.Errorf("Close gave %v, want ErrDiskFull", err)
	}
	must(t, w.Close())
}
