// Package state keeps the file that says what a run has brought into the world: worktrees, servers with their processes,
// temporary folders, ports. A run writes it while it lives ([Book]); whoever comes after a run that died reads it ([Take])
// and takes away what is named there, and nothing else.
//
// The file is 0600 and replaced by rename, so that a reader never sees half of it. It is read with suspicion: what is out of
// bounds refuses the whole file, since processes are ended and folders removed on its word.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tailgate-ci/tailgate/internal/proc"
)

const (
	// Name is the file's name in a run's root.
	Name = "state.json"
	// Schema is the version this package writes. A greater one is refused.
	Schema = 1
)

// What a file may hold at most.
const (
	maxBytes     = 1 << 20
	maxText      = 4096
	maxRounds    = 64
	maxProcesses = 1024
	maxEntries   = 256 // worktrees, GPUs, variables
)

// File is what one run has running and lying around. The zero value is not one.
type File struct {
	Schema int `json:"schema"`
	// Run is the run's id: letters, digits and dashes, at most 64.
	Run string `json:"run"`
	// Boot names the boot of the machine that the pids belong to; Namespace the pid namespace, "pid:[4026531836]", empty where
	// it could not be read.
	Boot      string `json:"boot"`
	Namespace string `json:"pid_namespace,omitempty"`
	// Owner is the tailgate that looks after all of it while it lives.
	Owner Process `json:"owner"`
	// URL is the job's page, empty at a terminal.
	URL string `json:"url,omitempty"`
	// Repository holds the worktrees' registrations; absolute.
	Repository string `json:"repository"`
	// Scratch is a folder that holds the repository itself and goes with it, as a demo's does; empty for none.
	Scratch string `json:"scratch,omitempty"`
	// Worktrees are absolute and lie beside this file.
	Worktrees []string `json:"worktrees"`
	// GPUs are the UUIDs of the devices watched.
	GPUs []string `json:"gpus"`
	// Rounds are the servers that are not proven gone.
	Rounds []Round `json:"rounds"`
}

// Process is a process as it was last seen.
type Process struct {
	PID int `json:"pid"`
	// Start is field 22 of /proc/PID/stat: clock ticks since boot.
	Start uint64 `json:"start"`
	PGID  int    `json:"pgid,omitempty"`
	SID   int    `json:"sid,omitempty"`
	// Command is for people, secrets masked.
	Command string `json:"command,omitempty"`
}

// ID is what tells the process from all others of this boot.
func (p Process) ID() proc.ID { return proc.ID{PID: p.PID, Start: p.Start} }

// Round is one server, or one command of a build: what is running, or about to.
type Round struct {
	// State is "starting" until the first process is known, then "running".
	State string `json:"state"`
	// Log takes the output; of a server it names slot and arm. Dir is the working folder.
	Log string `json:"log"`
	Dir string `json:"dir"`
	// TMPDIR is the folder that only this server was given.
	TMPDIR string `json:"tmpdir"`
	Port   int    `json:"port"`
	// Stop is a command that ends the server, run in Dir; empty for none. Env names the variables it is given; their values
	// stand nowhere.
	Stop string   `json:"stop,omitempty"`
	Env  []string `json:"env,omitempty"`
	// Processes were seen alive, each at least once.
	Processes []Process `json:"processes"`
}

// Recorded is the round's processes in the words of package proc.
func (r *Round) Recorded() []proc.Process {
	var list []proc.Process
	for _, p := range r.Processes {
		list = append(list, proc.Process{ID: p.ID(), PGID: p.PGID, SID: p.SID, Comm: p.Command})
	}
	return list
}

// FormatError says what is wrong with a file.
type FormatError struct {
	File string
	// Line is the line of a syntax error, 0 where only the field is known; Field is a path such as rounds[0].port.
	Line  int
	Field string
	Text  string
}

// Error names file, line, field and what to do.
func (e *FormatError) Error() string {
	where := e.File
	if e.Line > 0 {
		where += fmt.Sprintf(":%d", e.Line)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	return where + ": " + e.Text + "; nothing was done on its word: look after what it names and remove it by hand"
}

// Parse reads a file's bytes; name is for errors. Fields of a newer version are ignored, a newer schema is refused.
func Parse(name string, data []byte) (*File, error) {
	if len(data) > maxBytes {
		return nil, &FormatError{File: name, Text: fmt.Sprintf("%d bytes, at most %d are read", len(data), maxBytes)}
	}
	var f File
	if err := json.Unmarshal(data, &f); err != nil {
		e := &FormatError{File: name, Text: "not a state file: " + err.Error()}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			e.Line = 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte{'\n'})
		}
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			e.Field = kind.Field
		}
		return nil, e
	}
	if f.Schema != Schema {
		return nil, &FormatError{File: name, Field: "schema", Text: fmt.Sprintf("%d, this tailgate reads %d", f.Schema, Schema)}
	}
	if field, text := f.check(); text != "" {
		return nil, &FormatError{File: name, Field: field, Text: text}
	}
	return &f, nil
}

var (
	runID  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	bootID = regexp.MustCompile(`^[0-9a-f-]{36}$`)
	envKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// tempDir is the name of a folder that proc.PrivateDir made, scratchDir of one that a demo made.
	tempDir    = regexp.MustCompile(`^tailgate-[0-9a-f]{16}$`)
	scratchDir = regexp.MustCompile(`^tailgate-demo-[0-9]+$`)
)

// check returns the first field that cannot be what a run wrote, and why.
func (f *File) check() (field, text string) {
	switch {
	case !runID.MatchString(f.Run):
		return "run", "not a run's id"
	case !bootID.MatchString(f.Boot):
		return "boot", "not a boot id"
	case !words(f.Namespace, f.URL):
		return "url", "not a line of text"
	case !absolute(f.Repository):
		return "repository", "not an absolute path"
	case f.Scratch != "" && (!absolute(f.Scratch) || !scratchDir.MatchString(filepath.Base(f.Scratch)) || !below(f.Scratch, f.Repository)):
		return "scratch", "not the folder of a demo's repository"
	case len(f.Worktrees) > maxEntries || len(f.GPUs) > maxEntries || len(f.Rounds) > maxRounds:
		return "rounds", "too many entries"
	case !words(f.GPUs...):
		return "gpus", "not a line of text"
	}
	if text := f.Owner.check(); text != "" {
		return "owner", text
	}
	for i, path := range f.Worktrees {
		if !absolute(path) {
			return fmt.Sprintf("worktrees[%d]", i), "not an absolute path"
		}
	}
	for i := range f.Rounds {
		if field, text := f.Rounds[i].check(); text != "" {
			return fmt.Sprintf("rounds[%d].%s", i, field), text
		}
	}
	return "", ""
}

func (r *Round) check() (field, text string) {
	switch {
	case r.State != starting && r.State != running:
		return "state", "neither starting nor running"
	case !absolute(r.TMPDIR) || !tempDir.MatchString(filepath.Base(r.TMPDIR)):
		return "tmpdir", "not a folder that tailgate makes"
	case r.Log != "" && !absolute(r.Log):
		return "log", "not an absolute path"
	case r.Dir != "" && !absolute(r.Dir):
		return "dir", "not an absolute path"
	case r.Port < 0 || r.Port > 65535:
		return "port", "not a port"
	case len(r.Stop) > maxText || !utf8.ValidString(r.Stop) || strings.ContainsRune(r.Stop, 0):
		return "stop", "not a command"
	case len(r.Env) > maxEntries || len(r.Processes) > maxProcesses:
		return "processes", "too many entries"
	}
	for i, name := range r.Env {
		if !envKey.MatchString(name) || len(name) > maxText {
			return fmt.Sprintf("env[%d]", i), "not a variable's name"
		}
	}
	for i, p := range r.Processes {
		if text := p.check(); text != "" {
			return fmt.Sprintf("processes[%d]", i), text
		}
	}
	return "", ""
}

func (p Process) check() string {
	switch {
	case p.PID <= 1:
		return "a pid that is never ours"
	case p.Start == 0:
		return "no start time"
	case p.PGID < 0 || p.SID < 0:
		return "not a process group"
	case !words(p.Command):
		return "not a line of text"
	}
	return ""
}

// absolute reports whether a path is one that a run writes: absolute, without dots, on one line.
func absolute(path string) bool {
	return words(path) && filepath.IsAbs(path) && filepath.Clean(path) == path && path != "/"
}

// below reports whether path lies in dir.
func below(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// words reports whether texts are short, valid and without control characters.
func words(texts ...string) bool {
	for _, text := range texts {
		if len(text) > maxText || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// Here names this boot of this machine and this pid namespace; what cannot be read is empty.
func Here(t proc.Table) (boot, namespace string) {
	root := t.Root
	if root == "" {
		root = "/proc"
	}
	text, err := os.ReadFile(filepath.Join(root, "sys", "kernel", "random", "boot_id"))
	if err == nil {
		boot = strings.TrimSpace(string(text))
	}
	namespace, err = os.Readlink(filepath.Join(root, "self", "ns", "pid"))
	if err != nil {
		namespace = ""
	}
	return boot, namespace
}
