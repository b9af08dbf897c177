package runner

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

const (
	// slowAnswer and slowToken are how long an answer may plausibly take when the requests in flight are planned: a service
	// that is asked for more than it can give queues, so these are far above what a healthy one needs.
	slowAnswer, slowToken = 10 * time.Second, 50 * time.Millisecond
	// unknownTokens stands in for the length of an answer that has no plan.
	unknownTokens = 1000
)

// Stretch is the part of the workload that a round may send: the measured interval of an open loop, all of it in a closed
// one.
func Stretch(w *workload.Workload, d record.Declared) time.Duration {
	if d.Load.Kind == record.ClosedLoop {
		return w.Span()
	}
	return d.Measure
}

// Traffic lays out the requests of a round: the plan over its [Stretch].
func Traffic(w *workload.Workload, d record.Declared) (*workload.Plan, error) {
	return w.Plan(Stretch(w, d), d.Warmup.Window)
}

// Check refuses a load that cannot be measured as it was declared, before anything is built, started or sent: a workload
// that is too short, limits that cut what they should measure, more requests in flight than this process can open
// connections for. Its error is one of usage and holds the numbers and the way out.
func Check(w *workload.Workload, d record.Declared) error {
	plan, err := Traffic(w, d)
	if err != nil {
		return err
	}
	load, roots := d.Load, independent(plan.Measured)
	switch {
	case load.Concurrency > 0 && load.MaxInFlight > 0:
		return fmt.Errorf("a closed loop of %d slots with at most %d requests in flight: set one of the two", load.Concurrency, load.MaxInFlight)
	case load.Concurrency < 0 || load.MaxInFlight < 0:
		return fmt.Errorf("a load of %d slots and %d requests in flight: neither can be negative", load.Concurrency, load.MaxInFlight)
	case load.Kind == record.ClosedLoop && roots < load.Concurrency:
		return fmt.Errorf("a closed loop of %d slots needs as many conversations, workload %q has %d; ask for fewer slots or build a longer workload",
			load.Concurrency, w.Manifest.Name, roots)
	case load.Kind == record.ClosedLoop && load.Think >= d.Measure:
		return fmt.Errorf("slots that think for %s send once in a measured interval of %s; think shorter or measure longer", load.Think, d.Measure)
	case d.Limits.Drain <= 0:
		return fmt.Errorf("a drain limit of %s cuts every request that is open when the interval ends; allow the last ones their time", d.Limits.Drain)
	}
	if load.HTTP2 {
		// One connection carries them all.
		return nil
	}
	return client.CheckStreams(Peak(plan, d))
}

// maxEncoded bounds the requests of each kind that are serialised to see that they can be.
const maxEncoded = 500

// Fits refuses a workload that cannot be sent to a service as api says it is spoken to, before anything is built, started or
// sent: what cannot be sent must not end a round in its middle. It serialises up to 500 requests of each part of the plan,
// spread evenly. url is where the server is, or will be; only its path counts. The error is one of usage and names the turn.
func Fits(w *workload.Workload, d record.Declared, api API, url string) error {
	plan, err := Traffic(w, d)
	if err != nil {
		return err
	}
	var some []workload.Request
	for _, requests := range [][]workload.Request{plan.Measured, plan.Tail, plan.Warmup(0)} {
		step := max(1, len(requests)/maxEncoded)
		for i := 0; i < len(requests); i += step {
			some = append(some, requests[i])
		}
	}
	if err := client.Encodes(clientOptions(api, url, d, record.NewClock()), w, some); err != nil {
		return fmt.Errorf("workload %s does not fit dialect %s: %w", w.Manifest.Name, api.Dialect, err)
	}
	return nil
}

// CheckPorts refuses an open loop against a server that closes its connections, when the schedule needs more of them than
// this machine has local ports: each request then dials. Whether it closes them shows in the requests that
// [client.Client.Preflight] sent one after the other: none found the connection of the one answered before it. How many
// requests a closed loop sends is up to the server, so nothing is refused there; a round looks again when its warm-up has
// shown the rate.
func CheckPorts(probe record.ProbeReport, w *workload.Workload, d record.Declared) error {
	if d.Load.Kind == record.ClosedLoop || !closes(probe.Samples) {
		return nil
	}
	plan, err := Traffic(w, d)
	if err != nil {
		return err
	}
	if err := client.CheckPorts(float64(len(plan.Measured)) / d.Measure.Seconds()); err != nil {
		return fmt.Errorf("the server closes its connections: %w", err)
	}
	return nil
}

// closes reports whether requests sent one after the other show a server that ends each connection with its answer. A failed
// answer may end its connection for reasons of its own, and shows nothing.
func closes(samples []record.Sample) bool {
	shown := false
	for i, s := range samples {
		if s.Reused {
			return false
		}
		shown = shown || i > 0 && samples[i-1].Class == record.OK && s.Class == record.OK
	}
	return shown
}

// Peak estimates the most requests in flight that a round may plausibly come to: the slots of a closed loop, or the
// requests of the schedule that overlap if each answer takes 10 s and 50 ms for each planned token (1,000 where none are
// planned), at most the client's total limit; an explicit cap bounds it. Turns that follow count from the earliest instant
// at which they can be due.
func Peak(plan *workload.Plan, d record.Declared) int {
	if d.Load.Kind == record.ClosedLoop {
		return d.Load.Concurrency
	}
	type edge struct {
		at   time.Duration
		step int
	}
	var edges []edge
	for _, r := range slices.Concat(plan.Measured, plan.Tail) {
		tokens := r.Turn.Out.Tokens
		if tokens <= 0 {
			tokens = unknownTokens
		}
		lasts := slowAnswer + time.Duration(tokens)*slowToken
		if limit := d.Limits.Total; limit > 0 {
			lasts = min(lasts, limit)
		}
		edges = append(edges, edge{r.Offset, 1}, edge{r.Offset + lasts, -1})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
	open, peak := 0, 0
	for _, e := range edges {
		open += e.step
		peak = max(peak, open)
	}
	if limit := d.Load.MaxInFlight; limit > 0 {
		peak = min(peak, limit)
	}
	return peak
}

func independent(requests []workload.Request) int {
	n := 0
	for _, r := range requests {
		if len(r.After) == 0 {
			n++
		}
	}
	return n
}
