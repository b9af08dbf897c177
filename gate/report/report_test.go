package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var comment = Options{Key: "bench", RunID: "812004411", Attempt: 1, HeadSHA: headCommit}

type surface struct {
	ext    string
	o      Options
	render func(io.Writer, *record.Run, gate.Judgement, Options) error
}

func surfaces() []surface {
	return []surface{
		{"md", comment, Markdown},
		{"txt", Options{Width: 80}, Text},
		{"wide.txt", Options{Width: 160, ASCII: true}, Text},
		{"json", Options{}, JSON},
	}
}

func render(t *testing.T, s surface, c scenario) string {
	t.Helper()
	var b bytes.Buffer
	if err := s.render(&b, c.run, c.j, s.o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// goldenOf says which surfaces of a scenario are kept: all as people read them, two wide, and as JSON
// one without rounds: those are package record's to pin down.
func goldenOf(ext, name string) bool {
	switch ext {
	case "json":
		return name == "invalid-base-build"
	case "wide.txt":
		return name == "fail" || name == "rerun"
	default:
		return true
	}
}

func TestGolden(t *testing.T) {
	for _, c := range scenarios() {
		for _, s := range surfaces() {
			if !goldenOf(s.ext, c.name) {
				continue
			}
			t.Run(c.name+"."+s.ext, func(t *testing.T) {
				got := render(t, s, c)
				if again := render(t, s, c); again != got {
					t.Error("the same run gave other bytes")
				}
				path := filepath.Join("testdata", c.name+"."+s.ext)
				if *update {
					if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestLines(t *testing.T) {
	want := map[string]string{
		"pass":               "✅ PASS — 6 gated metrics within tolerance; largest slowdown TTFT p50 +0.3 % (tolerance 5 %); SLO TTFT p99 <= 800 ms met (625 ms)",
		"fail":               "❌ FAIL — TTFT p50 58.9 → 70.2 ms (+19.1 %, tolerance 5 %), worse in 4 of 4 pairs (+1 more)",
		"inconclusive":       "❔ INCONCLUSIVE — TTFT p95 +7.2 %, between -5.7 and +21.4 % after 4 of at most 8 pairs; tolerance 7.5 % (too noisy)",
		"invalid-base-build": "⛔ INVALID — base does not build (exit 2): make server left no output. Says nothing about the pull request.",
		"fail-head-build":    "❌ FAIL — head does not build (exit 2): make server left no output",
		"fail-errors":        "❌ FAIL — failed requests: base 2 of 20,160, head 412 of 20,160: 301 http_5xx, 1 assertion, 110 timeout (+2 more)",
		"cancelled":          "⛔ INVALID — cancelled after slot 1: the session was cancelled after 1 pair. Says nothing about the pull request.",
		"slo-at-risk":        "✅ PASS — 6 gated metrics within tolerance; largest slowdown TTFT p50 +0.3 % (tolerance 5 %); SLO E2E p99 <= 9 s violated (pre-existing) (9.12 s)",
		"invalid-drift":      "⛔ INVALID — the machine drifted 14.0 % during the session (TTFT p50 of both arms; the limit is 10 %). Says nothing about the pull request.",
	}
	for _, c := range scenarios() {
		if text, ok := want[c.name]; ok {
			if got := Line(c.run, c.j); got != text {
				t.Errorf("%s:\n got %s\nwant %s", c.name, got, text)
			}
		}
	}
}

// TestFirstLineOfText holds what scripts read: line 1 of the terminal's report is the plain line.
func TestFirstLineOfText(t *testing.T) {
	for _, c := range scenarios() {
		text := render(t, surface{"txt", Options{}, Text}, c)
		first, _, _ := strings.Cut(text, "\n")
		if want := Line(c.run, c.j); first != want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, first, want)
		}
		for n, l := range strings.Split(text, "\n")[1:] {
			if columns(l) > minWidth {
				t.Errorf("%s: line %d has %d columns: %s", c.name, n+2, columns(l), l)
			}
		}
	}
}

func TestColourOnlyRepeats(t *testing.T) {
	c := failScenario()
	plain := render(t, surface{"", Options{}, Text}, c)
	colored := render(t, surface{"", Options{Color: true}, Text}, c)
	if colored == plain || regexp.MustCompile("\x1b\\[[0-9]*m").ReplaceAllString(colored, "") != plain {
		t.Error("colour changes the text")
	}
}

func TestASCIIHoldsNothingElse(t *testing.T) {
	for _, c := range scenarios() {
		for i, r := range render(t, surface{"", Options{ASCII: true}, Text}, c) {
			if r >= utf8.RuneSelf {
				t.Errorf("%s: %q at byte %d", c.name, r, i)
			}
		}
	}
}

// TestUnobservedGPUIsNotCalm is the rule that absence of a signal never reads as absence of the event.
func TestUnobservedGPUIsNotCalm(t *testing.T) {
	calm := regexp.MustCompile(`(?i)no throttling|no thermal|no hardware|no foreign process|0 ECC|no ECC|clean`)
	c := noGPUScenario()
	for _, s := range surfaces() {
		text := render(t, s, c)
		if found := calm.FindString(text); found != "" {
			t.Errorf("%s says %q of a GPU that nobody looked at", s.ext, found)
		}
		if s.ext != "json" && !strings.Contains(strings.Join(strings.Fields(text), " "), "GPU: not observed (driver library absent in this container)") {
			t.Errorf("%s does not say that the GPU was not observed", s.ext)
		}
	}
	partly := aRun(4)
	for i := range partly.Rounds {
		g := &partly.Rounds[i].Machine.GPUs[0]
		g.Reasons, g.ReasonsNA, g.ProcsNA = nil, "no_permission", "no_permission"
	}
	text := render(t, surfaces()[0], scenario{"partly", partly, aPass(4)})
	if found := calm.FindString(text); found != "" {
		t.Errorf("says %q although it could not be read", found)
	}
	if !strings.Contains(text, `**Not observed:** throttling (no\_permission), processes (no\_permission), ECC errors (not read)`) {
		t.Error("does not list what was not observed")
	}
}

func TestMarkerIsLastAndOnlyWhenAsked(t *testing.T) {
	c := failScenario()
	text := render(t, surface{"md", comment, Markdown}, c)
	want := "<!-- tailgate key=bench run=812004411 attempt=1 head=" + headCommit + " schema=1 -->\n"
	if !strings.HasSuffix(text, "\n"+want) || strings.Count(text, "<!--") != 1 {
		t.Errorf("marker is not the last line: …%s", text[max(0, len(text)-200):])
	}
	if text := render(t, surface{"md", Options{}, Markdown}, c); strings.Contains(text, "<!--") {
		t.Error("a marker that nobody asked for")
	}
	old := comment
	old.History = []string{"77c2e01:fail:811990020", "evil --> :pass:1"}
	text = render(t, surface{"md", old, Markdown}, c)
	if !strings.HasSuffix(text, " schema=1 hist=77c2e01:fail:811990020,evil:pass:1 -->\n") {
		t.Errorf("history is lost or breaks out: …%s", text[max(0, len(text)-200):])
	}
	evil := Options{Key: "a --> b\n<b>--", RunID: "1--><!--", HeadSHA: "x y"}
	text = render(t, surface{"md", evil, Markdown}, c)
	if !strings.HasSuffix(text, "<!-- tailgate key=abb run=1 attempt=0 head=xy schema=1 -->\n") {
		t.Errorf("the marker can be broken out of: …%s", text[max(0, len(text)-200):])
	}
}

func TestJSONIsTheJudgementAndTheRun(t *testing.T) {
	for _, c := range scenarios() {
		var got struct {
			Verdict gate.Verdict                   `json:"verdict"`
			Line    string                         `json:"line"`
			Tally   map[record.Arm]gate.RoundTally `json:"tally"`
			Rounds  []record.Round                 `json:"rounds"`
			Arms    record.Arms                    `json:"arms"`
			Metrics []struct {
				Key string
				R   record.Value
			} `json:"metrics"`
		}
		if err := json.Unmarshal([]byte(render(t, surface{"json", Options{}, JSON}, c)), &got); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got.Verdict != c.j.Verdict || got.Line != Line(c.run, c.j) || len(got.Metrics) != len(c.j.Metrics) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if diff := cmp.Diff(c.run.Rounds, got.Rounds); diff != "" {
			t.Errorf("%s: rounds (-want +got):\n%s", c.name, diff)
		}
		if diff := cmp.Diff(c.j.Rounds, got.Tally); diff != "" {
			t.Errorf("%s: tally (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestThreePairsSayWhatTheyCouldSee(t *testing.T) {
	text := render(t, surfaces()[0], provisionalScenario())
	lines := strings.Split(text, "\n")
	if want := "- 3 pairs: provisional. Smallest slowdown detectable here: "; !strings.HasPrefix(lines[2], want) {
		t.Errorf("line 3 is %q", lines[2])
	}
}

func TestEmptyJudgementHasNoVerdict(t *testing.T) {
	run := aRun(0)
	run.Status, run.Environment.GPUs = record.StatusCancelled, nil
	if got, want := Line(run, gate.Judgement{}), "NO VERDICT — cancelled before slot 0 was complete: nothing was judged"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, s := range surfaces() {
		if text := render(t, s, scenario{"", run, gate.Judgement{}}); strings.Contains(text, "PASS") {
			t.Errorf("%s passes what was not judged", s.ext)
		}
	}
}

func TestUncommittedHeadIsSaid(t *testing.T) {
	run := aRun(4)
	run.Arms.Head.Commit, run.Arms.Head.Uncommitted = headCommit, true
	for _, s := range surfaces() {
		text := render(t, s, scenario{"", run, aPass(4)})
		if n := strings.Count(text, "uncommitted"); n == 0 {
			t.Errorf("%s does not say that head is uncommitted", s.ext)
		}
	}
	if text := render(t, surfaces()[0], scenario{"", run, aPass(4)}); !strings.Contains(text, "→ head `c55e810` (uncommitted) · workload") {
		t.Errorf("not beside head's commit:\n%s", text)
	}
}

func TestSwitchAndLoadRunsAreNamed(t *testing.T) {
	run := aRun(4)
	run.Kind = record.KindSwitch
	run.Arms.Base.Args, run.Arms.Head.Args = []string{"--no-cache"}, []string{"--cache"}
	text := render(t, surfaces()[0], scenario{"", run, aPass(4)})
	if want := "- one build `c55e810`: base `--no-cache` → head `--cache` · workload"; !strings.Contains(text, want) {
		t.Errorf("no %q", want)
	}
	run.Arms.Base.Env, run.Arms.Head.Env = []string{"MODE", "MODEL"}, []string{"MODE", "MODEL", "TRACE"}
	run.Arms.Base.EnvDiffers, run.Arms.Head.EnvDiffers = []string{"MODE"}, []string{"MODE", "TRACE"}
	run.Arms.Base.Args = nil
	text = render(t, surfaces()[0], scenario{"", run, aPass(4)})
	if want := ": base `env MODE (another value)` → head `--cache env MODE (another value) env TRACE` · workload"; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
	run.Kind, run.Arms = record.KindLoad, record.Arms{Head: &record.ArmInfo{URL: "http://127.0.0.1:8080"}}
	text = render(t, surfaces()[0], scenario{"", run, aPass(4)})
	if want := "- one server `http://127.0.0.1:8080`, openai-chat · workload"; !strings.Contains(text, want) {
		t.Errorf("no %q", want)
	}
}

func TestCachedBuildsAndImagesAreShown(t *testing.T) {
	run := aRun(4)
	run.Arms.Base.Build.Cached, run.Arms.Base.Build.Seconds = true, 0.4
	run.Arms.Head.Build.Image = "sha256:" + strings.Repeat("ab", 32)
	text := render(t, surfaces()[0], scenario{"", run, aPass(4)})
	for _, want := range []string{"build `aa", " (cached, 400 ms)", ", image `sha256:abababababab`"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestOddNumbersNeverShow(t *testing.T) {
	c := inconclusiveScenario()
	c.j.Metrics[0].S, c.j.Metrics[0].R = record.Of(math.NaN()), record.Of(math.Inf(-1))
	c.j.Metrics[0].PairD = []float64{math.Inf(1), math.NaN(), 0.1, -0.1}
	for _, s := range surfaces()[:3] {
		text := render(t, s, c)
		if bad := regexp.MustCompile(`NaN|Inf|%!`).FindString(text); bad != "" {
			t.Errorf("%s shows %s", s.ext, bad)
		}
	}
}
