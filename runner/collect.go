package runner

import (
	"slices"
	"sync"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// collector owns the files of one round: it takes ended requests from a channel, appends them to disk and keeps the
// measured ones for the summary. Its fields may be read once close has returned.
type collector struct {
	writer *record.RoundWriter
	// seen is called for each ended request, on the collector's goroutine; nil for none.
	seen func(record.Sample)
	// tick is called once a second with what was measured so far.
	tick func(done, failed int, p50, p99 record.Value)
	// cause says why requests were cut, nil while they are not: a limit of the round makes another class of a cut request
	// than the user does.
	cause func() error
	// space is asked once a second whether there is room for more; nil for not at all.
	space func() error
	// broke is called with the first write error, so that a round does not go on measuring what it cannot keep.
	broke func(error)

	results chan result
	done    chan struct{}
	once    sync.Once

	samples []record.Sample
	streams []record.Stream
	latency []float64
	failed  int
	sent    sentTally
	err     error
}

// start makes the collector take results.
func (c *collector) start() *collector {
	// Deep enough that a slow disk does not hold up the goroutines that read answers.
	c.results, c.done = make(chan result, 4096), make(chan struct{})
	go c.loop()
	return c
}

// close waits until everything handed over is on its way to disk, and returns the first write error.
func (c *collector) close() error {
	c.once.Do(func() { close(c.results) })
	<-c.done
	return c.err
}

func (c *collector) loop() {
	defer close(c.done)
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case r, ok := <-c.results:
			if !ok {
				c.keep(c.writer.Flush())
				return
			}
			c.take(r)
		case <-second.C:
			c.keep(c.writer.Flush())
			if c.space != nil {
				c.keep(c.space())
			}
			if c.tick != nil {
				p50, p99 := c.soFar()
				c.tick(len(c.samples), c.failed, p50, p99)
			}
		}
	}
}

func (c *collector) take(r result) {
	reclassify(&r.sample, c.cause())
	if c.seen != nil {
		c.seen(r.sample)
	}
	c.keep(c.writer.Sample(r.sample, r.stream))
	c.sent.add(r.sample)
	if r.sample.Phase != record.PhaseMeasure {
		return
	}
	c.samples = append(c.samples, r.sample)
	c.streams = append(c.streams, r.stream)
	switch {
	case r.sample.Class.Failure():
		c.failed++
	case r.sample.First.Reached():
		c.latency = append(c.latency, time.Duration(r.sample.First-r.sample.Sched).Seconds()*1e3)
	case r.sample.End.Reached():
		c.latency = append(c.latency, time.Duration(r.sample.End-r.sample.Sched).Seconds()*1e3)
	}
}

// soFar is for the live view only: percentiles of the successes so far.
func (c *collector) soFar() (p50, p99 record.Value) {
	if len(c.latency) == 0 {
		return record.NA("nothing measured yet"), record.NA("nothing measured yet")
	}
	sorted := slices.Clone(c.latency)
	slices.Sort(sorted)
	return record.Of(record.Percentile(sorted, 0.5)), record.Of(record.Percentile(sorted, 0.99))
}

func (c *collector) keep(err error) {
	if c.err != nil || err == nil {
		return
	}
	c.err = err
	c.broke(err)
}
