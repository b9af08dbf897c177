package target

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// pidsLimit bounds the command that prints pids, pidsBytes and pidsMost what is taken of its output.
	pidsLimit           = 5 * time.Second
	pidsBytes, pidsMost = 64 << 10, 4096
	// shownLine is how much of a line that is no pid is shown, in bytes.
	shownLine = 80
	// commandPersist is how long what is left of a command is killed again.
	commandPersist = time.Second
)

// command runs a shell command of the user's beside the server: its folder, its environment with PORT, a TMPDIR of its own, so
// that it is not taken for the server. Nothing of it is left when the command returns, which is at the latest when ctx ends.
func (s *Server) command(ctx context.Context, line, log string, out io.Writer) error {
	shell, _, err := proc.Shell(s.spec.Env)
	if err != nil {
		return err
	}
	tmp, err := proc.PrivateDir("")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	g, err := proc.Start(ctx, proc.Command{
		Path: shell, Args: []string{"-c", line}, Dir: s.spec.Dir, Env: s.environ(tmp), Log: log, Stdout: out, Private: tmp, Before: s.spec.Ground.before(),
	})
	if err != nil {
		return err
	}
	select {
	case <-g.Exited():
	case <-ctx.Done():
		err = errors.New("it did not end in time and was killed")
	}
	g.End(context.WithoutCancel(ctx), proc.Ladder{Grace: -1, Persist: commandPersist})
	if err != nil {
		return err
	}
	if exit := g.Wait(); exit.Code != 0 {
		return errors.New(exit.Text)
	}
	return nil
}

// environ is the server's environment with a TMPDIR.
func (s *Server) environ(tmp string) []string {
	return append(append([]string{}, s.spec.Env...), "PORT="+strconv.Itoa(s.port), "TMPDIR="+tmp)
}

// order is the stop command in the course of one stop: it is given once, and once more when that was not enough.
type order struct {
	s *Server
	// ctx is the stop's own; a command that runs when it ends has the grace of a cancellation left.
	ctx   context.Context
	first chan struct{}
	again bool
}

// give starts the stop command. It does not block.
func (o *order) give() {
	go func() {
		defer close(o.first)
		o.run()
	}()
}

// repeat waits for the first run and gives the order once more; only once.
func (o *order) repeat() {
	<-o.first
	if o.again || o.ctx.Err() != nil {
		return
	}
	o.again = true
	o.run()
}

// run runs the command to its end, within the grace, and notes a failure.
func (o *order) run() {
	limit := o.s.spec.Grace
	if o.ctx.Err() != nil {
		limit = min(limit, o.s.cancelGrace(o.ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), limit)
	defer cancel()
	defer context.AfterFunc(o.ctx, func() { time.AfterFunc(o.s.cancelGrace(o.ctx), cancel) })()
	if err := o.s.command(ctx, o.s.spec.StopCommand, o.s.spec.StopLog, nil); err != nil {
		o.s.note("stop_command_failed", "target.stop_command failed: %v; see stop.log", err)
	}
}

// settle waits for the command, and for the port that what it stops may still hold; a port that is held at the end of the
// grace is reason to give the order again. The processes may be somebody else's children, so the port alone tells.
func (o *order) settle(began time.Time) {
	<-o.first
	tick := time.NewTicker(freeEvery)
	defer tick.Stop()
	done := o.ctx.Done()
	for !o.s.portFree() {
		if o.ctx.Err() != nil || o.again {
			return
		}
		if time.Since(began) >= o.s.spec.Grace {
			o.repeat()
			return
		}
		select {
		case <-done:
		case <-tick.C:
		}
	}
}

// detached reports whether the start command ended well and left the server to run elsewhere, which only a server with a stop
// command may.
func (s *Server) detached() bool {
	select {
	case <-s.group.Exited():
		return s.spec.StopCommand != "" && s.group.Wait().Code == 0
	default:
		return false
	}
}

// follow closes ended when the server is gone: with its start command's process, or, of a server that runs elsewhere, when it
// was ready and nobody listens on its port any more.
func (s *Server) follow(ended chan<- struct{}) {
	select {
	case <-s.group.Exited():
	case <-s.over:
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for silent := 0; s.detached() && silent < stolenLooks; {
		select {
		case <-s.over:
			silent = stolenLooks
		case <-tick.C:
			listeners, err := reachable(s.port)
			if silent++; !s.up.Load() || err != nil || len(listeners) > 0 {
				silent = 0
			}
		}
	}
	close(ended)
}

// declare asks the user's command which processes are the server's. They are observed and never signalled.
func (s *Server) declare() {
	if s.spec.PIDs == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), pidsLimit)
	defer cancel()
	out := &bounded{most: pidsBytes}
	err := s.command(ctx, s.spec.PIDs, "", out)
	if err != nil {
		s.noteOnce("pids_unknown", "target.pids failed: %v; the server's processes are told from others by what tailgate started", err)
		return
	}
	pids, bad := parsePIDs(out.Bytes())
	if bad != "" {
		s.noteOnce("pids_unknown", "target.pids printed %q, which is no pid; one number a line is read", bad)
	}
	s.declared.Store(&pids)
}

// parsePIDs reads one pid a line; bad is the first line that is none, cleaned.
func parsePIDs(text []byte) (pids []int, bad string) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() && len(pids) < pidsMost {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		pid, err := strconv.Atoi(line)
		if err != nil || pid <= 1 || pid > 1<<22 {
			if bad == "" {
				bad = proc.Clean(line[:min(len(line), 2*shownLine)], shownLine)
			}
			continue
		}
		pids = append(pids, pid)
	}
	if lines.Err() != nil && bad == "" {
		bad = "a line without an end"
	}
	return pids, bad
}

// bounded keeps the first bytes written to it.
type bounded struct {
	bytes.Buffer
	most int
}

// Write keeps what there is room for and takes the rest for written.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); room > 0 {
		_, _ = b.Buffer.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// note keeps a remark for the record.
func (s *Server) note(id, format string, args ...any) {
	s.remarks.Lock()
	defer s.remarks.Unlock()
	s.notes = append(s.notes, record.Note{ID: id, Text: s.spec.Mask(fmt.Sprintf(format, args...))})
}

// noteOnce keeps the first remark of its kind.
func (s *Server) noteOnce(id, format string, args ...any) {
	s.remarks.Lock()
	known := false
	for _, n := range s.notes {
		known = known || n.ID == id
	}
	s.remarks.Unlock()
	if !known {
		s.note(id, format, args...)
	}
}

// Notes returns what is worth a remark on record so far: a stop command that failed, memory that could not be proven free, a
// log that was cut. Their slots are not set.
func (s *Server) Notes() []record.Note {
	s.remarks.Lock()
	defer s.remarks.Unlock()
	return append([]record.Note(nil), s.notes...)
}
