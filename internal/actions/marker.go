package actions

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
)

// markerStart begins the last line of every comment of ours.
const markerStart = "<!-- tailgate "

// marker is what the last line of a comment says. It is how a comment is found again, and the only thing read back from one.
type marker struct {
	key string
	// run is the number of the workflow run, attempt its re-run from 1, head the commit measured.
	run     uint64
	attempt int
	head    string
	// past are the results so far, newest first, this one included; at most pastLimit.
	past []past
}

// past is one earlier result: seven digits of the commit, the verdict, and the run with its attempt.
type past struct {
	head    string
	verdict gate.Verdict
	run     string
}

const pastLimit = 10

var (
	markerPattern = regexp.MustCompile(`^<!-- tailgate key=([a-z0-9-]{1,40}) run=([0-9]{1,19}) attempt=([0-9]{1,3}) ` +
		`head=([0-9a-f]{40,64}) schema=1(?: hist=([0-9a-z:.,]{0,600}))? -->$`)
	pastPattern = regexp.MustCompile(`^([0-9a-f]{7}):(pass|fail|inconclusive|invalid):([0-9]{1,19}(?:\.[0-9]{1,3})?)$`)
)

// readMarker reads the marker of a comment: the whole of its last line that is not empty. Text that quotes a marker elsewhere
// is no comment of ours.
func readMarker(body string) (marker, bool) {
	body = strings.TrimRight(strings.ReplaceAll(body, "\r\n", "\n"), " \n")
	last := body[strings.LastIndexByte(body, '\n')+1:]
	m := markerPattern.FindStringSubmatch(last)
	if m == nil {
		return marker{}, false
	}
	run, err := strconv.ParseUint(m[2], 10, 64)
	if err != nil {
		return marker{}, false
	}
	attempt, err := strconv.Atoi(m[3])
	if err != nil {
		return marker{}, false
	}
	read := marker{key: m[1], run: run, attempt: attempt, head: m[4]}
	for entry := range strings.SplitSeq(m[5], ",") {
		if p := pastPattern.FindStringSubmatch(entry); p != nil && len(read.past) < pastLimit {
			read.past = append(read.past, past{p[1], gate.Verdict(p[2]), p[3]})
		}
	}
	return read, true
}

// after reports whether m is of a later measurement than other.
func (m marker) after(other marker) bool {
	if m.run != other.run {
		return m.run > other.run
	}
	return m.attempt > other.attempt
}

// result is the entry that a measurement leaves in the history.
func (m marker) result(v gate.Verdict) past {
	run := strconv.FormatUint(m.run, 10)
	if m.attempt > 1 {
		run += "." + strconv.Itoa(m.attempt)
	}
	return past{m.head[:7], v, run}
}

// history puts a result before the earlier ones. Publishing the same measurement twice gives the same history.
func history(earlier []past, latest past) []past {
	list := append([]past{latest}, slices.DeleteFunc(slices.Clone(earlier), func(p past) bool { return p.run == latest.run })...)
	return list[:min(len(list), pastLimit)]
}

// written is the history as the marker holds it.
func written(list []past) []string {
	entries := make([]string, len(list))
	for i, p := range list {
		entries[i] = p.head + ":" + string(p.verdict) + ":" + p.run
	}
	return entries
}

// repeated are the verdicts of earlier measurements of the same head, oldest first.
func repeated(list []past) []gate.Verdict {
	var verdicts []gate.Verdict
	for _, p := range slices.Backward(list[1:]) {
		if p.head == list[0].head {
			verdicts = append(verdicts, p.verdict)
		}
	}
	return verdicts
}
