package chaos

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// stateFiles are those that wait for somebody to clean up.
func (s *session) stateFiles() []string {
	found, _ := filepath.Glob(filepath.Join(s.temp, "tailgate", "*", state.Name)) // a pattern of ours
	return found
}

// killServer kills the server that is on record, as if it had crashed. There may be none at the instant.
func (s *session) killServer() {
	for _, path := range s.stateFiles() {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // the run has just ended
		}
		f, err := state.Parse(path, text)
		if err != nil {
			s.wrong("state file: %v", err)
			continue
		}
		for _, r := range f.Rounds {
			for _, p := range r.Processes[:min(1, len(r.Processes))] {
				if err := (proc.Table{}).Signal(p.ID(), syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
					s.wrong("%v", err)
				}
			}
		}
	}
}

// carrying lists the processes that have the session's folder in their command line or environment.
func (s *session) carrying() []string {
	var left []string
	dirs, _ := filepath.Glob("/proc/[0-9]*") // a pattern of ours
	for _, dir := range dirs {
		if filepath.Base(dir) == strconv.Itoa(os.Getpid()) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // gone, or another user's: not the session's
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if folder := []byte(s.Folder + "/"); bytes.Contains(cmdline, folder) || bytes.Contains(environ, folder) {
			left = append(left, filepath.Base(dir)+" "+string(bytes.ReplaceAll(cmdline, []byte{0}, []byte(" "))))
		}
	}
	return left
}

// examine looks right after the session's end: only a killed one may leave anything for the next run, and one that had to end by
// force its state file.
func (s *session) examine() {
	left := s.carrying()
	for until := time.Now().Add(gitPause); len(left) > 0 && time.Now().Before(until); left = s.carrying() {
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // other processes end meanwhile
	}
	if s.Kind != Kill {
		if len(left) > 0 {
			s.wrong("left behind: %s", strings.Join(left, "; "))
		}
		if found := s.stateFiles(); len(found) > 0 && !s.forced {
			s.wrong("state files are left: %s", strings.Join(found, ", "))
		}
	}
	s.readable(s.out, true)
}

// afterNext looks at the run after, and at what is left when it is over.
func (s *session) afterNext(out string) {
	if left := s.carrying(); len(left) > 0 {
		s.wrong("alive after the next run: %s", strings.Join(left, "; "))
	}
	if found, _ := filepath.Glob(filepath.Join(s.temp, "tailgate", "*")); len(found) > 0 {
		s.wrong("left by the next run's sweep: %s", strings.Join(found, ", "))
	}
	private := regexp.MustCompile(`^tailgate-[0-9a-f]{16}$`)
	entries, err := os.ReadDir(s.tmp)
	if err != nil {
		s.wrong("%v", err)
	}
	for _, e := range entries {
		if private.MatchString(e.Name()) {
			s.wrong("a temporary folder is left: %s", e.Name())
		}
	}
	cmd := exec.Command("git", "-C", s.repo, "worktree", "list") //nolint:noctx // it reads a few files
	cmd.Env = s.env
	if text, err := cmd.CombinedOutput(); err != nil || bytes.Count(text, []byte("\n")) != 1 {
		s.wrong("git worktree list, %v: %s", err, text)
	}
	f := s.readable(out, false)
	if f == nil {
		return
	}
	run := f.Run()
	if len(run.Incidents) > 0 {
		s.wrong("the next run is affected: %s: %s", run.Incidents[0].ID, run.Incidents[0].Text)
	}
	if len(run.Rounds) == 0 || run.Rounds[0].State != record.RoundComplete {
		s.wrong("the next run measured nothing, its status is %s", run.Status)
	}
}

// readable opens a run folder and looks that no finished round is lost. A session that was killed before it wrote its first
// run.json has none.
func (s *session) readable(dir string, interrupted bool) *record.Folder {
	if _, err := os.Stat(filepath.Join(dir, "run.json")); errors.Is(err, fs.ErrNotExist) && interrupted {
		if rounds, _ := filepath.Glob(filepath.Join(dir, "rounds", "*")); len(rounds) > 0 {
			s.wrong("rounds without a run.json: %s", strings.Join(rounds, ", "))
		}
		return nil
	}
	f, err := record.Open(dir)
	if err != nil {
		s.wrong("unreadable: %v", err)
		return nil
	}
	defer f.Close() //nolint:errcheck // read only
	listed, finished := map[int]bool{}, map[int]bool{}
	for _, rd := range f.Run().Rounds {
		listed[rd.Slot], finished[rd.Slot] = true, rd.State == record.RoundComplete
	}
	for e, err := range f.Journal() {
		if err != nil {
			s.wrong("journal: %v", err)
			break
		}
		if e.Name != "done" || e.Text != string(record.RoundComplete) || e.Slot == nil || listed[*e.Slot] {
			continue
		}
		// Killed between the round's own file and the index: it is all there.
		if rd, err := f.Round(*e.Slot); err != nil || rd.State != record.RoundComplete {
			s.wrong("round %d was finished and is lost: %v", *e.Slot, err)
		}
	}
	differences, err := record.Verify(f)
	if err != nil {
		s.wrong("verify: %v", err)
	}
	for _, d := range differences {
		if !finished[d.Slot] {
			continue // cut short, perhaps by the full disk that kept its own file from being written
		}
		s.wrong("a finished round does not follow from its samples: %v", d)
	}
	return f
}
