package proc

import (
	"maps"
	"slices"
	"strings"
)

// Kind is what a child process is for. It decides which variables reach it.
type Kind int

// The kinds of child. A build may reach the network through a proxy; a server and a sensor see no proxy.
const (
	Build Kind = iota
	Server
	Sensor
)

// everyone lists the names that any child may inherit. TMPDIR is not among them: each child gets its own.
func everyone() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ",
		"CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH",
		"ROCM_PATH", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"RUNNER_TRACKING_ID", // without it the runner's reaper of orphans would not know the process as the job's
	}
}

// builders lists the names that builds may inherit on top.
func builders() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
	}
}

// families lists the prefixes of names that any child may inherit.
func families() []string { return []string{"LC_", "NVIDIA_"} }

// Refused reports whether a variable of our own environment may never be passed on, even when a user lists it:
// the runner's own variables (GITHUB_, ACTIONS_, INPUT_), and LD_BIND_NOW, which makes optional driver symbols fatal.
func Refused(name string) bool {
	for _, prefix := range []string{"GITHUB_", "ACTIONS_", "INPUT_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "LD_BIND_NOW"
}

// Environ builds the environment of a child: empty, plus the allow-list, plus pass (names to take from our environment),
// plus extra (names with values, which win). lookup and all are our own environment, os.LookupEnv and os.Environ in the
// command. CI=true and TERM=dumb are always set, so that a terminal and a runner give the same. A name in pass that is
// [Refused] is left out: callers reject it earlier with a message. The result is sorted by name, without duplicates.
func Environ(
	lookup func(string) (string, bool), all []string, kind Kind, extra map[string]string, pass []string,
) []string {
	names := everyone()
	if kind == Build {
		names = append(names, builders()...)
	}
	for _, entry := range all {
		name, _, _ := strings.Cut(entry, "=")
		for _, prefix := range families() {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	names = append(names, pass...)

	env := map[string]string{"CI": "true", "TERM": "dumb"}
	for _, name := range names {
		if value, ok := lookup(name); ok && !Refused(name) {
			env[name] = value
		}
	}
	maps.Copy(env, extra)
	delete(env, "LD_BIND_NOW")

	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// Lookup returns the value of a name in a list of NAME=value entries; the last one wins, as in exec.
func Lookup(env []string, name string) (string, bool) {
	for _, entry := range slices.Backward(env) {
		if key, value, ok := strings.Cut(entry, "="); ok && key == name {
			return value, true
		}
	}
	return "", false
}
