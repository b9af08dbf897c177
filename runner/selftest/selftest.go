package selftest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Options say what to offer to which server. Exactly one of Streams, RPS and Connections is set.
type Options struct {
	// URL is that of a server of known truth, which takes the request headers X-Truth-Run (the name of the run, the
	// prefix of each answer's x-request-id), X-Truth-First and X-Truth-Gap (Go durations).
	URL string
	// Truth gives what the server knows of the named run, once its last answer has ended. Nil: errors are not measured.
	Truth func(ctx context.Context, run string) ([]Truth, error)
	// Clock is that of the run; the zero Clock starts one.
	Clock record.Clock

	// Streams is how many streams are open at once: an open loop of evenly spaced arrivals, each answer StreamFor long.
	Streams int
	// EventsPerS is the rate of one stream. 0: the server writes as fast as it can, in a closed loop of Streams.
	EventsPerS float64
	// StreamFor is the length of one answer; 0 means 1 s, or longer where fewer than 10 events or more than 1,000 arrivals a
	// second would come of it. Of Warmup + Length or more: all streams are opened once, evenly over that time, and are
	// then open at once. Without EventsPerS an answer has 5,000 events.
	StreamFor time.Duration
	// First is the server's time to the first event; 0 means 50 ms.
	First time.Duration
	// RPS is an open loop of small answers that are not streamed, evenly spaced, requests per second.
	RPS float64
	// Connections is a closed loop of small answers that are not streamed, one request in flight on each connection.
	Connections int

	// Length is how long requests are sent; 0 means 2 s. Streams that are open then are read to their end.
	Length time.Duration
	// Warmup is how long traffic of the same kind goes ahead, unmeasured; 0 is none.
	Warmup time.Duration
	// Requests ends a closed loop after so many; 0 is no such end.
	Requests int
	// ServerPID is the server's process, for its CPU time; 0 leaves that out.
	ServerPID int
	// Progress is called about once a second with the requests ended so far; nil for silence.
	Progress func(ended int)
}

// Truth is what the server knows of one answer. Instants are ns on its monotonic clock.
type Truth struct {
	// ID is the answer's x-request-id.
	ID string
	// Arrived is when the request's last byte had been read.
	Arrived int64
	// Wrote holds the readings just before the write of each event; one for an answer that is not streamed.
	Wrote []int64
	// OK is false when the client left before the end, or the request was refused.
	OK bool
}

// Run offers what o says and measures us. An error means that nothing could be measured; requests that failed are
// counted in the result by their class.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.complete()
	if err != nil {
		return Result{}, err
	}
	d, err := newDrive(o, "self-"+strings.ToLower(rand.Text()[:8]))
	if err != nil {
		return Result{}, err
	}
	defer d.client.Close()
	kept, err := d.run(ctx)
	if err != nil {
		return Result{}, err
	}
	var truths []Truth
	if o.Truth != nil {
		if truths, err = o.Truth(ctx, d.name); err != nil {
			return Result{}, fmt.Errorf("the truth server's log: %w", err)
		}
	}
	return summarise(o, d, kept, truths), nil
}

// complete fills in defaults and refuses what cannot be run.
func (o Options) complete() (Options, error) {
	kinds := 0
	for _, set := range []bool{o.Streams != 0, o.RPS != 0, o.Connections != 0} {
		if set {
			kinds++
		}
	}
	switch {
	case kinds != 1:
		return o, errors.New("self-test: want exactly one of streams, requests per second and connections")
	case o.Streams < 0 || o.EventsPerS < 0 || o.RPS < 0 || o.Connections < 0 || o.Length < 0 || o.Warmup < 0:
		return o, errors.New("self-test: counts, rates and times must not be negative")
	}
	if o.Clock == (record.Clock{}) {
		o.Clock = record.NewClock()
	}
	if o.StreamFor == 0 {
		o.StreamFor = max(time.Second, 10*o.gap(), time.Duration(o.Streams)*time.Millisecond)
	}
	if o.First == 0 {
		o.First = 50 * time.Millisecond
	}
	if o.Length == 0 {
		o.Length = 2 * time.Second
	}
	return o, nil
}

// gap is the time between the events of a stream.
func (o Options) gap() time.Duration {
	if o.EventsPerS == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / o.EventsPerS)
}

// unpacedEvents is the length of a stream that the server writes as fast as it can.
const unpacedEvents = 5000

// events is how many events each answer has.
func (o Options) events() int {
	switch {
	case o.Streams == 0:
		return 1
	case o.EventsPerS == 0:
		return unpacedEvents
	default:
		return max(int(o.StreamFor.Seconds()*o.EventsPerS+0.5), 1)
	}
}

// rate is the arrivals per second of an open loop; 0 in a closed one.
func (o Options) rate() float64 {
	switch {
	case o.RPS > 0:
		return o.RPS
	case o.Streams > 0 && o.EventsPerS > 0:
		life := o.First + time.Duration(o.events()-1)*o.gap()
		if all := o.Warmup + o.Length; o.StreamFor >= all {
			return float64(o.Streams) / all.Seconds()
		}
		return float64(o.Streams) / life.Seconds()
	default:
		return 0
	}
}

// closed is how many requests are in flight at once in a closed loop.
func (o Options) closed() int { return max(o.Connections, o.Streams) }

// client makes the client of a run: as a round makes it, with the headers that the truth server reads.
func (o Options) client(name string) (*client.Client, error) {
	return client.New(client.Options{
		URL: o.URL, Model: "plain", Limits: record.DefaultLimits(), Clock: o.Clock, NoStream: o.Streams == 0,
		Header: http.Header{
			"X-Truth-Run": {name}, "X-Truth-First": {o.First.String()}, "X-Truth-Gap": {o.gap().String()},
		},
	})
}

func cores() int { return runtime.NumCPU() }
