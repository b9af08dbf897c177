package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// longestLine is the most of a log that is held in memory as one line, bytes. A secret that lies across such a cut is missed.
const longestLine = 16 << 20

// MaskFile replaces secret values in a log that nobody writes any more. A log without one is left as it is, an absent one
// is no error. The masked text takes the log's place in one step, mode 0600.
func MaskFile(path string, m *Mask) error {
	if m == nil || m.none {
		return nil
	}
	found, err := rewrite(path, m, io.Discard)
	if err != nil || !found {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".masked-")
	if err != nil {
		return fmt.Errorf("masking %s: %w", path, err)
	}
	out := bufio.NewWriterSize(tmp, 1<<20)
	_, err = rewrite(path, m, out)
	err = errors.Join(err, out.Flush(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("masking %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}

// rewrite copies a log line by line, masked, and reports whether anything was.
func rewrite(path string, m *Mask, to io.Writer) (found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := wholeLine(in)
		masked := m.String(string(line))
		found = found || masked != string(line)
		if _, err := io.WriteString(to, masked); err != nil {
			return found, err
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
	}
}

// wholeLine reads up to and with the next line feed, or [longestLine] bytes.
func wholeLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) || len(line) >= longestLine {
			if errors.Is(err, bufio.ErrBufferFull) {
				err = nil
			}
			return line, err
		}
	}
}
