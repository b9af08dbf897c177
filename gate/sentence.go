package gate

import (
	"fmt"
	"math"
	"strings"
)

// text says in one sentence how a metric came to its verdict.
func (c *compared) text() string {
	name := c.metric.Name
	switch c.Cause {
	case Unbounded:
		failed := "more than " + share(c.metric.beyond()) + " of head's requests failed"
		if c.HigherIsBetter {
			failed = "head finished nothing"
		}
		if c.Verdict == Fail {
			return fmt.Sprintf("%s of head does not exist: %s in two or more rounds", name, failed)
		}
		return fmt.Sprintf("%s of head does not exist in one round: %s; once more would be head's fault", name, failed)
	case BaseUnbounded:
		return fmt.Sprintf("%s of base does not exist in some round, because too many of its requests failed: there is nothing to compare with", name)
	case MetricMissing:
		return fmt.Sprintf("%s is missing in some round (base %s, head %s)", name, amount(c.BaseMedian, c.Unit), amount(c.HeadMedian, c.Unit))
	case TooFewRequests:
		return fmt.Sprintf("%s cannot be gated at this size; the policy names it without `force: true`", name)
	case BunchedStream:
		return fmt.Sprintf("%s cannot be told: answers arrive bunched, so the instants of their tokens are not the server's", name)
	case CutDiffers:
		return fmt.Sprintf("%s cannot be compared: the arms cut their answers differently into events or reads, so a gap is not the same thing on both; gate TPOT", name)
	case TokenSourceMixed:
		return fmt.Sprintf("%s cannot be told: tokens were estimated, or counted in different ways on the two arms", name)
	}
	if c.Cause == ClientExplains {
		return c.core() + ". But " + c.client
	}
	return c.core() + c.remedy()
}

// core tells values, change, bounds and tolerance, in the metric's own direction.
func (c *compared) core() string {
	r, _ := c.R.Get()
	tolerance := c.Tolerance
	if c.HigherIsBetter {
		tolerance = -tolerance
	}
	text := fmt.Sprintf("%s went from %s to %s (%s", c.metric.Name, amount(c.BaseMedian, c.Unit), amount(c.HeadMedian, c.Unit), change(c.metric.change(r), tolerance))
	l, okL := c.L.Get()
	u, okU := c.U.Get()
	if okL && okU {
		low, high := c.metric.change(l), c.metric.change(u)
		text += fmt.Sprintf(", bounds %s to %s", change(min(low, high), tolerance, tolerance/2), change(max(low, high), tolerance, tolerance/2))
	}
	return text + fmt.Sprintf(") against a tolerance of %s; head was worse in %d of %d pairs", share(c.Tolerance), c.Worse, c.N)
}

// remedy says what would settle an undecided metric.
func (c *compared) remedy() string {
	var pairs string
	switch {
	case c.PairsNeeded > 100:
		pairs = "more than 100 pairs would be needed to settle it"
	case c.PairsNeeded > 0:
		pairs = fmt.Sprintf("about %d pairs would settle it", c.PairsNeeded)
	}
	if k, ok := c.Longer.Finite(); ok {
		pairs += fmt.Sprintf(", or rounds %s times as long", number(k))
	} else if c.Longer.Reason() == LongerUseless {
		pairs += "; " + LongerUseless
	}
	s, _ := c.S.Get()
	noise := share(math.Expm1(s))
	switch c.Cause {
	case TooNoisy:
		return fmt.Sprintf(". Pairs differ by %s among themselves: %s", noise, pairs)
	case NearTolerance:
		return ". The change lies too near the tolerance to call: " + pairs
	case ToleranceTooFine:
		return fmt.Sprintf(". Pairs differ by %s among themselves, too much for this tolerance: %s. A steadier machine or a wider tolerance would help", noise, pairs)
	case Multiple:
		return ". By itself it would fail; among so many gated metrics Holm's steps ask for more: " + pairs
	case DriftLeaks:
		return ". The machine drifted while an uneven order was measured, so the change may be its: hold the clocks, or allow an even number of pairs"
	case FollowsBuild:
		return ". Too many of one arm's rounds were void to blame the build"
	default:
		return ""
	}
}

// sentence makes a text of the record fit for a sentence of ours: one line, without a full stop.
func sentence(s string) string {
	return strings.TrimSuffix(strings.Join(strings.Fields(s), " "), ".")
}
