package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
)

const (
	runFile     = "run.json"
	journalFile = "journal.jsonl"
	reserveFile = ".reserve"
	// reserveSize is what a full disk must still hold in the end: the last run.json.
	reserveSize = 4 << 20
)

// Writer owns the folder of one run. Journal and Save are safe for concurrent use. A folder has one Writer in its life: a
// run is never opened again for writing.
type Writer struct {
	dir  string
	open opener

	mu      sync.Mutex
	journal file
	// whole is the length of the journal up to its last complete line.
	whole int64
	err   error
}

// Create makes the folder of a run and writes its first run.json. dir may be an empty folder; anything in it is refused
// (errors.Is fs.ErrExist), since it may be a run that someone measured. Create sets run.Schema.
func Create(dir string, run *Run) (*Writer, error) { return create(dir, run, openFile) }

func create(dir string, run *Run, open opener) (*Writer, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	for _, sub := range []string{"build", "conditioning", "rounds", "telemetry", "workload"} {
		if err := os.Mkdir(filepath.Join(dir, sub), dirPerm); err != nil { //nolint:gosec // the run folder is the user's choice
			return nil, diskError(err)
		}
	}
	w := &Writer{dir: dir, open: open}
	run.Schema = Schema
	const fresh = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	// A run at a terminal lies inside the repository it measures; it must not show there as a change.
	if err := writeSynced(open, w.path(".gitignore"), fresh, []byte("*\n")); err != nil {
		return nil, diskError(err)
	}
	if err := writeSynced(open, w.path(reserveFile), fresh, incompressible(reserveSize)); err != nil {
		return nil, diskError(err)
	}
	journal, err := open(w.path(journalFile), fresh|os.O_APPEND)
	if err != nil {
		return nil, diskError(err)
	}
	w.journal = journal
	if err := w.Save(run); err != nil {
		return nil, errors.Join(err, journal.Close())
	}
	return w, nil
}

// incompressible fills the reserve: of zeros a compressing file system would keep nothing in hand.
func incompressible(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return data
}

// emptyDir makes sure that dir exists and that nothing is in it.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, dirPerm); err != nil { //nolint:gosec // the run folder is the user's choice
		return diskError(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("the run folder is not empty, and a run is never written over: %w", &fs.PathError{Op: "create", Path: dir, Err: fs.ErrExist})
	}
	return nil
}

// Dir is the run folder.
func (w *Writer) Dir() string { return w.dir }

func (w *Writer) path(name string) string { return filepath.Join(w.dir, name) }

// Journal appends an event and waits until the disk has it. After a failed write the journal is cut back to its last whole
// line, so that later events stay readable; Close returns the first error again.
func (w *Writer) Journal(e Event) error {
	e.Text = clip(e.Text)
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	line = append(line, '\n')
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.journal == nil {
		return fmt.Errorf("journal: %w", fs.ErrClosed)
	}
	_, err = w.journal.Write(line)
	if err == nil {
		err = w.journal.Sync()
	}
	if err != nil {
		err = diskError(errors.Join(err, w.journal.Truncate(w.whole)))
		w.keep(err)
		return err
	}
	w.whole += int64(len(line))
	return nil
}

func (w *Writer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Save replaces run.json. On a full disk it gives up the reserve and tries once more; the error is then ErrDiskFull only
// if that failed too. Texts longer than a reader takes are shortened.
func (w *Writer) Save(run *Run) error {
	data, err := encode(run)
	if err != nil {
		return fmt.Errorf("%s: %w", runFile, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err = replace(w.open, w.path(runFile), data)
	if errors.Is(err, ErrDiskFull) && os.Remove(w.path(reserveFile)) == nil {
		err = replace(w.open, w.path(runFile), data)
	}
	return err
}

// encode is the JSON of an index file: indented for people, texts within the reader's bounds.
func encode(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return nil, err
	}
	return append(clipStrings(data), '\n'), nil
}

// Round makes the folder of a round. A slot is measured once: a second call for the same slot and arm fails.
func (w *Writer) Round(slot int, arm Arm) (*RoundWriter, error) {
	return newRoundWriter(w.open, w.path(roundDir(slot, arm)))
}

// roundDir is the place of a round in the run folder.
func roundDir(slot int, arm Arm) string {
	return filepath.Join("rounds", fmt.Sprintf("%02d-%s", slot, arm))
}

// Conditioning makes the folder of an arm's conditioning slot, which is kept like a round and never judged.
func (w *Writer) Conditioning(arm Arm) (*RoundWriter, error) {
	return newRoundWriter(w.open, w.path(filepath.Join("conditioning", string(arm))))
}

// Close ends the run: it gives the reserve back to the disk and closes the journal. It returns the first error of the
// journal. A second call does nothing.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.journal == nil {
		return nil
	}
	err := w.journal.Close()
	w.journal = nil
	return errors.Join(w.err, err, dropTemp(w.path(reserveFile)))
}
