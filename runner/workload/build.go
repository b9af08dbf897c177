package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// The reasons for which a row is left out.
const (
	excludedBad     = "bad_row"
	excludedWindow  = "window"
	excludedSample  = "not_sampled"
	excludedInput   = "max_input"
	excludedTurns   = "max_turns"
	sampleByRequest = "requests"
)

// build turns rows into a workload, step by step, and keeps what the fidelity block needs.
type build struct {
	importer Importer
	o        Options
	file     SourceFile
	seed     string
	moved    int

	// source are all rows in order of time; rows those still kept, offsets counted from the workload's start.
	source []row
	rows   []row
	span   time.Duration
	ticks  ticks

	excluded map[string]int
	// overlong names the first prompts over the limit; lost is their tokens. clipped counts shortened answers.
	overlong []string
	lost     int64
	clipped  int
}

func newBuild(importer Importer, o Options, s *sink, file SourceFile) *build {
	b := &build{
		importer: importer, o: o, file: file, seed: strconv.FormatUint(o.Seed, 10), source: s.rows,
		rows: slices.Clone(s.rows), excluded: map[string]int{},
	}
	if s.bad > 0 {
		b.excluded[excludedBad] = s.bad
	}
	b.ticks = arrivalsOf(s.rows).ticks()
	return b
}

// workload applies the options in their fixed order: choose rows first, then change lengths, then times.
func (b *build) workload() (*Workload, error) {
	b.window()
	b.sample()
	b.limitInput()
	b.limitTurns()
	b.limitOutput()
	if len(b.rows) == 0 {
		return nil, fmt.Errorf("no row of %s is left: %v", b.file.Name, b.excluded)
	}
	b.dequantise()
	b.retime()
	w, err := New(b.manifest(), b.turns(), nil)
	if err != nil {
		return nil, err
	}
	return b.judge(w)
}

// keep drops the rows for which drop says so, and with a turn the rest of its conversation: what follows a turn that was
// never asked makes no sense.
func (b *build) keep(reason string, drop func(i int, r *row) bool) {
	cut := map[string]bool{}
	kept := b.rows[:0]
	for i := range b.rows {
		r := b.rows[i]
		if (r.conv != "" && cut[r.conv]) || drop(i, &r) {
			if r.conv != "" {
				cut[r.conv] = true
			}
			b.excluded[reason]++
			continue
		}
		kept = append(kept, r)
	}
	b.rows = kept
}

func (b *build) window() {
	from, to := b.o.From, b.o.From+b.o.Length
	last := b.source[len(b.source)-1].at
	if b.o.Length == 0 {
		to = last + max(b.tick(), 1)
	}
	b.keep(excludedWindow, func(_ int, r *row) bool { return r.at < from || r.at >= to })
	for i := range b.rows {
		b.rows[i].at -= from
	}
	b.span = min(to, last+max(b.tick(), 1)) - from
}

// tick is the length over which an arrival may be spread.
func (b *build) tick() time.Duration {
	if b.o.Dequantise != "" && b.ticks.quantised() {
		return b.ticks.quantum
	}
	return 0
}

func (b *build) sample() {
	if b.o.Sample == "" {
		return
	}
	share, _ := parseDecimal(b.o.Sample)
	b.keep(excludedSample, func(_ int, r *row) bool {
		key := r.groupKey()
		if b.o.SampleBy == sampleByRequest {
			key = r.id()
		}
		return !inShare(position(b.seed, "sample", key), share)
	})
}

func (b *build) limitInput() {
	if b.o.MaxInput == 0 {
		return
	}
	b.keep(excludedInput, func(_ int, r *row) bool {
		if r.in <= b.o.MaxInput {
			return false
		}
		b.lost += int64(r.in)
		if len(b.overlong) < 3 {
			b.overlong = append(b.overlong, strconv.Itoa(r.line))
		}
		return true
	})
}

func (b *build) limitTurns() {
	if b.o.MaxTurns == 0 || len(b.rows) <= b.o.MaxTurns {
		return
	}
	// Arrivals go on to the first row left out, and the workload with them.
	b.span = max(b.rows[b.o.MaxTurns].at, b.rows[b.o.MaxTurns-1].at+1)
	b.keep(excludedTurns, func(i int, _ *row) bool { return i >= b.o.MaxTurns })
}

func (b *build) limitOutput() {
	for i := range b.rows {
		if r := &b.rows[i]; b.o.MaxOutput > 0 && r.out > b.o.MaxOutput {
			r.out = b.o.MaxOutput
			b.clipped++
		}
	}
}

// dequantise spreads arrivals evenly inside the source's tick, each by a draw of its own.
func (b *build) dequantise() {
	q := b.tick()
	if q == 0 {
		return
	}
	for i := range b.rows {
		r := &b.rows[i]
		r.at += time.Duration(newRandom(derive(b.seed, "dequantise", r.id())).below(uint64(q)))
	}
	slices.SortStableFunc(b.rows, func(x, y row) int { return cmp.Compare(x.at, y.at) })
	b.span = max(b.span, b.rows[len(b.rows)-1].at+1)
}

// retime stretches or replaces arrivals. Delays inside conversations stay.
func (b *build) retime() {
	switch {
	case b.o.Stretch != "":
		factor, _ := parseDecimal(b.o.Stretch)
		for i := range b.rows {
			b.rows[i].at = divide(b.rows[i].at, factor)
		}
		b.span = divide(b.span, factor) + 1
	case b.o.Poisson != "":
		b.span = poissonArrivals(b.rows, b.seed, b.o.Poisson)
	}
}

// poissonArrivals gives rows the offsets of a Poisson process, in their order, to the microsecond.
func poissonArrivals(rows []row, seed, perSecond string) time.Duration {
	millionths, _ := parseDecimal(perSecond)
	mean := 1e6 / (float64(millionths) / 1e6) // µs
	draw := newRandom(derive(seed, "poisson"))
	t := 0.0
	for i := range rows {
		t += draw.exponential() * mean
		rows[i].at = time.Duration(t) * time.Microsecond
	}
	return rows[len(rows)-1].at + 1
}

func (r *row) id() string { return fmt.Sprintf("r%07d", r.n) }

// conversation is the row's conversation; a single request is one by itself.
func (r *row) conversation() string { return cmp.Or(r.conv, r.id()) }

func (r *row) groupKey() string { return cmp.Or(r.group, r.conversation()) }

// turns makes one turn of each kept row.
func (b *build) turns() []Turn {
	turns := make([]Turn, 0, len(b.rows))
	previous := map[string]*row{}
	number := map[string]int{}
	for i := range b.rows {
		r := &b.rows[i]
		conv := r.conversation()
		number[conv]++
		t := Turn{
			ID: r.id(), Conv: conv, N: number[conv], At: r.at, InTokens: r.in, Out: Output{Tokens: r.out},
		}
		if r.group != "" && r.group != conv {
			t.Group = r.group
		}
		if p := previous[conv]; p != nil {
			t.After, t.Delay = []string{p.id()}, r.delay
			if !r.timed {
				t.At = 0
			}
		}
		previous[conv] = r
		switch {
		case r.text != "":
			t.Prompt = &Text{Inline: r.text}
		case len(r.messages) > 0:
			t.Messages = r.messages
		default:
			t.HashIDs = r.ids
		}
		turns = append(turns, t)
	}
	return turns
}

func (b *build) manifest() Manifest {
	m := Manifest{
		Name: b.o.Name, Version: b.o.Version, Seed: b.seed, BlockSize: b.importer.blockSize, HashScope: b.importer.scope,
		Dialect: b.o.Dialect, Description: b.o.Description, Created: b.o.Created, Output: OutputPolicy{Mode: b.o.Output},
		Source: Source{
			Importer: b.importer.Name, ImporterVersion: b.importer.Version, Files: []SourceFile{b.file},
			Licence: b.o.Licence, Attribution: b.o.Attribution, Options: b.o.record(),
		},
		Arrivals: Arrivals{Kind: "trace", SpanNS: int64(b.span)},
		Counts:   Counts{Excluded: b.excluded},
	}
	if b.ticks.quantised() {
		m.Arrivals.QuantumNS = int64(b.ticks.quantum)
	}
	if b.tick() > 0 {
		m.Arrivals.Dequantised = b.o.Dequantise
	}
	switch {
	case b.o.Stretch != "":
		m.Arrivals.Scale, m.Arrivals.Method = b.o.Stretch, "stretch"
	case b.o.Poisson != "":
		m.Arrivals.Kind, m.Arrivals.Method = "generated", "poisson "+b.o.Poisson+"/s"
	case b.o.Sample != "":
		m.Arrivals.Scale, m.Arrivals.Method = b.o.Sample, "thin"
	}
	return m
}

func arrivalsOf(rows []row) arrivals {
	out := make([]time.Duration, len(rows))
	for i := range rows {
		out[i] = rows[i].at
	}
	return sortedArrivals(out)
}
