package gate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// fate is what an incident of one kind means.
type fate struct {
	// head and base are the classes it leads to when it names that arm; none when it names neither.
	head, base, none class
	// crash marks incidents that are counted by rounds.
	crash bool
	// tries is true when a second try follows the first, so that only the second decides.
	tries bool
}

// An incident of the machine, the runner or tailgate itself never blames the pull request, whatever arm it struck.
var notTheBuild = fate{head: untrusted, base: untrusted, none: untrusted}

// fates maps incidents to what they mean; docs list them in the order of package record.
var fates = map[string]fate{
	record.BuildFailed:      {head: headCannot, base: untrusted, none: untrusted},
	record.SameArtifact:     notTheBuild,
	record.StartFailed:      {head: headCannot, base: untrusted, none: untrusted, tries: true},
	record.StartTimeout:     {head: headCannot, base: untrusted, none: untrusted, tries: true},
	record.ProbeFailed:      {head: headCannot, base: untrusted, none: untrusted},
	record.ProbeUnfit:       {head: undecided, base: untrusted, none: untrusted},
	record.ServerGone:       {head: headCannot, base: untrusted, none: untrusted},
	record.ResetMissing:     notTheBuild,
	record.GPUsDiffer:       notTheBuild,
	record.PortsShort:       notTheBuild,
	record.Daemonised:       notTheBuild,
	record.PortTaken:        notTheBuild,
	record.PortStolen:       notTheBuild,
	record.PortNotFreed:     notTheBuild,
	record.RunnerDirty:      notTheBuild,
	record.Crashed:          {head: informs, base: informs, none: informs, crash: true},
	record.EngineStalled:    {head: informs, base: informs, none: informs, crash: true},
	"oom":                   {head: informs, base: informs, none: informs, crash: true},
	record.DiskFull:         notTheBuild,
	record.WriteFailed:      notTheBuild,
	record.TelemetryMissing: notTheBuild,
	record.GPULocked:        notTheBuild,
	record.GPUNotUsed:       notTheBuild,
	record.GPUNotFound:      notTheBuild,
	record.WorktreeFailed:   notTheBuild,
	record.InternalFault:    notTheBuild,
	record.Cancelled:        notTheBuild,

	// A server's end.
	record.MemoryNotFreed: notTheBuild,
	record.StopNotClean:   {head: headCannot, base: untrusted, none: untrusted},
}

// fateOf says what an incident means. One that this version does not know ended something all the same: never a pass.
func fateOf(id string) fate {
	if f, known := fates[id]; known {
		return f
	}
	return notTheBuild
}

func (f fate) class(arm record.Arm) class {
	switch arm {
	case record.Head:
		return f.head
	case record.Base:
		return f.base
	default:
		return f.none
	}
}

// incidents rules on every fact that ended a try, a round or the session. Trouble with base comes first: head is blamed
// only where base built and started.
func (e *evidence) incidents(d *docket) {
	baseFaulty := false
	for _, arm := range []record.Arm{record.Base, record.Head, ""} {
		for _, in := range e.run.Incidents {
			f := fateOf(in.ID)
			if f.crash || in.Arm != arm {
				continue
			}
			c := f.class(arm)
			if f.tries && in.Try == 1 {
				e.firstTry(d, in)
				continue
			}
			baseFaulty = baseFaulty || arm == record.Base
			if c == headCannot && baseFaulty {
				c = warns
			}
			d.add(ruling{class: c, Finding: Finding{ID: incidentID(in), Arm: in.Arm, Slot: in.Slot, Text: incidentText(in) + e.startedIn(in)}})
		}
	}
}

// startedIn says how often an arm did start whose start failed in the end; empty when it had one slot only.
func (e *evidence) startedIn(in record.Incident) string {
	slots, started := 0, 0
	for _, r := range e.run.Rounds {
		if r.Arm == in.Arm {
			slots++
			if r.Phases.Ready.Reached() {
				started++
			}
		}
	}
	if !fateOf(in.ID).tries || slots < 2 {
		return ""
	}
	return fmt.Sprintf("; %s started in %d of %d slots", armName(in.Arm), started, slots)
}

// unfit reports whether an incident ended the session that says nothing for or against head, but that it answers otherwise
// than base.
func (e *evidence) unfit() bool {
	return slices.ContainsFunc(e.run.Incidents, func(in record.Incident) bool {
		f := fateOf(in.ID)
		return !f.crash && f.class(in.Arm) == undecided
	})
}

// firstTry notes a start that failed once. Whether the second try failed too is an incident of its own.
func (e *evidence) firstTry(d *docket, in record.Incident) {
	text := fmt.Sprintf("%s did not start at its first try and was started once more: %s", armName(in.Arm), in.Text)
	d.add(ruling{class: warns, Finding: Finding{ID: StartedSecondTry, Arm: in.Arm, Slot: in.Slot, Text: text}})
}

// incidentID is the reason of the verdict: what stops base has a name of its own, because it says nothing about head.
func incidentID(in record.Incident) string {
	if _, known := fates[in.ID]; !known {
		return UnknownIncident
	}
	f := fateOf(in.ID)
	if in.Arm == record.Base && f.head == headCannot {
		return "base_" + in.ID
	}
	return in.ID
}

func incidentText(in record.Incident) string {
	what := map[string]string{
		record.BuildFailed:  "does not build",
		record.StartFailed:  "does not start",
		record.StartTimeout: "does not become ready in time",
		record.ProbeFailed:  "starts but answers no request",
		record.StopNotClean: "does not stop cleanly",
	}[in.ID]
	switch {
	case what != "" && in.Arm != "":
		text := armName(in.Arm) + " " + what
		if in.Exit != nil {
			text += fmt.Sprintf(" (exit code %d)", *in.Exit)
		}
		return text + ": " + orElse(in.Text, "see its log")
	case in.Text == "":
		return "the session ended with " + in.ID
	default:
		return in.Text
	}
}

func armName(a record.Arm) string { return orElse(string(a), "the session") }

// crashes rules on servers that left in mid-round. The round is the unit: two of head's and none of base's are head's
// fault; one alone may be chance.
func (e *evidence) crashes(d *docket) {
	base, head := e.crashed[record.Base], e.crashed[record.Head]
	switch {
	case len(base) >= 2:
		d.add(ruling{class: untrusted, Finding: Finding{
			ID: BaseCrashed, Arm: record.Base, Slot: new(base[0]),
			Text: fmt.Sprintf("base's server exited or stalled in %d rounds (slots %s): base cannot be measured", len(base), list(base)),
		}})
	case len(head) >= 2 && len(base) == 0:
		d.add(ruling{class: headCannot, Finding: Finding{
			ID: CrashedTwice, Arm: record.Head, Slot: new(head[0]),
			Text: fmt.Sprintf("head's server exited or stalled in %d rounds (slots %s), base's in none", len(head), list(head)),
		}})
	case len(head) >= 1 && e.run.Kind == record.KindLoad:
		d.add(ruling{class: warns, Finding: Finding{
			ID: CrashedOnce, Arm: record.Head, Slot: new(head[0]), Text: "the server exited or stalled while it was measured",
		}})
	case len(head) >= 1:
		d.add(ruling{class: undecided, Finding: Finding{
			ID: CrashedOnce, Arm: record.Head, Slot: new(head[0]),
			Text: fmt.Sprintf("head's server exited or stalled in %s, base's in %d: one more would decide whose fault it is", plural(len(head), "round"), len(base)),
		}})
	case len(base) == 1:
		d.add(ruling{class: warns, Finding: Finding{
			ID: BaseCrashed, Arm: record.Base, Slot: new(base[0]), Text: "base's server exited or stalled in one round, head's in none",
		}})
	}
}

// list writes slots: "1, 4 and 6".
func list(slots []int) string {
	var words []string
	for _, slot := range slices.Sorted(slices.Values(slots)) {
		words = append(words, strconv.Itoa(slot))
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
