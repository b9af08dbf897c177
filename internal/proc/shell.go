package proc

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
)

// ErrNoShell says that neither bash nor sh was found on the child's PATH.
var ErrNoShell = errors.New("neither bash nor sh is on PATH")

// Shell finds the shell that runs a user's command: bash, or sh where bash is missing. It looks along the PATH of env,
// the child's own, since ours may differ.
func Shell(env []string) (path string, bash bool, err error) {
	dirs, _ := Lookup(env, "PATH")
	if dirs == "" {
		dirs = "/usr/local/bin:/usr/bin:/bin"
	}
	for _, name := range []string{"bash", "sh"} {
		for _, dir := range filepath.SplitList(dirs) {
			if !filepath.IsAbs(dir) {
				continue // a relative entry would mean another program in each worktree
			}
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
				return found, name == "bash", nil
			}
		}
	}
	return "", false, ErrNoShell
}

// Quote makes one shell word of s, whatever it contains.
func Quote(s string) string {
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
