package selftest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/pace"
	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// lookAhead is how long before its due time a request is serialised and its goroutine started, as in a round.
const lookAhead = 2 * time.Second

// answer is what is kept of one request.
type answer struct {
	id     string
	class  record.Outcome
	detail string
	// sched is absent in a closed loop before the request was sent.
	sched, pick, first, end record.Instant
	// gaps holds ns between payload events, the first 0.
	gaps  []int64
	reads int
	// wrote is whether the request's last byte was sent.
	wrote bool
	// measured is false for warm-up traffic.
	measured bool
}

// drive sends the requests of one run.
type drive struct {
	o      Options
	name   string
	client *client.Client
	w      *workload.Workload
	turn   workload.Request

	start, m0 record.Instant
	flying    sync.WaitGroup
	results   chan answer
	ended     atomic.Int64
	usage     usage
}

func newDrive(o Options, name string) (*drive, error) {
	c, err := o.client(name)
	if err != nil {
		return nil, err
	}
	turn := workload.Turn{
		ID: "t", Conv: "t", N: 1, InTokens: 8, Prompt: &workload.Text{Inline: "say what time it is, please, once more"},
		Out: workload.Output{Mode: workload.Force, Tokens: o.events()},
	}
	w, err := workload.New(workload.Manifest{
		Name: "self-test", Version: 1, Seed: "0", Source: workload.Source{Importer: "synthetic"},
		Output: workload.OutputPolicy{Mode: workload.Force},
	}, []workload.Turn{turn}, nil)
	if err != nil {
		return nil, err
	}
	return &drive{o: o, name: name, client: c, w: w, turn: workload.Request{Turn: &w.Turns[0]}, results: make(chan answer, 4096)}, nil
}

// run sends everything and returns when every answer has ended.
func (d *drive) run(ctx context.Context) ([]answer, error) {
	var kept []answer
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for a := range d.results {
			kept = append(kept, a)
		}
	}()
	defer pace.Calm()()
	stop := d.report()
	d.usage.clock, d.usage.pid = d.o.Clock, d.o.ServerPID
	d.usage.watch()
	err := d.offer(ctx)
	d.flying.Wait()
	d.usage.close()
	stop()
	close(d.results)
	<-collected
	if err == nil {
		err = ctx.Err()
	}
	return kept, err
}

// offer releases the requests and, at the end of the warm-up, opens the books.
func (d *drive) offer(ctx context.Context) error {
	if d.o.rate() == 0 {
		return d.closedLoop(ctx)
	}
	return d.openLoop(ctx)
}

// report calls Progress once a second until stopped.
func (d *drive) report() (stop func()) {
	if d.o.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				d.o.Progress(int(d.ended.Load()))
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// begins sets the start, and with it the measured interval.
func (d *drive) begins(start record.Instant) {
	d.start, d.m0 = start, start+record.Instant(d.o.Warmup)
	d.usage.measure(d.m0, d.m0+record.Instant(d.o.Length))
}

// due lists the instants of an open loop: evenly spaced, half a gap off the edges, so that a second holds what it should.
func (d *drive) due() []record.Instant {
	rate := d.o.rate()
	n := int((d.o.Warmup+d.o.Length).Seconds()*rate + 0.5)
	due := make([]record.Instant, n)
	for i := range due {
		due[i] = d.start + record.Instant((float64(i)+0.5)/rate*1e9)
	}
	return due
}

func (d *drive) openLoop(ctx context.Context) error {
	// Time to serialise the first requests and to start their goroutines.
	d.begins(d.o.Clock.Now() + record.Instant(200*time.Millisecond))
	due := d.due()
	release, early := make([]chan record.Instant, len(due)), make([]client.Handover, len(due))
	for i := range release {
		release[i] = make(chan record.Instant, 1)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := make(chan error, 1)
	var preparing sync.WaitGroup
	preparing.Go(func() {
		for i, at := range due {
			if pause(ctx, d.o.Clock.Until(at)-lookAhead) != nil {
				return // cancelled; the caller knows
			}
			if err := d.launch(ctx, i, at, release[i], &early[i]); err != nil {
				broken <- err
				cancel()
				return
			}
		}
	})
	err := pace.Run(ctx, d.o.Clock, due, func(i int, pick record.Instant) {
		early[i].Write()
		release[i] <- pick
	})
	preparing.Wait()
	select {
	case err = <-broken:
	default:
	}
	d.flying.Wait() // before cancel: answers are read to their end
	return err
}

// launch prepares one request and starts the goroutine that waits for its release.
func (d *drive) launch(ctx context.Context, seq int, due record.Instant, release <-chan record.Instant, early *client.Handover) error {
	r, err := d.client.Encode(seq, d.w, d.turn)
	if err != nil {
		return err
	}
	r.Sched, r.Early = due, early
	d.flying.Go(func() { d.keep(d.client.Do(ctx, r, release)) })
	return nil
}

// closedLoop keeps as many requests in flight as the options say. Each is a copy of one that was serialised before, as
// those of a round are.
func (d *drive) closedLoop(ctx context.Context) error {
	pattern, err := d.client.Encode(0, d.w, d.turn)
	if err != nil {
		return err
	}
	d.begins(d.o.Clock.Now())
	until := d.m0 + record.Instant(d.o.Length)
	var sent atomic.Int64
	for range d.o.closed() {
		d.flying.Go(func() {
			release := make(chan record.Instant, 1)
			for ctx.Err() == nil {
				now := d.o.Clock.Now()
				n := sent.Add(1)
				if now >= until || d.o.Requests > 0 && n > int64(d.o.Requests) {
					return
				}
				r := *pattern
				r.Seq, r.Sched = int(n-1), now
				release <- now
				d.keep(d.client.Do(ctx, &r, release))
			}
		})
	}
	return nil
}

// keep hands on what the summary needs of a sample.
func (d *drive) keep(s record.Sample, st record.Stream) {
	d.ended.Add(1)
	d.results <- answer{
		id: s.RequestID, class: s.Class, detail: s.Detail, sched: s.Sched, pick: s.Pick, first: s.First, end: s.End,
		gaps: st.T, reads: s.Reads, wrote: s.Wrote.Reached(), measured: s.Sched >= d.m0,
	}
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
