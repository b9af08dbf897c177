package target

import (
	"context"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// freeEvery is the pause between two looks at the port and the devices.
	freeEvery = 100 * time.Millisecond
	// cancelWait is what a cancelled stop still waits for the port and the devices.
	cancelWait = 500 * time.Millisecond
	// staleLimit is how long a reading of the devices is waited for before nothing counts as proven.
	staleLimit = 10 * time.Second
	// unprovenPause stands in for a proof that the devices cannot give.
	unprovenPause = 5 * time.Second
	// memoryTimeout is how long the devices may take by default.
	memoryTimeout = time.Minute
)

// proof is the rule by which a server is gone, without sockets and devices, so that minutes of it can be tested in no time.
type proof struct {
	port      func() bool
	portLimit time.Duration
	// memory is nil where no GPU is watched.
	memory      func() freedom
	memoryLimit time.Duration
}

// evidence is what a proof came to.
type evidence struct {
	port   time.Duration
	memory record.Value
	// unproven says why nothing is known of the devices.
	unproven string
	// portHeld and memoryHeld are what failed; memoryHeld names the device.
	portHeld   bool
	memoryHeld string
}

// wait looks at the port and the devices until both are free, both waits counted from now, or until one of them has had its
// time. When ctx ends, or has ended, half a second is left.
func (p proof) wait(ctx context.Context) evidence {
	w := &proving{proof: p, began: time.Now(), out: evidence{memory: record.NA("no GPU is watched")}, memoryDone: p.memory == nil}
	tick := time.NewTicker(freeEvery)
	defer tick.Stop()
	done := ctx.Done()
	for !w.look() {
		if done != nil && ctx.Err() != nil {
			done = nil
			w.hurry()
		}
		select {
		case <-done:
		case <-tick.C:
		}
	}
	return w.out
}

// proving is one wait.
type proving struct {
	proof
	began                time.Time
	looked, cancelled    bool
	portDone, memoryDone bool
	// pause is how long to wait in any case.
	pause time.Duration
	out   evidence
}

func (w *proving) hurry() {
	limit := time.Since(w.began) + cancelWait
	w.portLimit, w.memoryLimit, w.cancelled, w.pause = min(w.portLimit, limit), min(w.memoryLimit, limit), true, 0
}

// look looks once and reports whether the wait is over.
func (w *proving) look() bool {
	waited := time.Since(w.began)
	if !w.looked {
		w.looked, waited = true, 0 // what is free at once was not waited for
	}
	if !w.portDone && w.port() {
		w.portDone, w.out.port = true, waited
	}
	var state freedom
	if !w.memoryDone {
		state = w.memory()
		w.judge(state, waited)
	}
	switch {
	case w.portDone && w.memoryDone:
		return waited >= w.pause
	case !w.portDone && waited >= w.portLimit:
		w.out.portHeld, w.out.port = true, waited
		return true
	case !w.memoryDone && waited >= w.memoryLimit:
		w.out.memoryHeld, w.out.memory = state.text, record.Of(waited.Seconds())
		return true
	default:
		return false
	}
}

// judge closes the question of the devices when it can be.
func (w *proving) judge(state freedom, waited time.Duration) {
	switch {
	case state.free:
		w.memoryDone, w.out.memory = true, record.Of(waited.Seconds())
	case state.text != "": // held: what is known of the others does not matter yet
	case state.unproven != "":
		w.giveUp(state.unproven)
	case state.stale && (waited >= staleLimit || waited >= w.memoryLimit):
		w.giveUp("no reading of the GPU came after the server's end")
	}
}

func (w *proving) giveUp(why string) {
	w.memoryDone, w.out.memory, w.out.unproven = true, record.NA(why), why
	if !w.cancelled {
		w.pause = unprovenPause
	}
}
