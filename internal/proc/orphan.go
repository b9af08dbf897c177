package proc

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// kin knows our own children. There is one of it, because a process has one list of children, whoever of us started them.
var kin = children{own: map[ID]bool{}}

// children tells those that we started from the orphans that the kernel hung below us.
type children struct {
	mu sync.Mutex
	// own are the leaders of groups that were not waited for yet.
	own map[ID]bool
	// adopters counts the groups that take in orphans.
	adopters int
	subreap  sync.Once
}

// adopt makes this process the parent of orphans among its descendants, and counts one more group that takes them in. A
// kernel that refuses leaves the orphans to init: they are then ours only by the recorded tree and by their environment.
func (c *children) adopt() {
	c.subreap.Do(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopters++
}

// release takes back one adopt.
func (c *children) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adopters--
}

// born starts a child and registers it in one step, so that nobody who reads the table in between takes it for an orphan.
func (c *children) born(start func() (ID, error)) (ID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, err := start()
	if err == nil {
		c.own[id] = true
	}
	return id, err
}

// buried forgets a child that was waited for.
func (c *children) buried(id ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.own, id)
}

// orphans returns the pids of a table, read before, that are our children though we did not start them; nil when more than
// one group takes orphans in, since nobody can say then whose they are. What we started ourselves is either registered or,
// as git and the sensors, in our own session, which nothing below a group's leader can be in.
func (c *children) orphans(table []Process) map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.adopters != 1 {
		return nil
	}
	found := map[int]bool{}
	for _, p := range table {
		if c.adopted(p) {
			found[p.PID] = true
		}
	}
	return found
}

// adopted reports whether a process is our child and not of our making. c.mu is held.
func (c *children) adopted(p Process) bool {
	return p.PPID == os.Getpid() && !c.own[p.ID] && p.SID != session()
}

// reap waits for the dead among a group's processes that the kernel hung below us, each by its own pid: waiting for any
// child would take exit codes from those who wait for them.
func (c *children) reap(table []Process, ours map[ID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range table {
		if p.Dead() && ours[p.ID] && c.adopted(p) {
			// What cannot be reaped now is still there at the next look.
			_, _ = unix.Wait4(p.PID, nil, unix.WNOHANG, nil)
		}
	}
}

// session is our own session.
func session() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return -1
	}
	return sid
}
