package gate

import (
	"crypto/sha256"
	"math"
	"slices"

	"github.com/tailgate-ci/tailgate/gate/stat"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// The bounds of a session, in pairs.
const (
	fewestPairs  = 3
	mostPairs    = 12
	defaultFirst = 4
	defaultLast  = 8
	defaultAlpha = 0.05
	defaultDrift = 0.10
)

// Declare fixes what must be known before the first round: who is measured in which slot up to the last look, the looks,
// and the one-sided error level of each. The coin is drawn from the session's id, so that anyone can check it: the lowest
// bit of the last byte of SHA-256("tailgate/order/" + id).
func Declare(p Policy, id string) (coin int, order []record.Arm, looks []int, level float64) {
	p = p.withDefaults()
	sum := sha256.Sum256([]byte("tailgate/order/" + id))
	coin = int(sum[len(sum)-1] & 1)
	looks = stat.Looks(p.Min, p.Max)
	for _, head := range stat.Order(looks[len(looks)-1], coin) {
		arm := record.Base
		if head {
			arm = record.Head
		}
		order = append(order, arm)
	}
	return coin, order, looks, stat.Level(p.Min, len(looks)) * p.Alpha / defaultAlpha
}

// withDefaults fills in what a policy leaves open and brings its numbers into their range.
func (p Policy) withDefaults() Policy {
	p.Min = min(max(orElse(p.Min, defaultFirst), fewestPairs), mostPairs)
	p.Max = min(max(orElse(p.Max, defaultLast), p.Min), mostPairs)
	if p.MaxVoid < 0 {
		p.MaxVoid = max(2, p.Min/2)
	}
	p.Alpha = orElse(p.Alpha, defaultAlpha)
	p.MaxBaseDrift = orElse(p.MaxBaseDrift, defaultDrift)
	p.Margin = orElse(p.Margin, MarginHalf)
	p.Multiplicity = orElse(p.Multiplicity, MultiplicityNone)
	p.Burden = orElse(p.Burden, NotViolated)
	p.Preexisting = orElse(p.Preexisting, PreexistingWarn)
	return p
}

func orElse[T comparable](x, fallback T) T {
	var zero T
	if x == zero {
		return fallback
	}
	return x
}

// DefaultTolerances is the list of gated metrics of a policy that names none, for a service that streams.
func DefaultTolerances() map[string]Tolerance {
	return defaultsFor("ttft_p50", "ttft_p95", "ttft_p99", "itl_p50", "itl_p95", "e2e_p95", "output_tps")
}

func defaultsFor(keys ...string) map[string]Tolerance {
	list := map[string]Tolerance{}
	for _, key := range keys {
		m, _ := MetricOf(key)
		list[key] = Tolerance{Relative: m.defaultRelative()}
	}
	return list
}

// schedule is what a stored run was declared to be judged by.
type schedule struct {
	looks   []int
	level   float64
	maxVoid int
}

func (s schedule) first() int { return s.looks[0] }
func (s schedule) last() int  { return s.looks[len(s.looks)-1] }

// look is the largest look that n pairs reach; 0 when they reach none.
func (s schedule) look(n int) int {
	reached := 0
	for _, look := range s.looks {
		if look <= n {
			reached = look
		}
	}
	return reached
}

// number is the place of a look in the schedule, from 1; 0 when it is none.
func (s schedule) number(look int) int { return slices.Index(s.looks, look) + 1 }

// scheduleOf takes what the run declared. A run without a sound declaration is judged by the policy's own.
func scheduleOf(run *record.Run, p Policy) schedule {
	d := run.Declared
	if soundLooks(d.Looks) && d.Level > 0 && d.Level < 0.5 && !math.IsNaN(d.Level) {
		return schedule{looks: slices.Clone(d.Looks), level: d.Level, maxVoid: max(d.MaxVoid, 0)}
	}
	_, _, looks, level := Declare(p, run.ID)
	return schedule{looks: looks, level: level, maxVoid: p.MaxVoid}
}

func soundLooks(looks []int) bool {
	for i, n := range looks {
		if n < fewestPairs || n > mostPairs || i > 0 && n <= looks[i-1] {
			return false
		}
	}
	return len(looks) > 0
}
