package trials

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Plan says what to collect.
type Plan struct {
	// Binary is the tailgate to run and Tool its digest in short. Results is the file results are appended to; folders of sessions
	// with a wrong verdict are kept beside it, in kept/.
	Binary, Tool, Results, Scratch string
	// Path and Home are PATH and HOME of what is started.
	Path, Home string
	// Scenarios are taken in turn, the one that lacks most of its share first. Want overrides how many sessions each should have;
	// 0 takes the scenario's own number.
	Scenarios []Scenario
	Want      int
	// Jobs is how many sessions run at once, at least 1.
	Jobs int
	// Until is when no further session starts; those that run then are finished. Zero is never.
	Until time.Time
	// WhenQuiet starts a session only after others left the machine alone for [calmFor], by the limit of [QuietLimit]. Nothing of a
	// session is known then.
	WhenQuiet bool
	// Log receives a line per session.
	Log io.Writer
}

// maxFailures is how many sessions in a row may end without a verdict before the harness gives up.
const maxFailures = 3

// Collect runs sessions until every scenario has what it wants, time is up, or the context ends: what runs then is lost and nothing
// else. Sessions are counted whatever their verdict, but not those that the machine did not carry: they have a table of
// their own.
func (p Plan) Collect(ctx context.Context) error {
	done, skipped, err := Read(p.Results)
	if err != nil {
		return err
	}
	if skipped > 0 {
		fmt.Fprintf(p.Log, "%s: skipped %d lines that are no results\n", p.Results, skipped)
	}
	have := map[string]int{}
	for _, r := range done {
		if !r.Overloaded() {
			have[r.Scenario]++
		}
	}
	var mu sync.Mutex
	failures := 0
	var last error
	next := func() (Scenario, bool) {
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() != nil || failures >= maxFailures || !p.Until.IsZero() && time.Now().After(p.Until) {
			return Scenario{}, false
		}
		sc, ok := p.neediest(have)
		if ok {
			have[sc.Name]++
		}
		return sc, ok
	}
	ended := func(sc Scenario, r Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = Append(p.Results, r)
		}
		if err != nil {
			have[sc.Name]--
			if ctx.Err() == nil {
				failures++
				last = err
				fmt.Fprintf(p.Log, "%s: no result: %v\n", sc.Name, err)
			}
			return
		}
		failures = 0
		fmt.Fprintln(p.Log, line(r))
	}
	var wg sync.WaitGroup
	for range max(p.Jobs, 1) {
		wg.Go(func() {
			for p.calm(ctx, readLoad) {
				sc, ok := next()
				if !ok {
					return
				}
				r, err := p.session().Run(ctx, sc)
				ended(sc, r, err)
			}
		})
	}
	wg.Wait()
	if failures >= maxFailures {
		return fmt.Errorf("%d sessions in a row ended without a verdict: %w", failures, last)
	}
	return nil
}

// calmFor is how long others must have left the machine alone before a session starts there. A session lasts longer, so this
// spares time and promises nothing: the table goes by what a session saw.
const calmFor = 10 * time.Second

// calm waits for a quiet machine where the plan asks for one; false when time is up or the context ended before. A machine that
// cannot be watched is never quiet.
func (p Plan) calm(ctx context.Context, look func() load) bool {
	for p.WhenQuiet {
		before := look()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(calmFor):
		}
		if o := before.others(look()); o != nil && *o <= QuietLimit {
			return true
		}
		if !p.Until.IsZero() && time.Now().After(p.Until) {
			return false
		}
	}
	return true
}

// neediest is the scenario with the smallest share of its sessions; false when all have theirs.
func (p Plan) neediest(have map[string]int) (Scenario, bool) {
	var best Scenario
	share := 1.0
	for _, sc := range p.Scenarios {
		want := sc.Least
		if p.Want > 0 {
			want = p.Want
		}
		if s := float64(have[sc.Name]) / float64(want); s < share {
			best, share = sc, s
		}
	}
	return best, share < 1
}

func (p Plan) session() Session {
	return Session{Binary: p.Binary, Tool: p.Tool, Path: p.Path, Home: p.Home, Scratch: p.Scratch, Jobs: max(p.Jobs, 1), Keep: func(r Result) string {
		if sc, ok := Find(r.Scenario); ok && sc.Judge(r.Verdict) == Wrong {
			return filepath.Join(filepath.Dir(p.Results), "kept", r.Scenario+"-"+r.ID)
		}
		return ""
	}}
}

// line says one session in a log.
func line(r Result) string {
	others := "n/a"
	if r.Others != nil {
		others = fmt.Sprintf("%.0f %%", 100**r.Others)
	}
	warm, all := 0.0, 0.0
	for _, rd := range r.Rounds {
		warm += rd.Warm / float64(len(r.Rounds))
		all += rd.All / float64(len(r.Rounds))
	}
	return fmt.Sprintf("%-20s %-12s %-24s %d pairs, %d void, %5.1f s (%.1f s a round, %.1f s of it warm-up), others %s",
		r.Scenario, r.Verdict, r.Reason, r.Pairs, r.Void, r.Seconds, all, warm, others)
}

// Noise is the standard deviation of one round's value of a metric around its arm, as a log ratio: the root mean square over
// sessions of the deviation of pair differences over the root of 2. NaN without two pairs.
func Noise(results []Result, key string) float64 {
	sum, n := 0.0, 0
	for _, r := range results {
		for _, m := range r.Metrics {
			if m.Key != key || len(m.Pairs) < 2 {
				continue
			}
			mean := 0.0
			for _, d := range m.Pairs {
				mean += d / float64(len(m.Pairs))
			}
			for _, d := range m.Pairs {
				sum += (d - mean) * (d - mean)
			}
			n += len(m.Pairs) - 1
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return math.Sqrt(sum/float64(n)) / math.Sqrt2
}

// noisier is how much round noise may rise from one session at a time to several before several are not believed: half of what
// the noise floor of an estimate hides anyway counts as none.
const (
	noisier   = 1.25
	hiddenBy  = 0.0015
	probeEach = 3
)

// Parallel measures the round noise of identical sessions one at a time and p.Jobs at once, prints both, and returns how many
// jobs to believe in: p.Jobs if neither the noise of any gated metric nor the number of void rounds rises, else 1. The sessions are
// results like any other.
func (p Plan) Parallel(ctx context.Context) (int, error) {
	if p.Jobs <= 1 {
		return 1, nil
	}
	sc, _ := Find("identical")
	probe := func(jobs, sessions int) ([]Result, error) {
		q := p
		q.Jobs, q.Scenarios, q.Want = jobs, []Scenario{sc}, sessions
		q.Results = filepath.Join(p.Scratch, fmt.Sprintf("probe-%d.jsonl", jobs))
		if err := os.Remove(q.Results); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		if err := q.Collect(ctx); err != nil {
			return nil, err
		}
		results, _, err := Read(q.Results)
		for _, r := range results {
			err = errors.Join(err, Append(p.Results, r))
		}
		return results, err
	}
	one, err := probe(1, probeEach)
	if err != nil {
		return 1, err
	}
	many, err := probe(p.Jobs, max(probeEach, p.Jobs))
	if err != nil {
		return 1, err
	}
	believed := p.Jobs
	for _, key := range sc.Gated() {
		a, b := Noise(one, key), Noise(many, key)
		fmt.Fprintf(p.Log, "round noise of %-10s  1 job %.2f %%, %d jobs %.2f %%\n", key, 100*a, p.Jobs, 100*b)
		if b > max(noisier*a, hiddenBy) || math.IsNaN(b) {
			believed = 1
		}
	}
	va, vb := voidShare(one), voidShare(many)
	fmt.Fprintf(p.Log, "void rounds             1 job %.1f %%, %d jobs %.1f %%\n", 100*va, p.Jobs, 100*vb)
	if vb > va+0.05 {
		believed = 1
	}
	fmt.Fprintf(p.Log, "running %d at once\n", believed)
	return believed, nil
}

func voidShare(results []Result) float64 {
	void, all := 0, 0
	for _, r := range results {
		for _, rd := range r.Rounds {
			all++
			if rd.Void != "" {
				void++
			}
		}
	}
	return float64(void) / float64(max(all, 1))
}

// warmth is the mean length of rounds and of their warm-up, seconds, over both arms.
func warmth(results []Result) (round, warm float64) {
	n := 0.0
	for _, r := range results {
		for _, arm := range []record.Arm{record.Base, record.Head} {
			for _, rd := range r.Valid(arm) {
				round, warm, n = round+rd.All, warm+rd.Warm, n+1
			}
		}
	}
	return round / max(n, 1), warm / max(n, 1)
}
