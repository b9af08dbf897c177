package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/workload"
)

var update = flag.Bool("update", false, "write the example's workloads anew")

// words to draw prompts from: common, short, one token each in most vocabularies.
var words = strings.Fields(`time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour game
line end member law car city community name president team minute idea body back parent face level office door health person
art war history party result change morning reason research girl guy moment air teacher force education`)

func sentence(r *rand.Rand, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = words[r.IntN(len(words))]
	}
	return strings.Join(out, " ")
}

// exampleWorkload is one request a second for 40 seconds: a system message of 45 words, shared by all or each its own, and a
// user message of 8 words. The shared or unshared text is the system message, because the chat template in front of it is
// shared in any case.
func exampleWorkload(t *testing.T, name string, shared bool) *workload.Workload {
	t.Helper()
	const turns, seed = 40, 7
	r := rand.New(rand.NewPCG(seed, seed))
	system := sentence(r, 45)
	list := make([]workload.Turn, turns)
	for i := range list {
		if !shared {
			system = sentence(r, 45)
		}
		id := fmt.Sprintf("%s-%02d", name, i)
		list[i] = workload.Turn{
			ID: id, Conv: id, N: 1, At: time.Duration(i) * time.Second, InTokens: 53,
			Messages: []workload.TurnMessage{
				{Role: "system", Content: workload.Text{Inline: system}},
				{Role: "user", Content: workload.Text{Inline: sentence(r, 8)}},
			},
			Out: workload.Output{Mode: workload.Force, Tokens: 8},
		}
	}
	w, err := workload.New(workload.Manifest{
		Name: name, Version: 1, Seed: "7", Dialect: "openai-chat",
		Source:      workload.Source{Importer: "synthetic", Licence: "Apache-2.0"},
		Arrivals:    workload.Arrivals{Kind: "generated", SpanNS: int64(turns * time.Second)},
		Output:      workload.OutputPolicy{Mode: workload.Force},
		Description: "One request a second; 45 system words (" + map[bool]string{true: "the same in all", false: "its own in each"}[shared] + "), 8 user words, 8 output tokens.",
	}, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The workloads that ship with the example are the ones this file makes.
func TestExampleWorkloads(t *testing.T) {
	for name, shared := range map[string]bool{"shared-prefix": true, "no-shared-prefix": false} {
		dir := filepath.Join(root(t), "examples", "llama.cpp", "workloads", name)
		w := exampleWorkload(t, name, shared)
		if *update {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := workload.Write(dir, w); err != nil {
				t.Fatal(err)
			}
		}
		stored, err := workload.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if stored.Digest() != w.Digest() {
			t.Errorf("%s has digest %s, this file makes %s: run with -update", name, stored.Digest(), w.Digest())
		}
		if _, err := stored.Plan(12*time.Second, time.Second); err != nil {
			t.Error(err)
		}
	}
}
