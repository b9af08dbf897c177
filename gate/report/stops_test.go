package report

import (
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// P-01 and P-03: what a stop needed is said in words, with both waits, and a stop of its own accord takes no row.
func TestStopsAreTold(t *testing.T) {
	run := &record.Run{Rounds: []record.Round{
		{Slot: 0, Arm: record.Base, Stop: record.StopReport{Seconds: 1.8, MemoryWait: record.Of(0)}},
		{Slot: 1, Arm: record.Head, Stop: record.StopReport{
			Seconds: 20.1, Forced: 2, Escaped: []string{"worker \x1b--gpu|0"}, PortWait: 5, MemoryWait: record.Of(12),
		}},
		{Slot: 2, Arm: record.Head, Stop: record.StopReport{Seconds: 11, Slow: true, MemoryWait: record.NA("no GPU is watched")}},
	}}
	blocks := newScribe(run, gate.Judgement{}, Options{}).stops()
	if len(blocks) != 1 || blocks[0].title != "Stops" {
		t.Fatalf("blocks = %+v", blocks)
	}
	var rows []string
	for _, row := range blocks[0].inner[0].table.rows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.plain())
		}
		rows = append(rows, strings.Join(cells, " ; "))
	}
	want := []string{
		"1 ; head ; 20.1 s ; 2 children needed force ; 5.00 s ; 12.0 s ; worker --gpu|0",
		"2 ; head ; 11.0 s ; none, but slow ; 0 ms ; n/a (no GPU is watched) ; nobody",
	}
	if strings.Join(rows, "\n") != strings.Join(want, "\n") {
		t.Errorf("\n got %q\nwant %q", rows, want)
	}
	run.Rounds = run.Rounds[:1]
	if got := newScribe(run, gate.Judgement{}, Options{}).stops(); got != nil {
		t.Errorf("a stop without event: %+v", got)
	}
}
