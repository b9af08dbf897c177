package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

var errForbidden = errors.New("never signalled: init, ourselves, our own group, or what was there before the run")

// signal sends sig to exactly the process that id names, or returns os.ErrProcessDone. The order matters: the descriptor
// is opened first, so that the process compared is the process signalled, even if the pid is used again in between.
func (t Table) signal(id ID, sig syscall.Signal) error {
	if id.PID <= 1 || id.PID == os.Getpid() {
		return errForbidden
	}
	fd, err := unix.PidfdOpen(id.PID, 0)
	old := errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) // a kernel or sandbox without pidfds
	if err != nil && !old {
		return os.ErrProcessDone
	}
	if !old {
		defer func() { _ = unix.Close(fd) }()
	}
	if p, err := t.Read(id.PID); err != nil || p.Start != id.Start || p.Dead() {
		return os.ErrProcessDone
	}
	if old {
		return unix.Kill(id.PID, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// signal is [Table.signal] with those spared that were there before the run.
func (g *Group) signal(id ID, sig syscall.Signal) error {
	if g.before.Has(id) {
		return errForbidden
	}
	return g.table.signal(id, sig)
}

// killGroup sends SIGKILL to the leader's process group. The caller has just seen a living member of ours in it, without
// which the number could already belong to a stranger.
func killGroup(leader ID) error {
	if leader.PID <= 1 || leader.PID == unix.Getpgrp() {
		return errForbidden
	}
	return unix.Kill(-leader.PID, unix.SIGKILL)
}
