package telemetry

import (
	"os"
	"path/filepath"
	"sync"
)

// maxLog is how much of a sensor's stderr is kept, bytes.
const maxLog = 1 << 20

// boundedLog is a file that takes the first maxLog bytes and swallows the rest. Safe for concurrent use; a log without a
// file swallows all.
type boundedLog struct {
	mu   sync.Mutex
	file *os.File
	left int
}

// openLog opens <sensor>.log in dir. Without dir or sensor nothing is kept.
func openLog(dir, sensor string) (*boundedLog, error) {
	if dir == "" || sensor == "" {
		return &boundedLog{}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a run folder is made to be read
		return nil, err
	}
	path := filepath.Join(dir, filepath.Base(sensor)+".log")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // as above
	return &boundedLog{file: file, left: maxLog}, err
}

// Write never fails for want of room: it reports what it swallowed as written.
func (b *boundedLog) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil || b.left == 0 {
		return len(p), nil
	}
	n, err := b.file.Write(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil {
		return n, err
	}
	return len(p), nil
}

// Close closes the file; a second call does nothing.
func (b *boundedLog) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	b.file = nil
	return err
}
