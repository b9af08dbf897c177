package chaos

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/internal/state"
)

// program builds the command once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chaos-program-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "tailgate")
	text, err := exec.Command("go", "build", "-o", path, "../../cmd/tailgate").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(text)), os.RemoveAll(dir))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built {
		if path, err := program(); err == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
	}
	os.Exit(code)
}

// built says that program was asked for.
var built bool

// real is a chaos of real sessions, of the kinds that this machine has among those wanted.
func real(t *testing.T, wanted ...Kind) *Chaos {
	t.Helper()
	if testing.Short() {
		t.Skip("runs whole sessions; run without -short")
	}
	built = true
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	have, missing := Kinds(t.Context())
	if missing != "" {
		t.Log(missing)
	}
	kinds := slices.DeleteFunc(wanted, func(k Kind) bool { return !slices.Contains(have, k) })
	return &Chaos{Binary: path, Path: os.Getenv("PATH"), Scratch: t.TempDir(), Seed: 7, Kinds: kinds}
}

// Two full disks beside each other, and then one killed beside a full disk: each finds its own leftovers and no others.
func TestTwoSessionsAtOnce(t *testing.T) {
	c := real(t, FullDisk, FullDisk, Kill)
	var mutex sync.Mutex
	now, most := 0, 0
	count := func(by int) {
		mutex.Lock()
		defer mutex.Unlock()
		now += by
		most = max(most, now)
	}
	var kinds []Kind
	err := beside(t.Context(), len(c.Kinds), 2, func(ctx context.Context, n int) (Outcome, error) {
		count(1)
		defer count(-1)
		return c.Session(ctx, n)
	}, func(n int, o Outcome) {
		kinds = append(kinds, o.Kind)
		if len(o.Wrong) > 0 {
			t.Errorf("session %d, %s after %s:\n%s", n+1, o.Kind, o.At, strings.Join(o.Wrong, "\n"))
		}
		if _, err := os.Stat(o.Folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("session %d left its folder: %v", n+1, err)
		}
	})
	if err != nil || len(kinds) != len(c.Kinds) || most != min(2, len(c.Kinds)) {
		t.Errorf("%v ended, %d at once, %v", kinds, most, err)
	}
}

// Ctrl-C ends all sessions and their servers, the one with a disk of its own too.
func TestInterruptedSessionsLeaveNothing(t *testing.T) {
	c := real(t, Terminate, FullDisk)
	c.Seed = 30 // both would be struck after nine seconds or more
	ctx, interrupt := context.WithCancelCause(t.Context())
	defer interrupt(nil)
	reason := errors.New("interrupt signal received")
	ended := make(chan error, 1)
	go func() {
		ended <- c.Run(ctx, len(c.Kinds), len(c.Kinds), func(n int, o Outcome) { t.Errorf("session %d ended by itself: %+v", n+1, o) })
	}()
	var sessions []*session
	for n := range c.Kinds {
		s, _ := c.session(n)
		sessions = append(sessions, s)
	}
	for until := time.Now().Add(time.Minute); !all(sessions, serving); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no server in a minute")
		}
	}
	interrupt(reason)
	if err := <-ended; !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
	for n, s := range sessions {
		if left, err := s.living(); err != nil || len(left) > 0 {
			t.Errorf("session %d left %v, %v", n+1, left, err)
		}
		if left := s.carrying(); len(left) > 0 {
			t.Errorf("session %d left %v", n+1, left)
		}
	}
}

func all(sessions []*session, is func(*session) bool) bool {
	return !slices.ContainsFunc(sessions, func(s *session) bool { return !is(s) })
}

// serving reports whether a session has a server that is on record and lives.
func serving(s *session) bool {
	for _, path := range s.stateFiles() {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f, err := state.Parse(path, text)
		if err == nil && len(f.Rounds) > 0 && len(f.Rounds[0].Processes) > 0 {
			return true
		}
	}
	return false
}

// A folder that an earlier session was kept in is not mixed with a new one's.
func TestSessionRefusesAFolderThatIsThere(t *testing.T) {
	c := &Chaos{Binary: "/bin/false", Path: os.Getenv("PATH"), Scratch: t.TempDir(), Kinds: []Kind{Kill}}
	kept := filepath.Join(c.Scratch, "0000", "log")
	if err := errors.Join(os.Mkdir(filepath.Dir(kept), 0o700), os.WriteFile(kept, []byte("evidence"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Session(t.Context(), 0); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "choose another scratch") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "evidence" {
		t.Errorf("the kept log: %q, %v", text, err)
	}
}
