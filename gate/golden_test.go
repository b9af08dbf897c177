package gate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The shared run folder, judged: a change of any number or word in it is a change that users see.
func TestGolden(t *testing.T) {
	f, err := record.Open("../runner/record/testdata/run")
	if err != nil {
		t.Fatal(err)
	}
	p := defaults()
	p.SLO = map[string]float64{"ttft_p99": 800, "error_rate": 0.001}
	j := judge(t, f.Run(), p)
	got, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	path := filepath.Join("testdata", "judgement.json")
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stored, got) {
		t.Errorf("the judgement changed (-update rewrites it):\n%s", cmp.Diff(string(stored), string(got)))
	}
	var back gate.Judgement
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(j, back); diff != "" {
		t.Errorf("a judgement does not survive being read back:\n%s", diff)
	}
}
