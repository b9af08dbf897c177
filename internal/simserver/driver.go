package simserver

import (
	"math"
	"sync"
)

// never is a deadline that does not come.
const never = math.MaxInt64

// driver runs an engine against the clock. One goroutine sleeps until the engine's next deadline; whoever brings or takes
// a request advances the engine too, under the same lock. Safe for concurrent use.
type driver struct {
	clock clock
	alarm *alarm

	mu      sync.Mutex
	engine  *engine
	target  int64 // what the sleeper sleeps for; guarded by mu
	stopped bool
}

func newDriver(e *engine, c clock) (*driver, error) {
	a, err := newAlarm(c)
	if err != nil {
		return nil, err
	}
	return &driver{clock: c, alarm: a, engine: e, target: never}, nil
}

// run is the sleeper, and ends after stop. Deadlines are absolute: waking late delays the tokens of one step and none
// after it.
func (d *driver) run() {
	defer d.alarm.close()
	for d.settle() {
		d.alarm.wait()
	}
}

// settle advances the engine to now and sets the alarm; false after stop.
func (d *driver) settle() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return false
	}
	d.engine.advance(d.clock.now())
	d.aim(d.following())
	return true
}

// following is the engine's next deadline.
func (d *driver) following() int64 {
	if at, ok := d.engine.next(); ok {
		return at
	}
	return never
}

// aim sets the alarm. An open timer takes every instant, so a failure is a bug.
func (d *driver) aim(at int64) {
	d.target = at
	if err := d.alarm.set(at); err != nil {
		panic(err)
	}
}

// submit brings a request. Usually its first deadline lies behind what the sleeper waits for, and the alarm stays.
func (d *driver) submit(s *sequence) {
	d.change(func(*engine) { d.engine.arrive(s) })
}

// cancel drops a request whose client has gone.
func (d *driver) cancel(s *sequence) {
	d.change(func(e *engine) { e.cancel(s, d.clock.now()) })
}

// look reads the engine while it stands still.
func (d *driver) look(read func(*engine)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	read(d.engine)
}

// change applies what an outsider did and brings the alarm forward if the sleeper would now oversleep.
func (d *driver) change(do func(*engine)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do(d.engine)
	d.engine.advance(d.clock.now())
	if at := d.following(); !d.stopped && at < d.target {
		d.aim(at)
	}
}

// stop ends run. Sequences still inside get no more tokens.
func (d *driver) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.stopped = true
		d.aim(0)
	}
}
