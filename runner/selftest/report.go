package selftest

import (
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// ReportVersion is the v of a report.
const ReportVersion = 1

// Report is the self-test of one machine. Where several rows have a figure, the report's own is: for errors and gaps that
// of the first row of paced streams; for pacer lag and arrivals that of the first open loop of small answers, if there is
// one; for events and requests per second the highest, per second of CPU time the highest of rows whose streams are paced,
// if there are any; for memory that of the row with the most streams; for the CPU time of others the highest. Counts are
// sums.
type Report struct {
	V int `json:"v"`
	Result
	// CPU is the processor's name, Governor its frequency governor; empty when the system does not say.
	CPU      string `json:"cpu,omitempty"`
	Governor string `json:"governor,omitempty"`
	// StartUp is how long the command takes to start and end, ms; Binary how large it is, MB.
	StartUp Figure `json:"start_up_ms"`
	Binary  Figure `json:"binary_mb"`
	// ServerAlone is what the truth server gives to a reader that looks at nothing.
	ServerAlone Alone    `json:"server_alone"`
	Rows        []RowSum `json:"rows"`
	Checks      []Check  `json:"targets"`
}

// RowSum is a row that has run.
type RowSum struct {
	Key    string  `json:"key"`
	Text   string  `json:"text"`
	Result *Result `json:"result"`

	options Options
	// Reason says why a row without a result did not run.
	Reason string `json:"reason,omitempty"`
}

// Check is one target beside what was measured.
type Check struct {
	Row     string  `json:"row"`
	Text    string  `json:"text"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit,omitempty"`
	Value   Figure  `json:"value"`
	Reason  string  `json:"reason,omitempty"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least,omitempty"`
	// Cores is from how many cores on the target must be reached; Asked whether this machine has them.
	Cores int  `json:"cores"`
	Asked bool `json:"asked"`
	// Met is null when the figure is missing.
	Met *bool `json:"met"`
}

// NewReport starts a report of this machine.
func NewReport() *Report {
	r := &Report{V: ReportVersion, StartUp: na(noRow), Binary: na(noRow), ServerAlone: Alone{na(noRow), na(noRow), na(noRow)}}
	r.summarise()
	return r
}

const noRow = "no row for it was run"

// Add takes in a row that has run.
func (r *Report) Add(row Row, got Result) {
	r.Rows = append(r.Rows, RowSum{Key: row.Key, Text: row.Text, Result: &got, options: row.Options})
	for _, t := range row.Targets {
		r.check(row, t, t.Figure(got))
	}
	r.summarise()
}

// Finish adds the checks that are of all rows together. It is called once, after the last row.
func (r *Report) Finish() {
	row := Row{Key: "all", Text: "all of these"}
	r.check(row, Target{Name: "requests that failed", Cores: small}, of(float64(r.Measured-r.OK)))
	unseen := na("the server does not tell what it saw")
	if r.SeenByServer >= 0 {
		unseen = of(math.Abs(float64(r.Sent - r.SeenByServer)))
	}
	r.check(row, Target{Name: "requests lost, or seen twice", Cores: small}, unseen)
}

// Skip notes a row that could not be run, and why.
func (r *Report) Skip(row Row, reason string) {
	r.Rows = append(r.Rows, RowSum{Key: row.Key, Text: row.Text, Reason: reason})
	for _, t := range row.Targets {
		r.check(row, t, na(reason))
	}
}

// AddCommand takes in how long the command takes to start and to end, ms, and its size, MB.
func (r *Report) AddCommand(startUp, binary record.Value) {
	r.StartUp, r.Binary = Figure{startUp}, Figure{binary}
	row := Row{Key: "command", Text: "the command itself"}
	r.check(row, Target{Name: "start-up", Unit: "ms", Limit: 50, Cores: small}, r.StartUp)
	r.check(row, Target{Name: "binary", Unit: "MB", Limit: 20, Cores: small}, r.Binary)
}

func (r *Report) check(row Row, t Target, f Figure) {
	c := Check{
		Row: row.Key, Text: row.Text, Name: t.Name, Unit: t.Unit, Value: f, Reason: f.Reason(), Limit: t.Limit, AtLeast: t.AtLeast,
		Cores: t.Cores, Asked: r.Cores >= t.Cores,
	}
	if met, known := t.Met(f); known {
		c.Met = &met
	}
	r.Checks = append(r.Checks, c)
}

// Missed lists the targets this machine was asked for and did not reach, and those it was asked for that have no figure.
func (r *Report) Missed() (missed, unknown []Check) {
	for _, c := range r.Checks {
		switch {
		case !c.Asked:
		case c.Met == nil:
			unknown = append(unknown, c)
		case !*c.Met:
			missed = append(missed, c)
		}
	}
	return missed, unknown
}

// summarise takes the report's own figures from its rows.
func (r *Report) summarise() {
	r.Result = blank()
	paced := r.only(func(o Options) bool { return o.Streams > 0 && o.rate() > 0 })
	small := r.only(func(o Options) bool { return o.RPS > 0 })
	all := r.only(func(Options) bool { return true })
	if len(paced) > 0 {
		x := paced[0].Result
		r.TTFTError, r.GapError, r.Gaps, r.TruthGaps = x.TTFTError, x.GapError, x.Gaps, x.TruthGaps
	}
	if open := slices.Concat(small, paced); len(open) > 0 {
		r.PacerLag, r.Arrivals = open[0].Result.PacerLag, open[0].Result.Arrivals
	}
	if len(all) > 0 {
		x := all[0].Result
		r.ClientCPU, r.ServerCPU, r.Seconds, r.EventsPerRead = x.ClientCPU, x.ServerCPU, x.Seconds, x.EventsPerRead
	}
	r.OtherCPU = highest(all, func(x *Result) Figure { return x.OtherCPU })
	r.EventsPerS = highest(all, func(x *Result) Figure { return x.EventsPerS })
	r.RequestsPerS = highest(all, func(x *Result) Figure { return x.RequestsPerS })
	r.RequestsPerCPUS = highest(all, func(x *Result) Figure { return x.RequestsPerCPUS })
	of := paced
	if len(of) == 0 {
		of = all
	}
	r.EventsPerCPUS = highest(of, func(x *Result) Figure { return x.EventsPerCPUS })
	slices.SortStableFunc(all, func(a, b RowSum) int { return a.options.Streams - b.options.Streams })
	for _, row := range all {
		r.RSSPerStream = row.Result.RSSPerStream
		r.add(row.Result)
	}
	r.fillMissing()
}

// add sums up counts.
func (r *Report) add(x *Result) {
	r.Sent, r.Measured, r.OK = r.Sent+x.Sent, r.Measured+x.Measured, r.OK+x.OK
	if x.SeenByServer < 0 || r.SeenByServer < 0 {
		r.SeenByServer = -1
	} else {
		r.SeenByServer += x.SeenByServer
	}
	for class, n := range x.Failed {
		if r.Failed == nil {
			r.Failed, r.FirstFailure = map[record.Outcome]int{}, x.FirstFailure
		}
		r.Failed[class] += n
	}
}

// only lists the rows that ran and are of a kind.
func (r *Report) only(kind func(Options) bool) []RowSum {
	var out []RowSum
	for _, row := range r.Rows {
		if row.Result != nil && kind(row.options) {
			out = append(out, row)
		}
	}
	return out
}

func highest(rows []RowSum, of func(*Result) Figure) Figure {
	best := na(noRow)
	for _, row := range rows {
		f := of(row.Result)
		x, has := f.Finite()
		if y, hasBest := best.Finite(); !hasBest && (has || best.Reason() == noRow) || has && x > y {
			best = f
		}
	}
	return best
}

// blank is a result in which nothing was measured.
func blank() Result {
	f := na(noRow)
	gaps := Gaps{f, f, f, f}
	return Result{
		TTFTError: allNA(noRow), GapError: allNA(noRow), PacerLag: Lag{f, f, f}, Gaps: gaps, TruthGaps: gaps, Arrivals: Arrivals{f, f, f},
		EventsPerS: f, EventsPerCPUS: f, EventsPerRead: f, RequestsPerS: f, RequestsPerCPUS: f, RSSPerStream: f, ClientCPU: f,
		ServerCPU: f, OtherCPU: f, Seconds: f, Cores: cores(),
	}
}
