package workload

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite golden files and the workloads that ship")

const shippedDir = "../../workloads"

// The workloads that ship, as they are built. Change one only together with its version.
var shipped = []struct {
	name, kind, trace string
	o                 Options
}{
	{
		name: "azure-conv-mini", kind: "azure-csv", trace: "azure-conv.csv.gz",
		o: Options{
			Version: 1, Seed: 7, MaxInput: 800, MaxOutput: 12, Poisson: "410",
			Description: "The demo's workload: prompt lengths of the Azure conversation trace up to 800 tokens, in their order, at " +
				"410 requests a second with answers of at most 12 tokens.",
			Licence:        "CC-BY-4.0",
			Attribution:    "Azure LLM inference trace 2023, conversation (Patel et al., Splitwise, ISCA 2024)",
			AcceptFidelity: []string{"all"},
		},
	},
	{
		name: "mooncake-conv-mini", kind: "mooncake", trace: "mooncake-conversation-1800s.jsonl.gz",
		o: Options{
			Version: 1, Seed: 1, Length: 10 * time.Minute, MaxInput: 4096, Dequantise: "uniform", Sample: "0.5",
			Description: "Ten minutes of the Mooncake conversation trace: half of its conversations, prompts up to 4,096 tokens, " +
				"shared prefixes kept, arrivals spread inside the source's 3 s ticks.",
			Licence:        "Apache-2.0",
			Attribution:    "Mooncake conversation trace (Qin et al., Mooncake, FAST 2025)",
			AcceptFidelity: []string{"all"},
		},
	},
}

// buildShipped builds one of the workloads that ship from its trace.
func buildShipped(t *testing.T, i int) *Workload {
	t.Helper()
	s := shipped[i]
	s.o.Name = s.name
	w, err := ImportFile(s.kind, tracePath(s.trace), s.o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What lies in workloads/ is what the recipe makes of the trace: nobody edited it, and nothing in the importer moved.
func TestShippedWorkloads(t *testing.T) {
	for i, s := range shipped {
		t.Run(s.name, func(t *testing.T) {
			w := buildShipped(t, i)
			dir := filepath.Join(shippedDir, s.name)
			if *update {
				rewrite(t, dir, w)
			}
			stored, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range Diff(stored, w) {
				t.Errorf("stored -> built: %s", line)
			}
			if _, err := fs.Stat(os.DirFS(dir), "NOTICE.md"); err != nil {
				t.Error("a shipped workload names its licence in NOTICE.md")
			}
		})
	}
}

func rewrite(t *testing.T, dir string, w *Workload) {
	t.Helper()
	for _, name := range []string{manifestFile, turnsFile + ".gz"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(dir, w); err != nil {
		t.Fatal(err)
	}
}
