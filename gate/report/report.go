package report

import (
	"io"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Options say where a report goes. The zero value is a report without links and without marker, 80 columns wide.
type Options struct {
	// Key, when set, ends a Markdown report with a marker by which a comment is found again. RunID, Attempt and HeadSHA
	// stand in it; without a Key they are not used.
	Key     string
	RunID   string
	Attempt int
	HeadSHA string
	// History stands in the marker too: earlier results and this one, newest first, each "sha7:verdict:run". It is what a
	// comment hands on to the one after it.
	History []string
	// RunFolder is the path of the run's folder, as the reader can find it; empty leaves it out.
	RunFolder string
	// RunURL is the address of the job, of our own making; empty leaves the link out.
	RunURL string
	// Attempts lists the verdicts of earlier measurements of the same commits, oldest first.
	Attempts []gate.Verdict

	// Width is the number of columns of a terminal, for [Text] only; below 80 it is 80.
	Width int
	// Color repeats the verdict in colour. ASCII avoids every character beyond ASCII.
	Color, ASCII bool
}

// scribe holds what one report is made of.
type scribe struct {
	run  *record.Run
	j    gate.Judgement
	o    Options
	void map[int]record.Void
}

func newScribe(run *record.Run, j gate.Judgement, o Options) *scribe {
	s := &scribe{run: run, j: j, o: o, void: map[int]record.Void{}}
	for _, v := range j.Validity {
		s.void[v.Slot] = v
	}
	return s
}

// blocks is the report, in the order of its reader: the answer, what it is about, what to do, the evidence, the doubts.
func (s *scribe) blocks() []block {
	if s.run.Kind == record.KindLoad {
		return s.loadBlocks()
	}
	var all []block
	all = append(all, block{kind: verdictLine, line: s.rest()})
	all = append(all, s.provisional()...)
	all = append(all, s.against())
	all = append(all, s.next()...)
	all = append(all, s.decision()...)
	all = append(all, s.failures()...)
	all = append(all, s.waited()...)
	all = append(all, s.logs()...)
	all = append(all, s.validity()...)
	all = append(all, s.warnings()...)
	all = append(all, s.resolution()...)
	all = append(all, s.fidelity()...)
	all = append(all, s.context())
	all = append(all, s.rounds()...)
	all = append(all, s.stops()...)
	all = append(all, s.noise()...)
	all = append(all, s.others()...)
	all = append(all, s.links())
	return append(all, s.marker()...)
}

// Line is line 1 of the report as plain text, at most 200 characters.
func Line(run *record.Run, j gate.Judgement) string {
	s := newScribe(run, j, Options{})
	return s.word() + " — " + s.rest().plain()
}

// Markdown writes the report for a pull request comment or a job summary, in GitHub's dialect. The error is w's.
func Markdown(w io.Writer, run *record.Run, j gate.Judgement, o Options) error {
	s := newScribe(run, j, o)
	_, err := io.WriteString(w, toMarkdown(s.word(), s.blocks()))
	return err
}

// Text writes the report for a terminal. The error is w's.
func Text(w io.Writer, run *record.Run, j gate.Judgement, o Options) error {
	s := newScribe(run, j, o)
	_, err := io.WriteString(w, toText(s.word(), s.blocks(), j.Verdict, o))
	return err
}
