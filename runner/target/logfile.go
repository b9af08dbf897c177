package target

import (
	"fmt"
	"os"
	"time"
)

const (
	// logEvery is the pause between two looks at the log's size.
	logEvery = time.Second
	// logMost is the size in bytes at which a log is cut, logKept what is left of it.
	logMost, logKept = 256 << 20, 8 << 20
)

// logbook bounds a server's log: the server itself writes it, at its end, so that it can be cut beneath it.
type logbook struct {
	path       string
	most, kept int64
	cuts       int
}

// check cuts the log when it is too long, and reports whether it was.
func (l *logbook) check() (cut bool, err error) {
	info, err := os.Stat(l.path)
	if err != nil || info.Size() <= l.most {
		return false, nil //nolint:nilerr // a log that is gone is not too long
	}
	if err := os.Truncate(l.path, l.kept); err != nil {
		return false, err
	}
	l.cuts++
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return true, err
	}
	_, err = fmt.Fprintf(f, "\n[tailgate: the log was longer than %d MiB; what followed its first %d MiB was removed]\n", l.most>>20, l.kept>>20)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return true, err
}

// keepLog watches the log's size until the stop is over.
func (s *Server) keepLog(l *logbook) {
	tick := time.NewTicker(logEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-tick.C:
		}
		cut, err := l.check()
		switch {
		case err != nil:
			s.noteOnce("server_log_uncut", "the server's log is longer than %d MiB and could not be cut: %v", l.most>>20, err)
		case cut:
			s.noteOnce("server_log_cut", "the server's log grew beyond %d MiB: its first %d MiB and its end were kept", l.most>>20, l.kept>>20)
		}
	}
}
