package selftest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Alone is what the server gives to a reader that looks at nothing: the ceilings that no client can pass here.
type Alone struct {
	// EventsPerS is over streams without pauses, each event a write of its own, read seldom and many at once: what the
	// server can write.
	EventsPerS Figure `json:"events_per_s"`
	// EventsReadPerS is the same with a reader that is woken for each event, which costs both sides: what there is to
	// reach for a client on the same cores.
	EventsReadPerS Figure `json:"events_read_per_s"`
	// RequestsPerS is over small answers, one request in flight on each connection.
	RequestsPerS Figure `json:"requests_per_s"`
}

const (
	// aloneLines is how many connections the plain reader has.
	aloneLines = 32
	// streamEnd is how a stream of the truth server ends.
	streamEnd = "data: [DONE]\n\n\r\n0\r\n\r\n"
)

// MeasureAlone drives the server of o for o.Length in each way.
func MeasureAlone(ctx context.Context, o Options) Alone {
	count := func(o Options, end string, rest time.Duration, each int) Figure {
		n, took, err := drain(ctx, o, []byte(end), rest)
		if err != nil {
			return na(fmt.Sprintf("the server could not be read: %v", err))
		}
		return of(float64(n*each) / took.Seconds())
	}
	streams, small := o, o
	streams.Streams, streams.RPS, streams.Connections, streams.EventsPerS = aloneLines, 0, 0, 0
	small.Streams, small.RPS, small.Connections = 0, 0, aloneLines
	return Alone{
		EventsPerS:     count(streams, streamEnd, 2*time.Millisecond, unpacedEvents),
		EventsReadPerS: count(streams, streamEnd, 0, unpacedEvents),
		RequestsPerS:   count(small, "}}}", 0, 1),
	}
}

// drain sends one request after the other on each connection, waits for the last bytes of each answer, and rests between
// two reads.
func drain(ctx context.Context, o Options, end []byte, rest time.Duration) (answers int, took time.Duration, err error) {
	if o, err = o.complete(); err != nil {
		return 0, 0, err
	}
	d, err := newDrive(o, "alone")
	if err != nil {
		return 0, 0, err
	}
	defer d.client.Close()
	r, err := d.client.Encode(0, d.w, d.turn)
	if err != nil {
		return 0, 0, err
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, aloneLines)
	began := time.Now()
	until := began.Add(o.Length)
	for range aloneLines {
		wg.Go(func() {
			n, err := ask(ctx, d.client.Address(), r.Wire, end, rest, until)
			total.Add(int64(n))
			if err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	took = time.Since(began)
	select {
	case err = <-errs:
	default:
	}
	return int(total.Load()), took, err
}

func ask(ctx context.Context, address string, wire, end []byte, rest time.Duration, until time.Time) (answers int, err error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(until.Add(10 * time.Second)); err != nil {
		return 0, err
	}
	buf := make([]byte, 256<<10)
	for time.Now().Before(until) && ctx.Err() == nil {
		if _, err := c.Write(wire); err != nil {
			return answers, err
		}
		for kept := 0; ; {
			n, err := c.Read(buf[kept:])
			if err != nil {
				return answers, err
			}
			n += kept
			if bytes.HasSuffix(buf[:n], end) {
				break
			}
			if rest > 0 && pause(ctx, rest) != nil {
				return answers, nil
			}
			kept = copy(buf, buf[max(n-len(end), 0):n])
		}
		answers++
	}
	return answers, nil
}
