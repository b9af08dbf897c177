package target

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// share maps named shared memory, as servers with several processes do, and makes a System V segment.
func share(name string) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(1 << 20); err != nil {
		return err
	}
	if _, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	_, err = unix.SysvShmGet(unix.IPC_PRIVATE, 1<<20, unix.IPC_CREAT|0o600)
	return err
}

func TestSharedMemoryThatIsLeftIsTold(t *testing.T) {
	dir, err := os.MkdirTemp(sharedDir, "tailgate-test-") //nolint:usetesting // shared memory lies in one folder of the machine
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ground, err := Survey(nil)
	if err != nil {
		t.Fatal(err)
	}
	spec := serving(t, "SHARE="+dir+"/psm_1")
	spec.Ground = ground
	s := start(t, spec)
	if err := s.Ready(t.Context(), nil); err != nil {
		t.Fatalf("%v\n%s", err, read(t, spec.LogPath))
	}
	pid := s.group.PID()
	if _, err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ids []int
	for _, segment := range (proc.Table{}).Segments() {
		if segment.Creator == pid {
			ids = append(ids, segment.ID)
			_, _ = unix.SysvShmCtl(segment.ID, unix.IPC_RMID, nil)
		}
	}
	notes := s.Notes()
	if len(notes) != 1 || notes[0].ID != "shared_memory_left" || !strings.Contains(notes[0].Text, dir+"/psm_1 (1.0 MiB)") || len(ids) != 1 ||
		!strings.Contains(notes[0].Text, segmentName(proc.Segment{ID: ids[0]})+" (1.0 MiB)") {
		t.Errorf("notes = %+v, segments %v", notes, ids)
	}
	if _, err := os.Stat(dir + "/psm_1"); err != nil {
		t.Errorf("it was removed: %v", err)
	}
	// What was there before the session is nobody's leftover.
	if ground, err = Survey(nil); err != nil || !(&Ground{names: map[string]bool{dir: true}}).shared(dir) || !ground.shared(dir) {
		t.Errorf("the ground does not know %s: %v", dir, err)
	}
}
