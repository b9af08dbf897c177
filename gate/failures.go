package gate

import (
	"fmt"
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// failureLevel is the level of the failure comparison; failureMargin the smallest difference of rates that matters.
	failureLevel, failureMargin = 0.01, 0.0005
	// listedIDs is how many ids of failed checks a round keeps at most.
	listedIDs = 100
	// outputWarn and outputInform are how far head's output tokens may be from base's.
	outputWarn, outputInform = 0.02, 0.01
)

// compareErrors compares first-attempt failures over some pairs. Head fails when it fails more than chance allows, by a
// margin that matters, and in more than one round.
func compareErrors(pairs []pair) ErrorComparison {
	c := ErrorComparison{Verdict: Pass, P: record.NA("no requests"), BaseKinds: map[record.Outcome]int{}, HeadKinds: map[record.Outcome]int{}}
	for _, p := range pairs {
		c.Base += tallyFailures(p.base, c.BaseKinds)
		c.BaseN += p.base.Counts.Attempted()
		failed := tallyFailures(p.head, c.HeadKinds)
		c.Head += failed
		c.HeadN += p.head.Counts.Attempted()
		if failed > 0 {
			c.HeadRounds++
		}
	}
	if c.BaseN <= 0 || c.HeadN <= 0 {
		return c
	}
	p := stat.FewerFailures(c.Base, c.BaseN, c.Head, c.HeadN)
	c.P = record.Of(p)
	if p < failureLevel && c.rise() >= failureMargin {
		c.Verdict = Fail
		if c.HeadRounds < 2 {
			c.Verdict = Inconclusive
		}
	}
	return c
}

// rise is head's failure rate less base's, a fraction.
func (c ErrorComparison) rise() float64 {
	return float64(c.Head)/float64(c.HeadN) - float64(c.Base)/float64(c.BaseN)
}

func tallyFailures(r *record.Round, kinds map[record.Outcome]int) int {
	for class, n := range r.Counts.Classes {
		if class.Failure() && n > 0 {
			kinds[class] += n
		}
	}
	return r.Counts.Failures()
}

// ruleErrors turns the comparison of failures into a ruling.
func (h *hearing) ruleErrors() {
	c := h.errors
	core := fmt.Sprintf("head failed %s of %s requests at their only attempt, base %s of %s", count(c.Head), count(c.HeadN), count(c.Base), count(c.BaseN))
	switch c.Verdict {
	case Fail:
		h.add(ruling{class: worse, Finding: Finding{
			ID: MoreFailures, Metric: ErrorRate, Arm: record.Head,
			Text: core + fmt.Sprintf("; chance alone would do that with p = %s", pValue(c.P)),
		}})
	case Inconclusive:
		h.open = true
		h.add(ruling{class: undecided, Finding: Finding{
			ID: FailuresOneRound, Metric: ErrorRate, Arm: record.Head,
			Text: core + ", all of head's in one round: once more in another round would be head's fault",
		}})
	case Pass, Invalid:
	}
}

func pValue(v record.Value) string {
	p, _ := v.Get()
	if p < 0.0001 {
		return "less than 0.0001"
	}
	return fmt.Sprintf("%.2g", p)
}

// ruleAssertions fails head for answers that break a content check again and again where base's never do.
func (h *hearing) ruleAssertions(e *evidence) {
	broken := regressed(rounds(h.pairs, record.Head), rounds(e.complete, record.Base))
	if len(broken) == 0 {
		return
	}
	h.broken = true
	h.add(ruling{class: worse, Finding: Finding{
		ID: AssertionBroke, Arm: record.Head,
		Text: fmt.Sprintf("the answers to %s failed a content check in two or more head rounds and in no base round; the first is %s", plural(len(broken), "request"), broken[0]),
	}})
}

// regressed lists the request ids whose answers failed a check in at least two head rounds and in no base round, sorted.
// A base round keeps a limited list: an id beyond its end may have failed there too, and is left out.
func regressed(head, base []*record.Round) []string {
	seen := map[string]int{}
	for _, r := range head {
		for _, id := range r.FailedIDs {
			seen[id]++
		}
	}
	var ids []string
	for id, n := range seen {
		held := func(r *record.Round) bool { return !slices.Contains(r.FailedIDs, id) && !beyondList(r.FailedIDs, id) }
		if n >= 2 && !slices.ContainsFunc(base, func(r *record.Round) bool { return !held(r) }) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// beyondList reports whether a full list ends before an id.
func beyondList(ids []string, id string) bool {
	return len(ids) >= listedIDs && id > slices.Max(ids)
}

// ruleOutput warns when head wrote clearly more or fewer tokens: faster may mean less work.
func (h *hearing) ruleOutput() {
	base, okBase := tokens(rounds(h.pairs, record.Base))
	head, okHead := tokens(rounds(h.pairs, record.Head))
	if !okBase || !okHead || base <= 0 {
		return
	}
	change := head/base - 1
	if math.Abs(change) <= outputInform {
		return
	}
	h.broken = true
	c := informs
	if math.Abs(change) > outputWarn {
		c = warns
	}
	text := fmt.Sprintf("head's answers hold %s more tokens than base's: the arms did not do the same work", share(change))
	if change < 0 {
		text = fmt.Sprintf("head's answers hold %s fewer tokens than base's: faster may mean less work", share(-change))
	}
	h.add(ruling{class: c, Finding: Finding{ID: OutputDiffers, Arm: record.Head, Text: text}})
}

// tokens sums the output of some rounds; false when one does not know.
func tokens(list []*record.Round) (float64, bool) {
	sum := 0.0
	for _, r := range list {
		x, ok := r.OutTokens.Finite()
		if !ok {
			return 0, false
		}
		sum += x
	}
	return sum, len(list) > 0
}
