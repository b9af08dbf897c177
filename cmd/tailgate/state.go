package main

import (
	"errors"
	"path/filepath"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
	"github.com/tailgate-ci/tailgate/runner/target"
)

const (
	// killWait is how long a second signal waits for the servers to be killed. The process has to be gone 0.3 s after it.
	killWait = 250 * time.Millisecond
	// buildEvery is how often the processes of a build are put on record.
	buildEvery = 500 * time.Millisecond
)

// treesBelow is the folder in which every run of this user has its root: in the CI runner's own, else in the user's cache.
func (a *app) treesBelow() string {
	root := a.getenv("RUNNER_TEMP")
	if root == "" {
		root = a.getenv("XDG_CACHE_HOME")
	}
	if root == "" {
		root = filepath.Join(a.getenv("HOME"), ".cache")
	}
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	return filepath.Join(root, "tailgate")
}

// keepState begins the run's state file, before anything is made that would have to be taken away.
func (c *comparison) keepState() error {
	f := state.File{Run: c.id, URL: c.runner.URL, Repository: c.repo, Scratch: c.scratch}
	for _, g := range c.run.Environment.GPUs {
		f.GPUs = append(f.GPUs, g.UUID)
	}
	var err error
	c.book, err = state.Create(c.trees, f)
	return err
}

// closeState removes the state file if nothing that it names is left. What is left, the next run or `tailgate action cleanup`
// takes away.
func (c *comparison) closeState() error {
	err := c.book.Close()
	if errors.Is(err, state.ErrOpen) {
		c.note("state_left", "not everything of this run is gone; `tailgate action cleanup --state "+c.book.Path()+"`, or the next run, looks after it")
		return nil
	}
	return err
}

// ledger is where the runner's starts are put on record, and known to a second signal. A file that cannot be written once
// a server runs is told at the end, by the book.
func (c *comparison) ledger() target.Ledger { return &ledger{book: c.book, urgent: c.app.urgent} }

type ledger struct {
	book   *state.Book
	urgent *urgent
}

func (l *ledger) Starting(b target.Beginning) error {
	log, err := filepath.Abs(b.Log)
	if err != nil {
		return err
	}
	return l.book.Starting(state.Round{Log: log, Dir: b.Dir, TMPDIR: b.TMPDIR, Port: b.Port, Env: b.Env, Stop: b.Stop})
}

func (l *ledger) Started(tmp string, kill func()) { l.urgent.add(tmp, kill) }

func (l *ledger) Seen(tmp string, members []target.Member) {
	list := make([]state.Process, len(members))
	for i, p := range members {
		list[i] = state.Process{PID: p.PID, Start: p.Start, PGID: p.PGID, SID: p.SID, Command: p.Command}
	}
	_ = l.book.Seen(tmp, list) // told by Close
}

func (l *ledger) Gone(tmp string) {
	l.urgent.remove(tmp)
	_ = l.book.Gone(tmp) // told by Close
}

// watchBuild puts what a build runs on record as long as it runs. What it printed goes to log.
func (c *comparison) watchBuild(log, dir string) func(string, *proc.Group) func() {
	return func(tmp string, g *proc.Group) func() {
		// A build that cannot be put on record is made all the same: the book tells of it at the end.
		_ = c.book.Starting(state.Round{Log: log, Dir: dir, TMPDIR: tmp})
		over, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			tick := time.NewTicker(buildEvery)
			defer tick.Stop()
			for {
				_ = c.book.Seen(tmp, c.builders(g))
				select {
				case <-over:
					return
				case <-tick.C:
				}
			}
		}()
		return func() {
			close(over)
			<-done
			if len(g.Living()) == 0 {
				_ = c.book.Gone(tmp)
			}
		}
	}
}

// builders are the processes of a build that live, as the last look found them.
func (c *comparison) builders(g *proc.Group) []state.Process {
	var list []state.Process
	table, mask := proc.Table{}, proc.NewMask(c.app.environ)
	for _, p := range g.Seen() {
		if table.Alive(p.ID) {
			list = append(list, state.Process{PID: p.PID, Start: p.Start, PGID: p.PGID, SID: p.SID, Command: table.Command(p.PID, mask)})
		}
	}
	return list
}

// urgent knows how each server that runs is killed at once. The zero value knows none; a nil one takes none.
type urgent struct {
	mu    sync.Mutex
	kills map[string]func()
}

func (u *urgent) add(name string, kill func()) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.kills == nil {
		u.kills = map[string]func(){}
	}
	u.kills[name] = kill
}

func (u *urgent) remove(name string) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.kills, name)
}

// kill kills every server and returns when that is done or killWait is over.
func (u *urgent) kill() {
	if u == nil {
		return
	}
	u.mu.Lock()
	var all sync.WaitGroup
	for _, kill := range u.kills {
		all.Go(kill)
	}
	u.mu.Unlock()
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(killWait):
	}
}

// roundOf is the slot and arm of a server, by the folder of its log: "03-head".
func roundOf(r state.Round) string {
	if name := filepath.Base(filepath.Dir(r.Log)); name != "." && name != "/" {
		return name
	}
	return "a server"
}
