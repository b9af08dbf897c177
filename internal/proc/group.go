package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// How often the tree of descendants is read. A program that puts itself into the background does so early, so the first
// two seconds are watched closely; later the looks must not disturb a measurement.
const (
	earlyEvery = 50 * time.Millisecond
	earlyUntil = 2 * time.Second
	lookEvery  = 500 * time.Millisecond
	// forgetEvery counts the looks after which pids known to be older than the child are read again.
	forgetEvery = 16
	// emptyLooks is how many readings in a row must find nothing before nothing is believed.
	emptyLooks = 3
	// pipeDelay is how long the output pipe may stay open after the child's end, when a descendant holds it.
	pipeDelay = time.Second
)

// Command describes a child process.
type Command struct {
	// Path is the program, Args its arguments without the program's name. Dir is its working folder.
	Path string
	Args []string
	Dir  string
	// Env is the whole environment, see [Environ]. Nil is an empty one, never ours.
	Env []string
	// Log is the file that takes stdout and stderr, appended to. Empty: both are discarded. The child writes to the file
	// itself, so that no pipe ties it to us.
	Log string
	// Stdout takes standard output through a pipe instead; for sensors, whose lines are read as they come. Stderr still
	// goes to Log. Writes come from one goroutine.
	Stdout io.Writer
	// Private is a TMPDIR that no process but this child and its descendants was given: a process that carries it is
	// ours. Empty turns the rule off.
	Private string
	// Before is who was there before the run: none of those is ever ours, nor signalled. The zero value is nobody.
	Before Census
	// Adopt takes in orphans: this process becomes their parent, and while no other group does the same each orphan of
	// our descendants counts as this group's. For servers, which may put themselves into the background.
	Adopt bool
	// Alone says that the child starts no process of its own: its descendants are then looked for when it is ended, and not
	// all the time before.
	Alone bool
}

// Exit is how a child ended.
type Exit struct {
	// Code is the exit code, 128 + n after signal n, or -1 when the end could not be observed.
	Code int
	// Text is for people: "exit status 1", "signal: killed".
	Text string
}

// Group is a child and everything it started. Its methods are safe for concurrent use.
type Group struct {
	table   Table
	list    func(skip func(int) bool) ([]Process, error)
	leader  ID
	private string
	before  Census
	mask    *Mask
	exited  chan struct{}
	exit    Exit // set before exited is closed
	// forsake ends the taking in of orphans; nil when there was none.
	forsake func()

	mu    sync.Mutex // guards the fields below
	tree  *tree
	seen  history
	older map[int]bool // pids known to be older than the leader
	looks int
	last  []Process
}

// Start runs a command in a new session with /dev/null as its input. ctx bounds the start only: a running child is ended
// by [Group.End] or [Group.Kill]. If this process dies, the kernel kills the child.
func Start(ctx context.Context, c Command) (*Group, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), c.Path, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append([]string{}, c.Env...) // not nil: nil would inherit our environment
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = pipeDelay
	if c.Log != "" {
		log, err := os.OpenFile(c.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", c.Path, err)
		}
		defer func() { _ = log.Close() }()
		cmd.Stdout, cmd.Stderr = log, log
	}
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	g := &Group{private: c.Private, before: c.Before, mask: NewMask(c.Env), exited: make(chan struct{}), older: map[int]bool{}}
	g.list = g.table.List
	if c.Adopt {
		kin.adopt()
		g.forsake = sync.OnceFunc(kin.release)
	}
	started := make(chan error, 1)
	go g.live(cmd, started)
	if err := <-started; err != nil {
		g.release()
		return nil, err
	}
	if !c.Alone {
		go g.watch()
	}
	return g, nil
}

// live starts the child and waits for it, on one thread: Pdeathsig is tied to the thread that forked, so the thread must
// last as long as the child.
func (g *Group) live(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var p Process
	id, err := kin.born(func() (ID, error) {
		if err := cmd.Start(); err != nil {
			return ID{}, err
		}
		// The child is not reaped yet, so its row exists even if it has already ended.
		var err error
		if p, err = g.table.Read(cmd.Process.Pid); err != nil {
			return ID{}, fmt.Errorf("own child in the process table: %w", errors.Join(err, cmd.Process.Kill(), cmd.Wait()))
		}
		return p.ID, nil
	})
	if err != nil {
		started <- err
		return
	}
	g.leader, g.tree, g.last = id, newTree(id, os.Getpid()), []Process{p}
	g.tree.before = g.before
	g.seen.add([]Process{p})
	started <- nil
	err = cmd.Wait()
	kin.buried(id)
	g.exit = exitOf(err, cmd.ProcessState)
	close(g.exited)
}

// release ends the taking in of orphans. Calling it twice is harmless.
func (g *Group) release() {
	if g.forsake != nil {
		g.forsake()
	}
}

func exitOf(err error, state *os.ProcessState) Exit {
	if state == nil {
		return Exit{Code: -1, Text: fmt.Sprint(err)}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Text: state.String()}
	}
	return Exit{Code: state.ExitCode(), Text: state.String()}
}

// PID is the direct child's pid.
func (g *Group) PID() int { return g.leader.PID }

// Exited is closed when the direct child has ended. Descendants may still live.
func (g *Group) Exited() <-chan struct{} { return g.exited }

// Wait waits for the direct child's end.
func (g *Group) Wait() Exit {
	<-g.exited
	return g.exit
}

// Seen returns every process of ours that the looks have found so far, the child first, in order of first sight. Of more
// than 4096 the oldest that no longer live are forgotten.
func (g *Group) Seen() []Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.seen.order)
}

// Living looks at the process table and returns every living process of ours, by rising pid.
func (g *Group) Living() []Process { return g.look(true) }

// look finds the living processes of ours. A full look reads every row and the environment of young strangers; an
// ordinary one leaves out pids that were seen to be older than the child.
//
// The kernel gives no snapshot: a process that forks and ends while the table is read can slip through. An empty answer
// is therefore given only after several empty readings in a row.
func (g *Group) look(full bool) []Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.looks++
	for range emptyLooks {
		if full || g.looks%forgetEvery == 0 {
			clear(g.older)
		}
		table, err := g.list(func(pid int) bool { return g.older[pid] })
		if err != nil {
			return g.last // unknown is not gone
		}
		g.last = g.tree.observe(table, g.marked(full, table))
		kin.reap(table, g.tree.seen)
		if len(g.last) > 0 {
			g.seen.add(g.last)
			g.remember(table)
			return g.last
		}
	}
	g.tree.groupGone = true
	g.release()
	return nil
}

// remember notes the pids that need not be read at each look.
func (g *Group) remember(table []Process) {
	for _, p := range table {
		if p.Start < g.leader.Start {
			g.older[p.PID] = true
		}
	}
}

// marked returns the test for orphans that only this group can have left and, in a full look, for our private folder.
func (g *Group) marked(full bool, table []Process) func(Process) bool {
	var orphans map[int]bool
	if g.forsake != nil && !g.tree.groupGone {
		orphans = kin.orphans(table)
	}
	full = full && g.private != ""
	return func(p Process) bool {
		return orphans[p.PID] || full && g.table.hasVariable(p.PID, "TMPDIR="+g.private)
	}
}

// watch keeps the memory of descendants fresh until the child and all of them are gone.
func (g *Group) watch() {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		<-timer.C
		living := g.look(false)
		if len(living) == 0 && g.gone() {
			return
		}
		if time.Since(began) < earlyUntil {
			timer.Reset(earlyEvery)
		} else {
			timer.Reset(lookEvery)
		}
	}
}

// gone reports whether the direct child has been reaped.
func (g *Group) gone() bool {
	select {
	case <-g.exited:
		return true
	default:
		return false
	}
}
