package simserver

import (
	"errors"
	"fmt"
	"math"
)

// check says everything that is wrong with the values, one line each.
func (c Config) check() error {
	errs := rules{}
	errs.say(c.Model != "", "model: must not be empty")
	c.Engine.check(&errs)
	c.Output.check(&errs)
	c.Trouble.check(&errs)
	c.Life.check(&errs)
	return errors.Join(errs...)
}

// rules collects broken ones.
type rules []error

func (r *rules) say(ok bool, format string, args ...any) {
	if !ok {
		*r = append(*r, fmt.Errorf(format, args...))
	}
}

func (e Engine) check(r *rules) {
	r.say(e.Lanes >= 1, "lanes: must be at least 1, got %d", e.Lanes)
	r.say(e.BatchLimit >= 1, "batch_limit: must be at least 1, got %d", e.BatchLimit)
	r.say(e.BlockTokens >= 1, "block_tokens: must be at least 1, got %d", e.BlockTokens)
	r.say(e.CacheBlocks >= 0, "cache_blocks: must not be negative, got %d", e.CacheBlocks)
	r.say(e.KVTokens >= 1, "kv_tokens: must be at least 1, got %d", e.KVTokens)
	r.say(e.TemplateTokens >= 0 && e.TemplateTokens <= 1<<16, "template_tokens: must be 0 to 65536, got %d", e.TemplateTokens)
	r.say(e.Cold.Factor >= 0 && e.Cold.Factor <= 1e4, "cold.factor: must be 0 to 10000, got %v", e.Cold.Factor)
	r.say(e.Cold.Factor == 0 || e.Cold.Decay > 0, "cold.decay: must be above 0 where cold.factor is set")
	r.say(math.Abs(e.DriftPercentPerMinute) <= 1e4, "drift_percent_per_minute: must be -10000 to 10000, got %v",
		e.DriftPercentPerMinute)
	s := e.Stall
	r.say(s.Times >= 0, "stall.times: must not be negative, got %d", s.Times)
	r.say(s.Every > 0 || (s.For == 0 && s.Times == 0), "stall.every: must be above 0 where stall.for is set")
	r.say(s.Every == 0 || s.For < s.Every || s.Times == 1, "stall.for: must be below stall.every unless stall.times is 1")
	for i, f := range e.SpeedByStart {
		r.say(f > 0 && f <= 1e4, "speed_by_start[%d]: must be above 0 and at most 10000, got %v", i, f)
	}
	r.say(e.StateEnv != "" || len(e.SpeedByStart) == 0, "state_env: must be set where speed_by_start is")
}

func (o Output) check(r *rules) {
	r.say(o.DefaultTokens >= 1 && o.DefaultTokens <= maxOutput, "default_tokens: must be 1 to %d, got %d", maxOutput,
		o.DefaultTokens)
	r.say(o.TokensPerEvent >= 1, "tokens_per_event: must be at least 1, got %d", o.TokensPerEvent)
	r.say(o.EventsPerWrite >= 1, "events_per_write: must be at least 1, got %d", o.EventsPerWrite)
	n := o.NaturalTokens
	r.say(n == Span{} || (n.Min >= 1 && n.Min <= n.Max), "natural_tokens: needs 1 <= min <= max, got %d to %d", n.Min, n.Max)
}

func (t Trouble) check(r *rules) {
	for i, f := range t.Errors {
		f.check(r, fmt.Sprintf("errors[%d]", i))
	}
	r.say(t.Delay.Every >= 0, "delay.every: must not be negative, got %d", t.Delay.Every)
	r.say(t.Delay.Every > 0 || t.Delay.For == 0, "delay.every: must be above 0 where delay.for is set")
}

func (f Fault) check(r *rules, at string) {
	r.say(f.Kind.known(), "%s.kind: unknown %q: known are %s", at, clip(string(f.Kind), 40), kindList)
	r.say((f.Every > 0) != (f.Share > 0), "%s: needs either every or share", at)
	r.say(f.Every >= 0 && f.After >= 0, "%s: every and after must not be negative", at)
	r.say(f.Share >= 0 && f.Share <= 1, "%s.share: must be 0 to 1, got %v", at, f.Share)
	r.say(f.Burst >= 0 && f.Burst <= max(f.Every, 0), "%s.burst: must be 0 to every, got %d", at, f.Burst)
}

func (l Life) check(r *rules) {
	k := l.Start.InferenceFailure
	r.say(k == "" || k.known(), "start.inference_failure: unknown %q: known are %s", clip(string(k), 40), kindList)
	if l.RefuseStart != nil {
		r.say(l.RefuseStart.Code >= 1 && l.RefuseStart.Code <= 255, "refuse_start.code: must be 1 to 255, got %d",
			l.RefuseStart.Code)
	}
	if l.Exit != nil {
		r.say(l.Exit.Code >= 0 && l.Exit.Code <= 255, "exit.code: must be 0 to 255, got %d", l.Exit.Code)
		r.say(l.Exit.AfterRequests > 0 || l.Exit.After > 0, "exit: needs after_requests or after")
	}
	r.say(l.Children.Count >= 0 && l.Children.Count <= 64, "children.count: must be 0 to 64, got %d", l.Children.Count)
}
