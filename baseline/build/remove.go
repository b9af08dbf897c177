package build

import (
	"errors"
	"io/fs"
	"os"
)

// RemoveFolder removes a folder with all that is below it, read-only files too, and follows no link. An absent one is no
// error. What may not be removed is a [LeftError].
func RemoveFolder(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if left := remove(dir); len(left) > 0 {
		return &LeftError{left}
	}
	return nil
}
