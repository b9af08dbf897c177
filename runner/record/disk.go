package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrDiskFull is what errors.Is finds in every write error whose cause is a full disk or an exhausted quota.
var ErrDiskFull = errors.New("disk full")

// diskError marks err as ErrDiskFull when the system says so. The error of the system stays in the chain.
func diskError(err error) error {
	if errors.Is(err, ErrDiskFull) || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrDiskFull, err)
}

// file is what the writers need of an open file.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// opener opens a file for writing. The writers get it as a value, so that a test can put a full disk in its place.
type opener func(name string, flag int) (file, error)

const (
	filePerm fs.FileMode = 0o644
	dirPerm  fs.FileMode = 0o755
)

func openFile(name string, flag int) (file, error) {
	f, err := os.OpenFile(name, flag, filePerm) //nolint:gosec // a name of our own making inside the run folder
	if err != nil {
		return nil, err
	}
	return f, nil
}

// replace writes a file so that a reader finds the old content or the new, whole, even after a power cut: a temporary name
// in the same folder, sync, rename, sync of the folder.
func replace(open opener, name string, data []byte) error {
	temp := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".tmp")
	err := writeSynced(open, temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, data)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		return diskError(errors.Join(err, dropTemp(temp)))
	}
	return diskError(syncDir(filepath.Dir(name)))
}

func dropTemp(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func writeSynced(open opener, name string, flag int, data []byte) error {
	f, err := open(name, flag)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // the run folder is the user's choice
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
