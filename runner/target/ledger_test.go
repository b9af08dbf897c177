package target

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// notebook is a ledger that remembers what it was told.
type notebook struct {
	refuse error

	mu      sync.Mutex
	events  []string
	begun   Beginning
	members []Member
	kill    func()
}

func (n *notebook) note(event, tmp string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if tmp != n.begun.TMPDIR {
		event += " of another"
	}
	if len(n.events) == 0 || n.events[len(n.events)-1] != event {
		n.events = append(n.events, event)
	}
}

func (n *notebook) Starting(b Beginning) error {
	n.begun = b
	n.note("starting", b.TMPDIR)
	return n.refuse
}

func (n *notebook) Started(tmp string, kill func()) {
	n.kill = kill
	n.note("started", tmp)
}

func (n *notebook) Seen(tmp string, members []Member) {
	n.note("seen", tmp)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members = members
}

func (n *notebook) Gone(tmp string) { n.note("gone", tmp) }

func (n *notebook) told() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.events)
}

// A ledger hears of a server before it exists, at once after, while its children come, and when it is proven gone.
func TestLedger(t *testing.T) {
	book := &notebook{}
	spec := scripted(t, `sleep 4711 & exec sh -c 'sleep 4712; true' secret-canary-value`, "API_KEY=secret-canary-value", "ZED=1")
	spec.Ledger, spec.StopCommand = book, `kill $(jobs -p) 2>/dev/null; true`
	s := start(t, spec)
	b := book.begun
	if _, err := os.Stat(b.TMPDIR); err != nil || b.Port != s.Port() || b.Dir != spec.Dir || b.Log != spec.LogPath || b.Stop != spec.StopCommand {
		t.Errorf("%+v, %v", b, err)
	}
	if !slices.IsSorted(b.Env) || !slices.Contains(b.Env, "API_KEY") || strings.Contains(strings.Join(b.Env, " "), "canary") {
		t.Errorf("environment names: %v", b.Env)
	}
	if got := book.told(); !slices.Equal(got[:3], []string{"starting", "started", "seen"}) {
		t.Errorf("told %v", got)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		book.mu.Lock()
		members := book.members
		book.mu.Unlock()
		var commands []string
		for _, m := range members {
			if m.PID <= 1 || m.Start == 0 {
				t.Fatalf("member %+v", m)
			}
			commands = append(commands, m.Command)
		}
		text := strings.Join(commands, "; ")
		if strings.Contains(text, "canary") {
			t.Fatalf("a secret in %q", text)
		}
		if slices.Contains(commands, "sleep 4711") && slices.Contains(commands, "sh -c sleep 4712; true ***") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("seen %q, want both sleepers", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := book.told(); got[len(got)-1] != "gone" {
		t.Errorf("told %v", got)
	}
}

// What the ledger refuses is not started, and leaves nothing.
func TestLedgerRefuses(t *testing.T) {
	book := &notebook{refuse: errors.New("no space left")}
	spec := scripted(t, "exec sleep 4711")
	spec.Ledger = book
	if _, err := Start(t.Context(), spec); !errors.Is(err, book.refuse) {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(book.begun.TMPDIR); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its TMPDIR is left: %v", err)
	}
	if left := marked(); len(left) > 0 {
		t.Errorf("started all the same: %v", left)
	}
}

// A start that never came to be is closed in the ledger; one that could not be proven gone is not.
func TestLedgerEnds(t *testing.T) {
	book := &notebook{}
	spec := scripted(t, "exec sleep 4711")
	spec.Ledger, spec.Dir = book, "/nonexistent"
	if _, err := Start(t.Context(), spec); err == nil {
		t.Fatal("started in a folder that is not there")
	}
	if got := book.told(); !slices.Equal(got, []string{"starting", "gone"}) {
		t.Errorf("told %v", got)
	}
	held := &notebook{}
	spec = scripted(t, "exec sleep 4711")
	spec.Ledger, spec.PortWait = held, 10*time.Millisecond
	s := start(t, spec)
	held.kill()
	listen(t, strings.TrimPrefix(s.URL(), "http://"))
	if _, err := s.Stop(context.Background()); err == nil {
		t.Fatal("a taken port is proven free")
	}
	if got := held.told(); slices.Contains(got, "gone") {
		t.Errorf("told %v", got)
	}
}
