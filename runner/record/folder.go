package record

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Folder reads the folder of a run. It trusts nothing in it: sizes are bounded, no name leads outside. Its methods are
// safe for concurrent use. It never writes.
type Folder struct {
	root *os.Root
	run  *Run

	mu  sync.Mutex
	cut []string
}

// Open reads run.json of a run folder. Fields it does not know are ignored; a schema above [Schema] and an unknown state,
// arm or outcome class are errors. Close releases the folder.
func Open(dir string) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{root: root}
	f.run, err = f.readRun()
	if err != nil {
		_ = root.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, runFile), err)
	}
	return f, nil
}

// Close releases the folder. Iterators must not be used afterwards.
func (f *Folder) Close() error { return f.root.Close() }

// Run is the run as it was read; it belongs to the folder and must not be changed.
func (f *Folder) Run() *Run { return f.run }

func (f *Folder) readRun() (*Run, error) {
	file, err := f.open(runFile)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	return readRun(file)
}

func readRun(r io.Reader) (*Run, error) {
	data, err := readIndex(r)
	if err != nil {
		return nil, err
	}
	// The schema comes first: a newer file may give any other field another form.
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, err
	}
	if err := checkSchema(head.Schema); err != nil {
		return nil, err
	}
	run := &Run{}
	if err := json.Unmarshal(data, run); err != nil {
		return nil, err
	}
	if err := checkRun(run); err != nil {
		return nil, err
	}
	return run, nil
}

// open opens a regular file of the folder. Anything else that can stand under a name (a pipe, a device) could block the
// reader or never end.
func (f *Folder) open(name string) (*os.File, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return f.root.Open(name)
}

// dir finds the folder of a round. It need not be listed in run.json: the round in progress when a writer died is not.
func (f *Folder) dir(slot int) (string, error) {
	for _, arm := range []Arm{Base, Head} {
		dir := roundDir(slot, arm)
		if _, err := f.root.Stat(dir); err == nil {
			return dir, nil
		}
	}
	return "", &fs.PathError{Op: "open", Path: filepath.Join("rounds", fmt.Sprintf("%02d-*", slot)), Err: fs.ErrNotExist}
}

// Round reads the round.json of a slot. It fails with fs.ErrNotExist for a round that was never closed.
func (f *Folder) Round(slot int) (*Round, error) {
	dir, err := f.dir(slot)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, roundFile)
	file, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	rd := &Round{}
	data, err := readIndex(file)
	if err == nil {
		err = json.Unmarshal(data, rd)
	}
	if err == nil {
		err = checkRound(rd)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return rd, nil
}

// Samples yields the requests of a slot in order of ending, of all phases. An error is the last thing it yields. Half a
// line at the end is left out, see [Folder.Cut].
func (f *Folder) Samples(slot int) iter.Seq2[Sample, error] {
	return rows(f, slot, samplesFile, checkSample)
}

// Streams yields the timelines of a slot's answers, as Samples does. A round without a streamed answer has none.
func (f *Folder) Streams(slot int) iter.Seq2[Stream, error] {
	return rows(f, slot, eventsFile, checkStream)
}

// Windows yields the seconds of a slot's measured interval, as Samples does. A round that measured nothing has none.
func (f *Folder) Windows(slot int) iter.Seq2[Window, error] {
	return rows(f, slot, windowsFile, checkWindow)
}

// Journal yields the events of the run in the order in which they were written, as Samples does. A run without a journal has
// none. Text of an event may be foreign.
func (f *Folder) Journal() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		stopped := false
		err := f.each(journalFile, func(r io.Reader) error {
			return lines(r, checkEvent, func(e Event) bool {
				stopped = !yield(e, nil)
				return !stopped
			})
		})
		switch {
		case errors.Is(err, errCut):
			f.noteCut(journalFile)
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !stopped:
			yield(Event{}, fmt.Errorf("%s: %w", journalFile, err))
		}
	}
}

// Cut lists the files, relative to the folder, that were seen to end in half a line: their writer died.
func (f *Folder) Cut() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.cut)
}

func (f *Folder) noteCut(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.cut, name) {
		f.cut = append(f.cut, name)
	}
}

// rows iterates over a JSON Lines file of a round. Only samples.jsonl must exist: every round has it.
func rows[T any](f *Folder, slot int, base string, check func(*T) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		stopped := false
		err := func() error {
			dir, err := f.dir(slot)
			if err != nil {
				return err
			}
			name := filepath.Join(dir, base)
			err = f.each(name, func(r io.Reader) error {
				return lines(r, check, func(v T) bool {
					stopped = !yield(v, nil)
					return !stopped
				})
			})
			switch {
			case errors.Is(err, errCut):
				f.noteCut(name)
				return nil
			case errors.Is(err, fs.ErrNotExist) && base != samplesFile:
				return nil
			case err != nil:
				return fmt.Errorf("%s: %w", name, err)
			default:
				return nil
			}
		}()
		if err != nil && !stopped {
			var none T
			yield(none, err)
		}
	}
}

// each opens a file, unpacked if its name says so, and hands it to read.
func (f *Folder) each(name string, read func(io.Reader) error) error {
	file, err := f.open(name)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // read only
	if filepath.Ext(name) != ".gz" {
		return read(file)
	}
	unpacked, err := gzip.NewReader(file)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		// Nothing was flushed yet.
		return errCut
	}
	if err != nil {
		return err
	}
	return read(unpacked)
}
