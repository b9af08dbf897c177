package proc

import "slices"

// tree is the memory of one child's descendants. A process that was seen below the child once stays ours, also when its
// parent ends and the kernel hangs it below another. It is not safe for concurrent use.
type tree struct {
	leader ID
	// self is our own pid, which is never ours to end.
	self int
	// seen holds the processes of ours that the last look found.
	seen map[ID]bool
	// groupGone is set once the leader's group and session are known to be empty. From then on the kernel may give the
	// leader's pid to a stranger, so the number proves nothing.
	groupGone bool
	// before holds those that were there before the run, whatever else says that they are ours.
	before Census
}

func newTree(leader ID, self int) *tree {
	return &tree{leader: leader, self: self, seen: map[ID]bool{leader: true}}
}

// observe takes in a new look at the process table (sorted by pid) and returns the processes of ours that live. marked,
// which may be nil, says whether a process carries our mark in its environment.
func (t *tree) observe(table []Process, marked func(Process) bool) []Process {
	t.checkGroup(table)
	ours := map[int]bool{}
	for _, p := range table {
		if marked != nil && t.candidate(p) && marked(p) {
			ours[p.PID] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if !ours[p.PID] && t.candidate(p) && t.belongs(p, ours) {
				ours[p.PID], grown = true, true
			}
		}
	}
	seen := make(map[ID]bool, len(ours))
	var living []Process
	for _, p := range table {
		if !ours[p.PID] {
			continue
		}
		seen[p.ID] = true
		if !p.Dead() {
			living = append(living, p)
		}
	}
	t.seen = seen
	return living
}

// candidate reports whether a process can be ours at all: nothing that is older than the leader, or was there before the
// run, can.
func (t *tree) candidate(p Process) bool {
	return p.PID > 1 && p.PID != t.self && p.Start >= t.leader.Start && !t.before.Has(p.ID)
}

func (t *tree) belongs(p Process, ours map[int]bool) bool {
	if t.seen[p.ID] || ours[p.PPID] {
		return true
	}
	return !t.groupGone && t.inGroup(p)
}

// inGroup reports whether a process is in the leader's process group or session.
func (t *tree) inGroup(p Process) bool { return p.PGID == t.leader.PID || p.SID == t.leader.PID }

// checkGroup gives the group up when its number has gone to a stranger.
func (t *tree) checkGroup(table []Process) {
	for _, p := range table {
		if p.PID == t.leader.PID && p.Start != t.leader.Start {
			t.groupGone = true
		}
	}
}

// seenLimit is how many processes a history holds.
const seenLimit = 4096

// history is every process of a tree in order of first sight. The zero value is empty. It is not safe for concurrent use.
type history struct {
	order []Process
	known map[ID]bool
}

// add notes the processes that live now.
func (h *history) add(living []Process) {
	if h.known == nil {
		h.known = map[ID]bool{}
	}
	for _, p := range living {
		if !h.known[p.ID] {
			h.known[p.ID] = true
			h.order = append(h.order, p)
		}
	}
	if len(h.order) <= seenLimit {
		return
	}
	lives := map[ID]bool{}
	for _, p := range living {
		lives[p.ID] = true
	}
	spare := len(h.order) - seenLimit
	h.order = slices.DeleteFunc(h.order, func(p Process) bool {
		if spare == 0 || lives[p.ID] {
			return false
		}
		spare--
		delete(h.known, p.ID)
		return true
	})
}
