package proc

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestSharedMemoryOfAProcess(t *testing.T) {
	root := t.TempDir()
	for path, text := range map[string]string{
		"42/maps": "7f00-7f01 rw-s 00000000 00:1b 7 /dev/shm/psm_1\n7f01-7f02 rw-s 00001000 00:1b 7 /dev/shm/psm_1\n" +
			"7f02-7f03 rw-s 00000000 00:1b 8 /dev/shm/sem.mp 2\n7f03-7f04 rw-s 00000000 00:1b 9 /dev/shm/old (deleted)\n" +
			"7f04-7f05 r-xp 00000000 08:01 9 /usr/lib/x.so\n7f05-7f06 rw-p 00000000 00:00 0 \n",
		"sysvipc/shm": "       key      shmid perms                  size  cpid  lpid nattch\n" +
			"         0          3  1600                  4096    42    42      1\n         0          x  1600  4096 42 42 1\n  0 5\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table := Table{Root: root}
	if got := table.Mapped(42); !slices.Equal(got, []string{"/dev/shm/psm_1", "/dev/shm/sem.mp 2"}) {
		t.Errorf("mapped = %q", got)
	}
	if got := table.Mapped(43); got != nil {
		t.Errorf("mapped by nobody = %q", got)
	}
	if got := table.Segments(); !slices.Equal(got, []Segment{{ID: 3, Bytes: 4096, Creator: 42}}) {
		t.Errorf("segments = %+v", got)
	}
	if got := (Table{Root: t.TempDir()}).Segments(); got != nil {
		t.Errorf("segments of a kernel without = %+v", got)
	}
}
