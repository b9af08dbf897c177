package report

import (
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// waited says where a latency from the sent request differs by more than 1 % from that of the schedule: then requests
// waited on our side, and an arm's latency holds what is not its own.
func (s *scribe) waited() []block {
	const differ = 0.01
	var parts []string
	for _, stem := range []string{"ttft", "e2e"} {
		for _, arm := range []record.Arm{record.Base, record.Head} {
			if share, slot := s.beforeSending(stem, arm); share > differ {
				parts = append(parts, label(stem+"_p99")+" of "+string(arm)+" by up to "+limitShare(rounded(share, 3))+" (slot "+count(slot)+")")
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []block{line(say("Latency counts from the schedule. From the sent request it is lower: %s. The rest is time spent before sending.", strings.Join(parts, ", ")))}
}

// beforeSending is the largest part of an arm's p99 that lies before the request was sent, a fraction, and its slot.
func (s *scribe) beforeSending(stem string, arm record.Arm) (share float64, slot int) {
	for i := range s.run.Rounds {
		r := &s.run.Rounds[i]
		if _, isVoid := s.void[r.Slot]; isVoid || r.Arm != arm || r.State != record.RoundComplete {
			continue
		}
		due, okDue := r.Metrics[stem+"_p99"].Finite()
		sent, okSent := r.Metrics[stem+"_p99_send"].Finite()
		if okDue && okSent && due > 0 && (due-sent)/due > share {
			share, slot = (due-sent)/due, r.Slot
		}
	}
	return share, slot
}

// bareTail reports whether a metric is a p99.9 that no round has: few rounds have the 6,636 requests it takes.
func (s *scribe) bareTail(key string) bool {
	if !strings.Contains(key, "_p999") {
		return false
	}
	for _, r := range s.run.Rounds {
		if _, ok := r.Metrics[key].Get(); ok {
			return false
		}
	}
	return true
}
