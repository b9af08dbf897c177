package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Listen begins to read the stream that url offers, with the measuring client and no part of any round. stop ends that and
// tells how late our stamps were; it must be called, once, and waits for the reading goroutine. When the stream broke
// before, the report covers what came, or says why nothing did.
func Listen(ctx context.Context, url string, clock record.Clock) (stop func() record.CanaryReport, err error) {
	zero, err := join(clock)
	if err != nil {
		return nil, fmt.Errorf("canary: clock: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	heard := make(chan record.CanaryReport, 1)
	go func() {
		s, t, err := client.Once(ctx, client.Options{URL: url, Model: "canary", Clock: clock}, nil, true)
		if err != nil {
			heard <- record.NoCanary(err.Error())
			return
		}
		heard <- report(s, t, zero, ctx.Err() != nil)
	}()
	return func() record.CanaryReport {
		cancel()
		return <-heard
	}, nil
}

// join finds the CLOCK_MONOTONIC time of the clock's instant 0. Of several tries the narrowest counts: it bounds the error
// of the join to well below a microsecond.
func join(clock record.Clock) (int64, error) {
	best, zero := record.Instant(0), int64(0)
	for range 5 {
		before := clock.Now()
		now, err := monotonic()
		if err != nil {
			return 0, err
		}
		after := clock.Now()
		if width := after - before; best == 0 || width < best {
			best, zero = max(width, 1), now-int64(before)-int64(width)/2
		}
	}
	return zero, nil
}

// report compares stamps. ended says that we ended the stream; otherwise it broke, and its last events are missing.
func report(s record.Sample, t client.Trace, zero int64, ended bool) record.CanaryReport {
	late, err := lateness(s, t, zero)
	switch {
	case err != nil:
		return record.NoCanary(err.Error())
	case !ended:
		return record.NoCanary(fmt.Sprintf("the canary's stream broke after %d events: %s", len(late), s.Detail))
	case len(late) == 0:
		return record.NoCanary("no event came")
	}
	slices.Sort(late)
	return record.CanaryReport{
		Events: len(late), P50: record.Of(record.Percentile(late, 0.5)), P99: record.Of(record.Percentile(late, 0.99)),
		Max: record.Of(late[len(late)-1]),
	}
}

// lateness lists, per event, our stamp minus the one it carries, ms.
func lateness(s record.Sample, t client.Trace, zero int64) ([]float64, error) {
	if len(t.Choices) == 0 {
		return nil, nil
	}
	stamps := strings.Fields(t.Choices[0].Text)
	if len(stamps) != len(t.Stream.T) {
		return nil, errors.New("the canary's events and stamps differ in number")
	}
	late := make([]float64, len(stamps))
	at := int64(s.First)
	for i, text := range stamps {
		wrote, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the canary's stamp %d is no number", i)
		}
		at += t.Stream.T[i]
		late[i] = time.Duration(at-(wrote-zero)).Seconds() * 1e3
	}
	return late, nil
}
