package record

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	samplesFile   = "samples.jsonl"
	eventsFile    = "events.jsonl.gz"
	windowsFile   = "windows.jsonl"
	clientFile    = "client.json"
	telemetryFile = "telemetry.jsonl"
	roundFile     = "round.json"
)

// RoundWriter owns the files of one round. Sample, Flush and Close belong to one goroutine, the collector's; Telemetry may
// be called from another. The first write error sticks: every later call returns it, and the round is partial.
type RoundWriter struct {
	dir  string
	open opener

	samples *stream
	events  *stream
	zip     *gzip.Writer
	encoder streamEncoder

	mu        sync.Mutex
	telemetry *stream
	err       error
	closed    bool
}

func newRoundWriter(open opener, dir string) (*RoundWriter, error) {
	if err := os.Mkdir(dir, dirPerm); err != nil { //nolint:gosec // the run folder is the user's choice
		return nil, diskError(err)
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, diskError(err)
	}
	r := &RoundWriter{dir: dir, open: open}
	var err error
	if r.samples, err = r.stream(samplesFile); err != nil {
		return nil, err
	}
	return r, nil
}

// Dir is the round's folder; the server's log goes there too.
func (r *RoundWriter) Dir() string { return r.dir }

// stream is a file written through a buffer.
type stream struct {
	file file
	*bufio.Writer
}

func (r *RoundWriter) stream(name string) (*stream, error) {
	f, err := r.open(filepath.Join(r.dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY)
	if err != nil {
		return nil, diskError(err)
	}
	return &stream{f, bufio.NewWriterSize(f, 64<<10)}, nil
}

// end flushes, syncs and closes the file, whatever fails on the way.
func (s *stream) end() error {
	if s == nil {
		return nil
	}
	err := s.Flush()
	if err == nil {
		err = s.file.Sync()
	}
	return errors.Join(err, s.file.Close())
}

// stick keeps the first error and returns it.
func (r *RoundWriter) stick(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && err != nil {
		r.err = fmt.Errorf("round %s: %w", filepath.Base(r.dir), diskError(err))
	}
	return r.err
}

// Sample appends one ended request and the timeline of its answer, if it has one. Both reach the disk with the next Flush.
func (r *RoundWriter) Sample(s Sample, st Stream) error {
	if err := r.stick(nil); err != nil {
		return err
	}
	clipSample(&s)
	err := writeLine(r.samples, s)
	if err == nil && len(st.T) > 0 {
		err = r.timeline(st)
	}
	return r.stick(err)
}

func (r *RoundWriter) timeline(st Stream) error {
	if r.events == nil {
		events, err := r.stream(eventsFile)
		if err != nil {
			return err
		}
		r.events, r.zip = events, gzip.NewWriter(events)
	}
	_, err := r.zip.Write(r.encoder.encode(st))
	return err
}

func writeLine(w interface{ Write([]byte) (int, error) }, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// clipSample shortens what a server or a workload may have made long.
func clipSample(s *Sample) {
	for _, text := range []*string{&s.ID, &s.Conv, &s.Detail, &s.RequestID, &s.Finish} {
		*text = clip(*text)
	}
	if n := len(s.Assertions); n > 0 {
		s.Assertions = append([]AssertionResult(nil), s.Assertions...)
	}
	for i := range s.Assertions {
		s.Assertions[i].Name, s.Assertions[i].Detail = clip(s.Assertions[i].Name), clip(s.Assertions[i].Detail)
	}
}

// Flush hands everything so far to the system; called once a second it bounds what a crash costs. It also reports errors
// of telemetry.
func (r *RoundWriter) Flush() error {
	if err := r.stick(nil); err != nil {
		return err
	}
	err := r.samples.Flush()
	if err == nil && r.zip != nil {
		if err = r.zip.Flush(); err == nil {
			err = r.events.Flush()
		}
	}
	if err == nil {
		err = r.flushTelemetry()
	}
	return r.stick(err)
}

func (r *RoundWriter) flushTelemetry() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.telemetry == nil {
		return nil
	}
	return r.telemetry.Flush()
}

// Telemetry appends one line of telemetry.jsonl, with or without its line end. It is safe for concurrent use; after Close
// it fails with fs.ErrClosed.
func (r *RoundWriter) Telemetry(line []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("telemetry: %w", fs.ErrClosed)
	}
	if r.err != nil {
		return r.err
	}
	var err error
	if r.telemetry == nil {
		r.telemetry, err = r.stream(telemetryFile)
	}
	if err == nil {
		_, err = r.telemetry.Write(append(bytes.TrimRight(line, "\n"), '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("round %s: %w", filepath.Base(r.dir), diskError(err))
	}
	return r.err
}

// Close ends the round: windows.jsonl, client.json (none for a nil client), everything synced, then round.json in one
// piece. After a write error the round is written as partial, if it can be, and the error is returned. A second call
// does nothing but return the error again.
func (r *RoundWriter) Close(rd Round, windows []Window, client any) error {
	if !r.shut() {
		return r.stick(nil)
	}
	err := r.samples.end()
	if r.zip != nil {
		err = errors.Join(err, r.zip.Close(), r.events.end())
	}
	err = errors.Join(err, r.telemetry.end())
	if err = r.stick(err); err == nil {
		err = r.stick(r.extras(windows, client))
	}
	if err != nil {
		rd.State = RoundPartial
	}
	data, err := encode(rd)
	if err == nil {
		err = replace(r.open, filepath.Join(r.dir, roundFile), data)
	}
	return r.stick(err)
}

// shut ends telemetry; it reports false when the round was closed before.
func (r *RoundWriter) shut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.closed
	r.closed = true
	return first
}

// extras writes what is made once, at the end.
func (r *RoundWriter) extras(windows []Window, client any) error {
	if len(windows) > 0 {
		s, err := r.stream(windowsFile)
		if err != nil {
			return err
		}
		for _, w := range windows {
			err = errors.Join(err, writeLine(s, w))
		}
		if err = errors.Join(err, s.end()); err != nil {
			return err
		}
	}
	if client == nil {
		return nil
	}
	data, err := encode(client)
	if err != nil {
		return err
	}
	return replace(r.open, filepath.Join(r.dir, clientFile), data)
}
