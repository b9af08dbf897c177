package report

import (
	"io"
	"math"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Calibration writes what a session of base against itself found, for a terminal. The error is w's.
func Calibration(w io.Writer, run *record.Run, c *record.Calibration, o Options) error {
	s := newScribe(run, gate.Judgement{}, o)
	t := &terminal{width: max(minWidth, o.Width), ascii: o.ASCII}
	t.blocks("CALIBRATED", s.calibrationBlocks(c))
	_, err := io.WriteString(w, t.b.String())
	return err
}

func (s *scribe) calibrationBlocks(c *record.Calibration) []block {
	findings := gate.CalibrationFindings(c)
	blocks := []block{{kind: verdictLine, line: noiseFact(c)}, s.calibrated(c), nextOfCalibration(c, findings)}
	if g := noiseTable(c); len(g.rows) > 0 {
		blocks = append(blocks, table(g))
	}
	blocks = append(blocks, supportLine(c), machineLine(c))
	for _, f := range findings {
		blocks = append(blocks, block{kind: bullet, line: words{bold("Warning:"), say(" "), quote(f.Text, messageCap)}})
	}
	w := words{say("tailgate "), quote(s.run.Tailgate.Version, 40), say(" · run "), name(s.run.ID)}
	if s.o.RunFolder != "" {
		w = append(w, say(" · folder "), name(s.o.RunFolder), say(" · again: "), name("tailgate calibrate --from "+s.o.RunFolder))
	}
	return append(blocks, block{kind: paragraph, line: w})
}

// gated lists the metrics of a calibration that its policy gates and that are numbers, in the order of the judge.
func gated(c *record.Calibration) []string {
	var keys []string
	for _, m := range gate.Metrics() {
		n, ok := c.Metrics[m.Key]
		if _, tolerated := n.Tolerance.Finite(); ok && tolerated {
			keys = append(keys, m.Key)
		}
	}
	return keys
}

// noiseFact is line 1: how quiet and how loud the gated metrics are.
func noiseFact(c *record.Calibration) words {
	quiet, loud := "", ""
	low, high := math.Inf(1), math.Inf(-1)
	for _, key := range gated(c) {
		x, ok := c.Metrics[key].RoundSD.Finite()
		if ok && x < low {
			low, quiet = x, key
		}
		if ok && x > high {
			high, loud = x, key
		}
	}
	switch quiet {
	case "":
		return words{say("no gated metric has a number in every round")}
	case loud:
		return words{say("rounds of one build differ by %s in %s (standard deviation)", share(math.Expm1(low)), label(quiet))}
	default:
		return words{say("rounds of one build differ by %s (%s) to %s (%s), standard deviation", share(math.Expm1(low)), label(quiet), share(math.Expm1(high)), label(loud))}
	}
}

// calibrated says what was measured where.
func (s *scribe) calibrated(c *record.Calibration) block {
	w := append(words{}, s.arms()...)
	w = append(w, say(" · workload "), name(c.Workload.Name), say(" "), name(short(c.Workload.Digest, 12)), say(" · "))
	w = append(w, s.machine()...)
	return block{kind: bullet, line: append(w, say(" · %d of %s valid, rounds of %s", c.Pairs, pairs(c.Planned), length(c.Measure)))}
}

// nextOfCalibration says what to do with it, the most useful first.
func nextOfCalibration(c *record.Calibration, findings []gate.Finding) block {
	w := words{bold("Next:"), say(" ")}
	seen := map[string]bool{}
	for _, f := range findings {
		seen[f.ID] = true
	}
	switch {
	case c.Verdict == string(gate.Invalid):
		w = append(w, say("%s", remedy(c.Reason)))
	case seen[gate.RoundsRemember]:
		w = append(w, say("lengthen cooldown.pause and calibrate again: rounds are not independent yet."))
	case seen[gate.ToleranceUnsupported]:
		w = append(w, say("widen those tolerances to what is supported, or make less noise (longer load.measure, held clocks, an idle machine) and calibrate again, or allow more pairs (rounds.max)."))
	case seen[gate.CalibrationNotPass]:
		w = append(w, say("see report.txt in the run folder for what the machine did, mend it and calibrate again."))
	case seen[gate.TooFewRounds]:
		w = append(w, say("the tolerances are supported. For verdict.calibration measure %d pairs.", gate.DefaultCalibrationPairs))
	default:
		w = append(w, say("the tolerances are supported. To lean on this noise, keep calibration.json in the repository and name it in the policy: "), name("verdict: {calibration: calibration.json}"), say("."))
	}
	return block{kind: bullet, line: w}
}

// noiseTable has a row for each gated metric.
func noiseTable(c *record.Calibration) *grid {
	g := &grid{
		head:  []string{"metric", "median", "sd of a round", "of a pair", "lag-1", "supported", "tolerance"},
		align: "lrrrrrr", spare: []int{3, 4},
	}
	for _, key := range gated(c) {
		m := c.Metrics[key]
		tolerance, _ := m.Tolerance.Finite()
		supported, ok := m.Supported.Finite()
		if !ok {
			// The reason stands once; the other cells would only repeat it.
			none := cell("-")
			g.add(cell("%s", label(key)), cell("%s", value(m.Median, m.Unit, "")), none, none, none, none, cell("%s", limitShare(tolerance)))
			continue
		}
		lag := "-"
		if x, ok := m.Lag1.Finite(); ok {
			lag = signed(x, 2)
		}
		shown := limitShare(tolerance)
		if tolerance < supported-1e-9 {
			shown += ", too fine"
		}
		g.add(cell("%s", label(key)), cell("%s", value(m.Median, m.Unit, "")), cell("%s", deviation(m.RoundSD)), cell("%s", deviation(m.SD)),
			cell("%s", lag), cell("%s", limitShare(rounded(supported, 6))), cell("%s", shown))
	}
	return g
}

// deviation prints a standard deviation that is held as a log ratio.
func deviation(v record.Value) string {
	x, ok := v.Finite()
	if !ok {
		return missing(v.Reason())
	}
	return share(math.Expm1(x))
}

// supportLine says what a supported tolerance means, and how much more is in the file.
func supportLine(c *record.Calibration) block {
	w := words{say("Supported: the smallest tolerance within which an unchanged build passes 99 times in 100, in comparisons of at most %s with bounds at %s.",
		pairs(c.MaxPairs), limitShare(rounded(1-c.Level, 6)))}
	if more := len(c.Metrics) - len(gated(c)); more > 0 {
		w = append(w, say(" What is not gated is in calibration.json too (%d).", more))
	}
	return block{kind: paragraph, line: w}
}

// machineLine says how the machine moved meanwhile, and how the session would have been judged.
func machineLine(c *record.Calibration) block {
	w := words{say("Judged as two builds: "), quote(c.Verdict, 20)}
	if c.Reason != "" {
		w = append(w, say(" ("), quote(c.Reason, 60), say(")"))
	}
	drift := value(c.Drift.Change, "", "")
	if x, ok := c.Drift.Change.Finite(); ok {
		drift = signed(x*100, 1) + " % in " + label(c.Drift.Metric) + " over the session"
	}
	effect := "cannot be told from the first (" + inert(c.Drift.SlotEffect.Reason(), nameCap) + ")"
	if x, ok := c.Drift.SlotEffect.Finite(); ok {
		effect = "is " + fixed(math.Abs(math.Expm1(x))*100, 1) + " % slower than the first"
		if x < 0 {
			effect = strings.Replace(effect, "slower", "faster", 1)
		}
	}
	return block{kind: bullet, line: append(w, say(". The machine drifted %s; the second round of a pair %s.", drift, effect))}
}
