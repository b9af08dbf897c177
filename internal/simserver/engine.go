package simserver

import (
	"container/heap"
	"slices"
	"time"
)

// sink receives the tokens of one sequence. It must not block.
type sink interface {
	// token says that one more token is due at the instant at.
	token(at int64)
}

// sequence is one request inside the engine. The caller sets the first block, the engine the rest.
type sequence struct {
	arrival int64 // when its last byte arrived
	hold    int64 // admission delay
	prompt  *prompt
	output  int // tokens to make, at least 1
	out     sink

	stage    stage
	order    uint64 // of arrival, for the queue and for ties
	key      int64  // deadline in the heap it lies in
	index    int    // place in that heap
	admitted int64  // when prefill began
	cached   int    // prompt tokens found in the prefix cache
	made     int    // tokens made
}

// stage is where a sequence is.
type stage int

const (
	outside  stage = iota // not handed over
	arriving              // on its way to the queue
	queued
	prefilling
	ready   // computed, waiting for the running step to end
	running // in the decode batch
	gone
)

// engine is the timing model in virtual time: arrivals in, due tokens out, no clock. Everything that happens has an
// instant that follows from the arrivals and the configuration; advancing late changes nothing. Not safe for concurrent
// use.
type engine struct {
	cfg   Engine
	tempo tempo
	cache *prefixCache

	arrivals deadlines // by arrival + hold
	queue    []*sequence
	prefills deadlines // by end of prefill
	ready    []*sequence
	batch    []*sequence
	stepping bool
	stepEnd  int64
	boundary int64 // the last step's end
	order    uint64
	now      int64 // how far it was advanced
	tally    tally
}

// tally is what the engine counted since its start.
type tally struct {
	promptTokens, generatedTokens int64
	cacheQueries, cacheHits       int64 // tokens
	admitted                      int   // requests with a place in the batch now
	heldTokens                    int64 // prompt and output tokens of those
}

// newEngine starts an engine whose time begins at origin; factor is this start's, from SpeedByStart.
func newEngine(cfg Engine, origin int64, factor float64) *engine {
	return &engine{
		cfg:   cfg,
		tempo: tempo{origin: origin, factor: factor, cold: cfg.Cold, drift: cfg.DriftPercentPerMinute, stall: cfg.Stall},
		cache: newPrefixCache(cfg.BlockTokens, cfg.CacheBlocks),
	}
}

// arrive hands a request over. Its arrival may lie a little before the instant the engine was advanced to, when the
// messenger was slow; prefill begins on time all the same.
func (e *engine) arrive(s *sequence) {
	e.order++
	s.order, s.stage, s.key = e.order, arriving, s.arrival+s.hold
	heap.Push(&e.arrivals, s)
}

// next is the earliest instant at which something happens; false when nothing will.
func (e *engine) next() (int64, bool) {
	at, what := e.peek()
	return at, what != nothing
}

// event is a kind of thing that happens. Of several at one instant the smallest goes first: a prefill that ends with a
// step joins it, and room that a step frees is there for who arrives then.
type event int

const (
	nothing event = iota
	prefillEnd
	stepEnd
	arrival
)

func (e *engine) peek() (int64, event) {
	at, what := int64(0), nothing
	consider := func(t int64, k event) {
		if what == nothing || t < at {
			at, what = t, k
		}
	}
	if len(e.prefills) > 0 {
		consider(e.prefills[0].key, prefillEnd)
	}
	if e.stepping {
		consider(e.stepEnd, stepEnd)
	}
	if len(e.arrivals) > 0 {
		consider(e.arrivals[0].key, arrival)
	}
	return at, what
}

// advance lets everything happen that is due up to the instant, in order.
func (e *engine) advance(to int64) {
	for {
		at, what := e.peek()
		if what == nothing || at > to {
			break
		}
		switch what {
		case prefillEnd:
			e.computed(at)
		case stepEnd:
			e.step(at)
		case arrival:
			s, _ := heap.Pop(&e.arrivals).(*sequence)
			s.stage = queued
			e.queue = append(e.queue, s)
			e.admit(at)
		case nothing:
		}
	}
	e.now = max(e.now, to)
}

// admit moves requests from the queue into free lanes, first come, first served.
func (e *engine) admit(at int64) {
	for len(e.queue) > 0 && len(e.prefills) < e.cfg.Lanes && e.tally.admitted < e.cfg.BatchLimit {
		s := e.queue[0]
		e.queue = e.queue[1:]
		s.stage, s.admitted, s.cached = prefilling, at, e.cache.lookup(s.prompt)
		fresh := s.prompt.tokens - s.cached
		s.key = e.tempo.end(at, time.Duration(fresh)*time.Duration(e.cfg.PrefillPerToken))
		heap.Push(&e.prefills, s)
		e.tally.admitted++
		e.tally.heldTokens += int64(s.prompt.tokens)
		e.tally.promptTokens += int64(s.prompt.tokens)
		if e.cfg.CacheBlocks > 0 {
			e.tally.cacheQueries += int64(s.prompt.tokens)
			e.tally.cacheHits += int64(s.cached)
		}
	}
}

// computed ends the earliest prefill. Its first token comes out with the running step, or at once if none runs.
func (e *engine) computed(at int64) {
	s, _ := heap.Pop(&e.prefills).(*sequence)
	e.cache.insert(s.prompt)
	s.stage = ready
	e.ready = append(e.ready, s)
	if !e.stepping {
		e.step(max(at, e.boundary))
	}
	e.admit(at)
}

// step ends a decode step: one token for each sequence in it, the first one for those that became ready meanwhile, and
// then the next step begins at the same instant.
func (e *engine) step(at int64) {
	e.batch = append(e.batch, e.ready...)
	e.ready = e.ready[:0]
	e.batch = slices.DeleteFunc(e.batch, func(s *sequence) bool {
		s.stage = running
		s.made++
		e.tally.generatedTokens++
		e.tally.heldTokens++
		s.out.token(at)
		if s.made < s.output {
			return false
		}
		e.release(s)
		return true
	})
	e.boundary = at
	e.stepping = len(e.batch) > 0
	if e.stepping {
		work := time.Duration(e.cfg.DecodeBase) + time.Duration(len(e.batch))*time.Duration(e.cfg.DecodePerSeq)
		e.stepEnd = e.tempo.end(at, work)
	}
	e.admit(at)
}

// release gives a sequence's place in the batch back.
func (e *engine) release(s *sequence) {
	s.stage = gone
	e.tally.admitted--
	e.tally.heldTokens -= int64(s.prompt.tokens + s.made)
}

// cancel drops a sequence, wherever it is; one that has ended is left alone. What it freed is used from the instant at.
func (e *engine) cancel(s *sequence, at int64) {
	is := func(other *sequence) bool { return other == s }
	switch s.stage {
	case arriving:
		heap.Remove(&e.arrivals, s.index)
		s.stage = gone
		return
	case queued:
		e.queue = slices.DeleteFunc(e.queue, is)
		s.stage = gone
		return
	case prefilling:
		heap.Remove(&e.prefills, s.index)
	case ready:
		e.ready = slices.DeleteFunc(e.ready, is)
	case running:
		e.batch = slices.DeleteFunc(e.batch, is) // the step it was in keeps its length
	case outside, gone:
		return
	}
	e.release(s)
	e.admit(max(at, e.now))
}

// waiting is how many requests have no place in the batch yet.
func (e *engine) waiting() int { return len(e.queue) + len(e.arrivals) }
