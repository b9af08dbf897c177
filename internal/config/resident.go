package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// How the servers of a session live: the values of rounds.mode.
const (
	ModeRestart  = "restart"
	ModeResident = "resident"
)

// residentCap is the longest warm-up of a round whose server stays up.
const residentCap = Duration(2 * time.Minute)

// fewestResident is the smallest rounds.min of servers that stay up.
const fewestResident = 4

// Reset says how a server that stays up is made to forget what it cached. It is written as a section, or as the word none.
type Reset struct {
	// None is true for the word none: the cache is deliberately left as it is.
	None   bool
	Method string `yaml:"method" doc:"Method of the call. Unset: POST." enum:"POST|PUT|GET|DELETE"`
	Path   string `yaml:"path" doc:"Path of the call from the server's root, such as /reset_prefix_cache."`
	Expect Expect `yaml:"expect" doc:"The answer that shows that the cache was emptied."`
}

// Present reports whether the file says anything of a reset.
func (r Reset) Present() bool { return r.None || r.Path != "" }

// Expect is an answer that is believed.
type Expect struct {
	Status int               `yaml:"status" doc:"Status code. Unset: 200."`
	JSON   map[string]string `yaml:"json" doc:"Members of the answer's JSON object, such as {success: true}. Without them any answer with that status is believed but an empty 200."`
}

// Resident says where servers that stay up live side by side.
type Resident struct {
	ShareGPU bool    `yaml:"share_gpu" doc:"Both servers live on one GPU, or on one host that has none. The idle one's memory is then part of what is measured, and the report says so."`
	GPUs     GPUSets `yaml:"gpus" doc:"A set of GPUs for each server, of equal model, memory and power limit. The arms swap them at every restart."`
}

// GPUSets are two sets of GPUs.
type GPUSets struct {
	Base []string `yaml:"base" doc:"UUIDs of the GPUs that base's server has to begin with."`
	Head []string `yaml:"head" doc:"UUIDs of the GPUs that head's server has to begin with."`
}

// Present reports whether either set is named.
func (g GPUSets) Present() bool { return len(g.Base)+len(g.Head) > 0 }

// URLs are the addresses of two servers that somebody else runs.
type URLs struct {
	Base string `yaml:"base" doc:"Address of base's server."`
	Head string `yaml:"head" doc:"Address of head's server."`
}

// Present reports whether servers are named that already run.
func (u URLs) Present() bool { return u.Base != "" || u.Head != "" }

// Standing reports whether servers stay up between rounds, tailgate's own or somebody else's.
func (f *File) Standing() bool { return f.Rounds.Mode == ModeResident || f.Target.URL.Present() }

// standingRules hold what belongs to servers that stay up.
func (f *File) standingRules() []rule {
	r := f.Reset
	w := f.Warmup
	shortest := float64(w.Window) * float64(max(w.Windows, w.TrendWindows))
	return slices.Concat([]rule{
		{"reset", f.policy.has("reset") && !r.Present(), "names no path", "write path: /reset_prefix_cache, or reset: none"},
		{"reset.path", r.Path != "" && !strings.HasPrefix(r.Path, "/"), shown(r.Path) + " is not a path", "begin it with /"},
		{
			"reset", r.Present() && !f.Standing(), "each round has a fresh server, which forgets more than a reset",
			"leave reset out, or set rounds.mode: resident or target.url",
		},
		{
			"warmup.window", f.Standing() && shortest > float64(residentCap),
			fmt.Sprintf("%d windows of %s are longer than the %s that a server which stays up may warm up", max(w.Windows, w.TrendWindows), w.Window, residentCap),
			"shorten the windows",
		},
	}, f.expectRules(), f.residentRules(), f.urlRules())
}

func (f *File) expectRules() []rule {
	if !f.Reset.Present() || f.Reset.None {
		return nil
	}
	return []rule{outside("reset.expect.status", f.Reset.Expect.Status, 200, 299)}
}

// residentRules hold the conditions of rounds.mode resident that are known before anything runs.
func (f *File) residentRules() []rule {
	g, on := f.Resident.GPUs, f.Rounds.Mode == ModeResident
	placed := f.Resident.ShareGPU || g.Present()
	return []rule{
		{"resident", placed && !on, "says where servers live that do not stay up", "set rounds.mode: resident, or leave resident out"},
		{
			"rounds.mode", on && !placed, "resident servers live side by side, and nothing says where",
			"write resident: {share_gpu: true} for one GPU or host, or a set of GPUs for each under resident.gpus",
		},
		{"resident.share_gpu", f.Resident.ShareGPU && g.Present(), "true, and resident.gpus names a set for each", "leave one of them out"},
		{
			"resident.gpus", g.Present() && (len(g.Base) != len(g.Head) || len(g.Base) == 0),
			fmt.Sprintf("base has %d, head %d", len(g.Base), len(g.Head)), "name as many for each",
		},
		{
			"resident.gpus", g.Present() && slices.ContainsFunc(g.Base, func(id string) bool { return slices.Contains(g.Head, id) }),
			"one GPU is in both sets", "write resident: {share_gpu: true} if the servers share it",
		},
		{
			"rounds.min", on && f.Rounds.Min < fewestResident, fmt.Sprintf("%d is too few for resident servers", f.Rounds.Min),
			fmt.Sprintf("write %d or more", fewestResident),
		},
		{
			"reset", on && !f.Target.URL.Present() && (!f.Reset.Present() || f.Reset.None), "resident servers keep their caches from round to round",
			"name the call that empties them, as in reset: {method: POST, path: /reset_prefix_cache, expect: {json: {success: true}}}",
		},
		{"target.port", on && f.Target.Port != 0, "two servers that are up at once cannot have one port", "leave it out and use $PORT"},
		f.chosenDevices(g),
	}
}

// chosenDevices refuses two words on which GPUs a server sees.
func (f *File) chosenDevices(g GPUSets) rule {
	name, where := f.SetsGPUs()
	return rule{"resident.gpus", g.Present() && name != "", name + " is set in " + where + " too", "leave it out there: it is set from these"}
}

// urlRules hold what running servers can be asked for.
func (f *File) urlRules() []rule {
	u := f.Target.URL
	if !u.Present() {
		return nil
	}
	rules := []rule{
		address("target.url.base", u.Base), address("target.url.head", u.Head),
		{
			"target.url", sameServer(u.Base, u.Head), "base and head are the same server: nothing to compare",
			"name two, or measure one with tailgate load",
		},
	}
	for _, key := range []string{
		"build", "build_timeout", "outputs", "toolchain", "relocatable", "image_digest", "git", "start", "ready", "env", "pass_env", "cache_env",
		"stop", "stop_command", "pids", "port", "gpus",
	} {
		path := "target." + key
		rules = append(rules, rule{path, f.policy.has(path), "servers that already run are not built, started or stopped", "leave it out beside target.url"})
	}
	return append(
		rules,
		rule{"arms", f.Arms.Present(), "servers that already run take no arguments", "leave it out beside target.url"},
		rule{"rounds.mode", f.policy.has("rounds.mode"), "servers that already run stay up", "leave it out beside target.url"},
		rule{
			"target.url", !f.Reset.Present(), "servers that stay up keep their caches from round to round, and nothing says how they forget",
			"name the call as reset: {path: /reset_prefix_cache, expect: {json: {success: true}}}, or write reset: none",
		},
	)
}

// address is broken when a URL is none that a server can be asked at. The URL itself is not repeated: it may hold a secret.
func address(path, raw string) rule {
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return rule{path, true, "missing", "give the addresses of both servers"}
	case err != nil:
		return rule{path, true, "is not a URL", "write one such as http://127.0.0.1:8000"}
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return rule{path, true, "is no http or https URL with a host", "write one such as http://127.0.0.1:8000"}
	case u.User != nil:
		return rule{path, true, "holds credentials, which do not belong into a file", "leave out what stands before the @"}
	default:
		return rule{path: path}
	}
}

// sameServer compares addresses but for their query, in which no server is named.
func sameServer(a, b string) bool {
	return a != "" && b != "" && normal(a) == normal(b)
}

func normal(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"https": "443"}[strings.ToLower(u.Scheme)]
	}
	if port == "" {
		port = "80"
	}
	return host + ":" + port + strings.TrimSuffix(u.EscapedPath(), "/")
}
