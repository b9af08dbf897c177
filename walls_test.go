package tailgate_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/tailgate-ci/tailgate"

// pkg is what the go command says of one package.
type pkg struct {
	ImportPath string
	Doc        string
	Imports    []string
	GoFiles    []string
	CgoFiles   []string
	Dir        string
}

// packages lists our packages; test files are no part of the answer, so they are exempt from the walls.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Doc,Imports,GoFiles,CgoFiles,Dir", "./...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("go list knows %d packages; the walls would hold by default", len(pkgs))
	}
	return pkgs
}

// wall is what one room may import of ours. The first wall whose room fits a package applies.
type wall struct {
	// room is an import path below the module; a trailing /... takes in what lies below.
	room string
	may  []string
	why  string
}

var walls = []wall{
	{"cmd/tailgate-nvml", nil, "the sensor speaks to us in JSON lines only, so that a driver can kill it and nothing else"},
	{"cmd/...", []string{"gate/...", "baseline/...", "runner/...", "internal/...", "workloads"}, "commands wire the rooms together; nobody imports them"},
	{"internal/actions", []string{"gate", "gate/report", "runner/record"}, "the postman carries results; it must not be able to measure or build"},
	{"gate/report/export", []string{"gate", "runner/record"}, "exports say what the run says, in other tools' words"},
	{"gate/report", []string{"gate", "runner/record"}, "the scribe renders; it decides nothing and measures nothing"},
	{"gate/stat", nil, "the mathematician gets numbers and returns numbers"},
	{"gate", []string{"gate/stat", "runner/record"}, "the judge is pure, so that an old run can be judged again to the same bytes"},
	{"baseline/...", []string{"baseline/...", "runner/record", "internal/proc"}, "the archivist neither measures nor judges"},
	{"runner", []string{"runner/..."}, "the conductor knows no judge: rules reach it as function values"},
	{"runner/record", nil, "a leaf: every room speaks its language"},
	{"runner/pace", []string{"runner/record", "runner/workload"}, "the pacer knows when, not what"},
	{"runner/client", []string{"runner/record", "runner/workload"}, "the instrument knows no arms and no statistics"},
	{"runner/selftest", []string{"runner/client", "runner/pace", "runner/record", "runner/workload"}, "it drives the instrument as a round does, and knows no server"},
	{"runner/canary", []string{"runner/client", "runner/record"}, "a witness of the client: it reads through it, and knows neither rounds nor servers"},
	{"runner/target", []string{"runner/record", "internal/proc"}, "the target needs no dialect: its readiness probe is handed in"},
	{"runner/telemetry", []string{"runner/record", "internal/proc"}, "sensors are observed, never judged, here"},
	{"runner/...", []string{"runner/record"}, "the parts of the runner share the record and nothing else"},
	{"internal/trials", []string{"gate", "gate/stat", "internal/simserver", "runner/record", "runner/workload"}, "the trials run the command from outside and read what it wrote; they measure nothing themselves"},
	{"internal/chaos", []string{"internal/proc", "internal/state", "runner/record", "runner/workload"}, "it interrupts the command from outside and reads what it left; it measures nothing itself"},
	{"internal/state", []string{"internal/proc"}, "the state file names processes; what to do about them is decided by who reads it"},
	{"internal/...", nil, "config, proc and simserver know nothing of ours"},
	{"workloads", nil, "embedded files only"},
	{"e2e", nil, "tests only; test files are exempt"},
	{"scripts/...", []string{"gate", "internal/config", "internal/simserver", "internal/trials", "internal/chaos", "runner/record", "runner/workload"}, "generators write pages from the tables in the code; the benchmark reads runs and the truth; trials and chaos are started from here"},
}

// foreign says which room alone may import a library.
var foreign = []struct{ library, room, why string }{
	{"github.com/NVIDIA/go-nvml", "cmd/tailgate-nvml", "cgo and the driver stay out of the main command"},
	{"github.com/google/go-github", "internal/actions", "only the postman talks to GitHub"},
	{"github.com/sethvargo/go-githubactions", "internal/actions", "only the postman talks to the Actions runner"},
	{"github.com/go-json-experiment/json", "runner/client", "stream events are the one place where encoding/json costs too much"},
	{"github.com/HdrHistogram/hdrhistogram-go", "runner/record", "one place owns the histogram's precision"},
	{"github.com/parquet-go/parquet-go", "gate/report/export", "one place writes the format"},
}

// pure lists what the judge and its mathematician must not import: anything that could make two readings of a run differ.
var pure = map[string][]string{
	"gate":        {"net", "net/http", "os", "os/exec", "time", "math/rand", "math/rand/v2", "crypto/rand", "io/fs"},
	"gate/stat":   {"net", "net/http", "os", "os/exec", "time", "math/rand", "math/rand/v2", "crypto/rand", "io/fs"},
	"gate/report": {"net", "net/http", "os", "os/exec", "math/rand", "math/rand/v2", "crypto/rand"},

	"gate/report/export": {"net", "net/http", "os", "os/exec", "math/rand", "math/rand/v2", "crypto/rand"},
}

func within(path, pattern string) bool {
	if root, below := strings.CutSuffix(pattern, "/..."); below {
		return path == root || strings.HasPrefix(path, root+"/")
	}
	return path == pattern
}

func allowed(path string, patterns []string) bool {
	for _, p := range patterns {
		if within(path, p) {
			return true
		}
	}
	return false
}

// breaches lists what is wrong with one package's imports, each with its reason.
func breaches(p pkg) []string {
	var out []string
	for _, imp := range p.Imports {
		if ours, ok := strings.CutPrefix(imp, module+"/"); ok {
			for _, w := range walls {
				if within(p.ImportPath, w.room) {
					if !allowed(ours, w.may) {
						out = append(out, p.ImportPath+" imports "+ours+": "+w.why)
					}
					break
				}
			}
		}
		for _, f := range foreign {
			if strings.HasPrefix(imp, f.library) && p.ImportPath != f.room {
				out = append(out, p.ImportPath+" imports "+imp+", which only "+f.room+" may: "+f.why)
			}
		}
		for _, bad := range pure[p.ImportPath] {
			if imp == bad {
				out = append(out, p.ImportPath+" imports "+imp+": the same run and policy must give the same bytes")
			}
		}
	}
	return out
}

func TestWalls(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "" && !hasWall(p.ImportPath) {
			t.Errorf("package %s stands in no room: add a wall that says what it may import and why", p.ImportPath)
		}
		for _, b := range breaches(p) {
			t.Error(b)
		}
	}
}

func hasWall(path string) bool {
	for _, w := range walls {
		if within(path, w.room) {
			return true
		}
	}
	return false
}

// The walls must be able to fall: each of these imports is forbidden, and the test says so with a reason.
func TestWallsCanFail(t *testing.T) {
	tests := []struct{ room, imports string }{
		{"gate", module + "/runner"},
		{"gate", "time"},
		{"gate/report/export", module + "/runner"},
		{"cmd/tailgate", "github.com/parquet-go/parquet-go"},
		{"runner", module + "/gate"},
		{"runner/client", module + "/runner/target"},
		{"internal/actions", module + "/runner/workload"},
		{"baseline/build", module + "/gate"},
		{"internal/proc", module + "/runner/record"},
		{"internal/state", module + "/runner/target"},
		{"cmd/tailgate", "github.com/google/go-github/v62/github"},
		{"cmd/tailgate-nvml", module + "/runner/record"},
	}
	for _, tt := range tests {
		got := breaches(pkg{ImportPath: tt.room, Imports: []string{tt.imports}})
		if len(got) != 1 || !strings.Contains(got[0], ": ") {
			t.Errorf("%s importing %s: breaches %q, want one with a reason", tt.room, tt.imports, got)
		}
	}
}
