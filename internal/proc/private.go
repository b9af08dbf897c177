package proc

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
)

// PrivateDir makes a folder, mode 0700, for one child's TMPDIR, in parent or, when that is empty, in the system's
// temporary folder. Its path ends in random hex and is equally long each time: the size of a server's environment can
// move its speed. The caller removes it.
func PrivateDir(parent string) (string, error) {
	var name [8]byte
	if _, err := rand.Read(name[:]); err != nil {
		return "", err
	}
	dir := filepath.Join(cmp.Or(parent, os.TempDir()), "tailgate-"+hex.EncodeToString(name[:]))
	return dir, os.Mkdir(dir, 0o700)
}
