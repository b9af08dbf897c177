package actions

import (
	"fmt"
	"strings"
	"testing"
)

const testMarker = "<!-- tailgate key=a run=1 attempt=1 head=c55e8100a1b2c3d4e5f60718293a4b5c6d7e8f90 schema=1 -->"

// bigReport has a fold in a fold, and fences that hold what looks like markup.
func bigReport() string {
	fold := func(title string, rows int) string {
		return "<details><summary>" + title + "</summary>\n\n" + strings.Repeat("| row |\n", rows) + "\n</details>\n\n"
	}
	return "**❌ FAIL** — slower\n\n- base\n- head\n\n| metric |\n|---|\n| TTFT |\n\n" +
		"log:\n\n````text\n<details>\n\n</details>\n```\n\n" + testMarker + "\n````\n\n" +
		fold("Context", 20) + "<details><summary>Rounds</summary>\n\nrows\n\n" + fold("inner", 5) + "</details>\n\n" + fold("Noise", 50) +
		"tailgate 1.2.0 · run\n" + testMarker + "\n"
}

func TestFitLeavesAReportThatFits(t *testing.T) {
	text := bigReport()
	if got := fit(text, units(text), units); got != text {
		t.Errorf("changed a report that fits:\n%s", got)
	}
}

func TestFitLeavesOutFoldsFromTheLast(t *testing.T) {
	text := bigReport()
	got := fit(text, units(text)-1, units)
	if strings.Contains(got, "<summary>Noise") || !strings.Contains(got, "<summary>Rounds") || !strings.Contains(got, "Left out to fit: Noise. ") {
		t.Errorf("the first step:\n%s", got)
	}
	got = fit(text, 500, units)
	if !strings.Contains(got, "Left out to fit: Context, Rounds, Noise. ") || !strings.Contains(got, "````text\n<details>\n\n</details>\n```") {
		t.Errorf("all folds:\n%s", got)
	}
}

// Whatever the budget: line 1 first, the marker last, folds and fences balanced, within the budget where that is possible, and a
// smaller budget never shows more.
func TestFitProperties(t *testing.T) {
	text := bigReport()
	shown := 1 << 30
	for budget := units(text) + 10; budget >= 0; budget -= 7 {
		got := fit(text, budget, units)
		lines := strings.Split(strings.TrimRight(got, "\n"), "\n")
		chunks, mark := split(got)
		switch {
		case lines[0] != "**❌ FAIL** — slower" || lines[len(lines)-1] != testMarker || mark != testMarker:
			t.Fatalf("budget %d: first or last line is gone:\n%s", budget, got)
		case strings.Count(got, "<details>") != strings.Count(got, "</details>") || strings.Count(got, "````")%2 != 0:
			t.Fatalf("budget %d: unbalanced:\n%s", budget, got)
		case units(got) > budget && budget > 320:
			t.Fatalf("budget %d: %d units", budget, units(got))
		case len(chunks) > shown:
			t.Fatalf("budget %d shows %d blocks, a larger one %d", budget, len(chunks), shown)
		}
		if strings.Contains(got, "Left out") {
			shown = len(chunks)
		}
	}
}

func TestReadMarker(t *testing.T) {
	valid := "<!-- tailgate key=gate-bench run=812004411 attempt=2 head=" + headCommit + " schema=1 hist=77c2e01:fail:811990020,bad,77c2e01:splendid:1,0000000:pass:5.3 -->"
	m, ok := readMarker("report\r\n" + valid + "\r\n\r\n")
	if !ok || m.key != "gate-bench" || m.run != 812004411 || m.attempt != 2 || m.head != headCommit || fmt.Sprint(m.past) != "[{77c2e01 fail 811990020} {0000000 pass 5.3}]" {
		t.Errorf("read %+v, %t", m, ok)
	}
	for _, body := range []string{
		"", "report", valid + "\nmore", "> " + valid, "x " + valid, strings.Replace(valid, "schema=1", "schema=2", 1),
		strings.Replace(valid, "key=gate-bench", "key=Gate", 1), strings.Replace(valid, "head="+headCommit, "head=abc", 1),
		strings.Replace(valid, "run=812004411", "run=99999999999999999999999", 1), "`" + valid + "`", strings.Replace(valid, "hist=", "hist=\n", 1),
	} {
		if m, ok := readMarker(body); ok {
			t.Errorf("%q is no comment of ours, read as %+v", body, m)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var list []past
	for run := 1; run <= 30; run++ {
		list = history(list, marker{run: uint64(run), attempt: 1, head: headCommit}.result("pass"))
	}
	if len(list) != pastLimit || list[0].run != "30" || list[pastLimit-1].run != "21" {
		t.Errorf("history %v", list)
	}
	if again := history(list, list[0]); len(again) != pastLimit || again[1].run != "29" {
		t.Errorf("publishing twice: %v", again)
	}
	for i := range list {
		list[i].run = strings.Repeat("9", 19) + ".999"
		list[i].verdict = "inconclusive"
	}
	m, ok := readMarker(strings.TrimSuffix(testMarker, " -->") + " hist=" + strings.Join(written(list), ",") + " -->")
	if !ok || len(m.past) != pastLimit {
		t.Errorf("the longest history is not read back: %t, %d entries", ok, len(m.past))
	}
}
