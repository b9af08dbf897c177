package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/baseline/build"
	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/internal/state"
)

const (
	// leftoverGrace is how long what a dead run left has to end itself; leftoverPersist how long SIGKILL is repeated then.
	leftoverGrace   = 2 * time.Second
	leftoverPersist = 5 * time.Second
	// portWait is how long the port of an ended leftover may stay taken.
	portWait = 3 * time.Second
	// sweepEvery is the pause between two looks at a port.
	sweepEvery = 50 * time.Millisecond
)

// settlement is what was done about the run of one state file.
type settlement struct {
	run, path string
	// ended counts processes that got a signal and containers; removed counts folders.
	ended, removed int
	// left says what could not be taken away, each for people; the state file then stays.
	left []string
	// skipped says why nothing was done; empty when something was.
	skipped string
}

// String is one line.
func (s settlement) String() string {
	if s.skipped != "" {
		return s.path + ": left alone: " + s.skipped
	}
	text := fmt.Sprintf("run %s, which died: %s ended, %s removed", s.run, counted(s.ended, "process", "processes"), counted(s.removed, "folder", "folders"))
	if len(s.left) > 0 {
		text += "; left: " + strings.Join(s.left, ", ") + "; see " + s.path
	}
	return text
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// sweep cleans up after runs of this user that died before they could. It runs before anything of this run is made. A run
// that lives is left alone; a file that may not be acted upon is named.
func (c *comparison) sweep(ctx context.Context) {
	for _, path := range stateFiles(c.app.treesBelow()) {
		if ctx.Err() != nil {
			return
		}
		s, ok := settle(ctx, path, c.app)
		if !ok {
			continue
		}
		fmt.Fprintf(c.progress, "sweep: %s\n", s)
		if s.skipped == "" {
			c.note("swept", s.String())
		}
	}
}

// stateFiles lists the state files of all runs below a folder, by run.
func stateFiles(parent string) []string {
	found, _ := filepath.Glob(filepath.Join(globbed(parent), "*", state.Name)) // the pattern is ours: it is sound
	slices.Sort(found)
	return found
}

// globbed is a path as a pattern that only itself fits.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// settle cleans up after one run, and reports whether there is something to say about it. A run whose owner lives, or whom
// somebody else cleans up after, is none of our business.
func settle(ctx context.Context, path string, a *app) (settlement, bool) {
	s := settlement{path: path}
	held, err := state.Take(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, state.ErrBusy):
		return s, false
	case errors.Is(err, state.ErrForeign):
		s.skipped = "it belongs to another user"
		return s, true
	case err != nil:
		s.skipped = err.Error()
		return s, true
	}
	defer held.Release()
	fate := held.Fate(proc.Table{})
	switch fate {
	case state.Lives:
		return s, false
	case state.Elsewhere:
		s.skipped = "its run counts processes in another container, so that nobody here can tell whether it lives"
		return s, true
	default:
	}
	s.run = held.Run
	if fate == state.Dead {
		for i := range held.Rounds {
			s.end(ctx, a, held, &held.Rounds[i])
		}
		s.containers(ctx, a, held)
	}
	s.files(ctx, held)
	if len(s.left) == 0 {
		if err := held.Remove(); err != nil {
			s.left = append(s.left, err.Error())
		}
	}
	return s, true
}

// end ends what one server left, and waits for its port.
func (s *settlement) end(ctx context.Context, a *app, held *state.Held, r *state.Round) {
	table := proc.Table{}
	remains := proc.Remains{Recorded: r.Recorded(), Private: r.TMPDIR, Mask: proc.NewMask(a.environ)}
	before, err := table.Leftovers(remains)
	if err == nil && r.Stop != "" {
		s.stopCommand(ctx, a, held, r)
	}
	report, endErr := table.EndLeftovers(ctx, remains, proc.Ladder{Grace: leftoverGrace, Persist: leftoverPersist, CancelGrace: time.Nanosecond})
	if err := errors.Join(err, endErr); err != nil {
		s.left = append(s.left, roundOf(*r)+": "+err.Error())
		return
	}
	s.ended += len(before)
	for _, p := range report.Left {
		s.left = append(s.left, fmt.Sprintf("pid %d (%s, state %c) of %s", p.PID, p.Command, p.State, roundOf(*r)))
	}
	if holder := portHolder(ctx, r.Port); holder != "" {
		s.left = append(s.left, fmt.Sprintf("port %d of %s, held by %s", r.Port, roundOf(*r), holder))
	}
}

// portHolder waits until nobody listens on a port, and returns who still does.
func portHolder(ctx context.Context, port int) string {
	limit := time.Now().Add(portWait)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		holder := ""
		listeners, err := proc.Table{}.Listeners(port)
		for _, l := range listeners {
			if l.Reaches() {
				holder = proc.Table{}.Holder(l)
			}
		}
		if err != nil {
			holder = err.Error()
		}
		if holder == "" || port == 0 || time.Now().After(limit) {
			return holder
		}
		select {
		case <-ctx.Done():
			return holder
		case <-tick.C:
		}
	}
}

// stopCommand runs the command that ends a server whose processes are a daemon's. The values of its variables are this
// process's own; only their names were kept.
func (s *settlement) stopCommand(ctx context.Context, a *app, held *state.Held, r *state.Round) {
	env := proc.Environ(a.lookup, a.environ, proc.Server, map[string]string{"TAILGATE_RUN": held.Run}, r.Env)
	env = append(env, "PORT="+strconv.Itoa(r.Port), "TMPDIR="+r.TMPDIR)
	shell, _, err := proc.Shell(env)
	if err != nil {
		s.left = append(s.left, "stop command of "+roundOf(*r)+": "+err.Error())
		return
	}
	dir := r.Dir
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		dir = filepath.Dir(held.Path)
	}
	group, err := proc.Start(ctx, proc.Command{Path: shell, Args: []string{"-c", r.Stop}, Dir: dir, Env: env, Alone: true})
	if err != nil {
		s.left = append(s.left, "stop command of "+roundOf(*r)+": "+err.Error())
		return
	}
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	select {
	case <-group.Exited():
		if exit := group.Wait(); exit.Code != 0 {
			s.left = append(s.left, "stop command of "+roundOf(*r)+": "+exit.Text)
		}
	case <-ctx.Done():
	case <-limit.C:
		s.left = append(s.left, "stop command of "+roundOf(*r)+" did not end")
	}
	group.Kill()
}

// files removes what the run left on disk. Nothing goes on the file's word alone: worktrees lie beside it, temporary folders
// are this user's and named as tailgate names them.
func (s *settlement) files(ctx context.Context, held *state.Held) {
	for _, r := range held.Rounds {
		s.dispose(r.TMPDIR)
	}
	for _, tree := range held.Worktrees {
		_, err := os.Lstat(tree)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			_ = build.RemoveWorktree(ctx, held.Repository, tree) // forgets it; a repository that is gone too has nothing to forget
			continue
		case !held.Removable(tree):
			s.left = append(s.left, tree+" (not a folder of this run's)")
			continue
		}
		if err := removeTree(ctx, held.Repository, tree); err != nil {
			s.left = append(s.left, err.Error())
			continue
		}
		s.removed++
	}
	// Folders that tailgate made beside the worktrees, such as an arm's compile caches.
	own, _ := filepath.Glob(filepath.Join(globbed(filepath.Dir(held.Path)), "tailgate-*")) // the pattern is ours
	for _, dir := range own {
		s.dispose(dir)
	}
	if held.Scratch != "" {
		s.dispose(held.Scratch)
	}
}

// removeTree removes a worktree, also one whose repository is gone.
func removeTree(ctx context.Context, repo, tree string) error {
	if _, err := os.Stat(repo); errors.Is(err, fs.ErrNotExist) {
		return os.RemoveAll(tree)
	}
	return build.RemoveWorktree(ctx, repo, tree)
}

// dispose removes a temporary folder that tailgate made, if it is there.
func (s *settlement) dispose(dir string) {
	if !state.Disposable(dir) {
		return
	}
	if err := build.RemoveFolder(dir); err != nil {
		s.left = append(s.left, err.Error())
		return
	}
	s.removed++
}
