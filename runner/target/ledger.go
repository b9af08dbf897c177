package target

import (
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

// ledgerEvery is how often a ledger hears what lives.
const ledgerEvery = 500 * time.Millisecond

// Ledger is told what a start brings into the world, so that somebody else can end it if this process dies first. One that
// is told of several servers tells them apart by their TMPDIR. Its methods may be called from several goroutines at a time.
type Ledger interface {
	// Starting comes before the process is made. An error keeps it from being made.
	Starting(b Beginning) error
	// Started comes right after; kill sends SIGKILL to everything of the server's and returns within 0.3 s.
	Started(tmp string, kill func())
	// Seen names the processes of the server that were seen: at once after the start and then twice a second. Some may have
	// ended meanwhile.
	Seen(tmp string, members []Member)
	// Gone comes when the server is proven gone, or was never made. It never comes for one that could not be ended.
	Gone(tmp string)
}

// Beginning is what is known of a server before its process exists.
type Beginning struct {
	// TMPDIR is the server's own temporary folder: a process that carries it in its environment is the server's.
	TMPDIR string
	Port   int
	// Dir is the working folder, Log the file that takes its output.
	Dir, Log string
	// Stop is the command that ends the server; empty for none.
	Stop string
	// Env holds the names of the variables that the server is given, sorted; values are nobody's business.
	Env []string
}

// Member is a process of a server's.
type Member struct {
	proc.Process
	// Command is masked, cleaned and at most 200 bytes.
	Command string
}

// beginning describes the server that is about to be started.
func (s *Server) beginning() Beginning {
	b := Beginning{TMPDIR: s.tmp, Port: s.port, Dir: s.spec.Dir, Log: s.spec.LogPath, Stop: s.spec.StopCommand}
	for _, entry := range s.spec.Env {
		name, _, _ := strings.Cut(entry, "=")
		b.Env = append(b.Env, name)
	}
	slices.Sort(b.Env)
	return b
}

// keepLedger tells the ledger what lives until the server was stopped. Without a ledger nothing runs.
func (s *Server) keepLedger() {
	ledger := s.spec.Ledger
	if ledger == nil {
		return
	}
	known := map[proc.ID]*sighting{}
	tell := func() { ledger.Seen(s.tmp, s.members(known)) }
	ledger.Started(s.tmp, s.Kill)
	tell()
	go func() {
		tick := time.NewTicker(ledgerEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.over:
				return
			case <-tick.C:
				tell()
			}
		}
	}()
}

// sighting is what is known of a process's command.
type sighting struct {
	command string
	looks   int
}

// settled is after how many looks a command counts as final: what starts as a shell soon becomes something else.
const settled = 4

// members are the processes that were seen. A command is read a few times and then no more, since reading costs a
// measurement something.
func (s *Server) members(known map[proc.ID]*sighting) []Member {
	var list []Member
	for _, p := range s.group.Seen() {
		seen := known[p.ID]
		if seen == nil {
			seen = &sighting{}
			known[p.ID] = seen
		}
		if seen.looks < settled {
			seen.looks++
			if command := s.spec.Mask(proc.Table{}.Command(p.PID, s.mask)); command != "" {
				seen.command = command
			}
		}
		list = append(list, Member{Process: p, Command: seen.command})
	}
	return list
}

// endLedger closes the server's entry if it is gone.
func (s *Server) endLedger(gone bool) {
	close(s.over)
	if gone && s.spec.Ledger != nil {
		s.spec.Ledger.Gone(s.tmp)
	}
}
