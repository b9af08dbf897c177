package runner

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// cpuWindow is how often the client's own CPU time is read; heldWindows how many windows in a row tell of a lasting
	// load.
	cpuWindow   = time.Second
	heldWindows = 5
	schedMetric = "/sched/latencies:seconds"
)

// meters read what the runtime and the kernel say of this process: what it used between begin and end.
type meters struct {
	cores      int
	began      reading
	ended      reading
	windows    []float64
	stop, done chan struct{}
}

// reading is every meter at one moment.
type reading struct {
	at    time.Time
	cpu   time.Duration
	pause time.Duration
	gcs   int64
	sched *metrics.Float64Histogram
}

// read takes a reading. The total of the pauses comes from the collector's own sum; the runtime's histogram of pauses has
// buckets a quarter apart, too coarse for a limit on a sum.
func read() reading {
	var gc debug.GCStats
	debug.ReadGCStats(&gc)
	// A fresh sample each time: the runtime fills the histogram it is given.
	s := []metrics.Sample{{Name: schedMetric}}
	metrics.Read(s)
	r := reading{at: time.Now(), cpu: ownCPU(), pause: gc.PauseTotal, gcs: gc.NumGC}
	if s[0].Value.Kind() == metrics.KindFloat64Histogram {
		r.sched = s[0].Value.Float64Histogram()
	}
	return r
}

// begin starts the meters, end reads them again. Both belong to one goroutine.
func (m *meters) begin(cores int) {
	m.cores, m.began, m.windows = cores, read(), nil
	m.stop, m.done = make(chan struct{}), make(chan struct{})
	go m.watch()
}

func (m *meters) end() {
	close(m.stop)
	<-m.done
	m.ended = read()
}

// watch reads the CPU time once a second. A tick that comes late makes its window longer, not busier.
func (m *meters) watch() {
	defer close(m.done)
	tick := time.NewTicker(cpuWindow)
	defer tick.Stop()
	at, cpu := m.began.at, m.began.cpu
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
		}
		now, used := time.Now(), ownCPU()
		if now.Sub(at) < cpuWindow/2 {
			continue // the rest of a late window, too short to be one
		}
		m.windows = append(m.windows, m.share(used-cpu, now.Sub(at)))
		at, cpu = now, used
	}
}

// share is CPU time as a fraction of what the cores could have given.
func (m *meters) share(cpu, wall time.Duration) float64 {
	return cpu.Seconds() / wall.Seconds() / float64(max(m.cores, 1))
}

func (m *meters) fill(c *record.ClientReport) {
	c.CPU, c.GCPause, c.GCCount, c.SchedP99 = record.NA(""), record.NA(""), record.NA(""), record.NA("")
	if wall := m.ended.at.Sub(m.began.at); wall > 0 && !m.began.at.IsZero() {
		c.CPU = record.Of(m.share(m.ended.cpu-m.began.cpu, wall))
		c.GCPause = record.Of((m.ended.pause - m.began.pause).Seconds() * 1e3)
		c.GCCount = record.Of(float64(m.ended.gcs - m.began.gcs))
		c.SchedP99 = grownPercentile(m.began.sched, m.ended.sched, 0.99)
	}
	c.CPUMax, c.CPUHeld = record.NA("shorter than one second"), record.NA("shorter than five seconds")
	if len(m.windows) > 0 {
		c.CPUMax = record.Of(highest(m.windows, 1))
	}
	if len(m.windows) >= heldWindows {
		c.CPUHeld = record.Of(highest(m.windows, heldWindows))
	}
}

// highest is the largest value that n windows in a row all reached.
func highest(windows []float64, n int) float64 {
	best := 0.0
	for i := 0; i+n <= len(windows); i++ {
		low := math.Inf(1)
		for _, w := range windows[i : i+n] {
			low = min(low, w)
		}
		best = max(best, low)
	}
	return best
}

// grownPercentile is the nearest-rank percentile of what a histogram of seconds gained, ms: the lower edge of its bucket.
func grownPercentile(from, to *metrics.Float64Histogram, q float64) record.Value {
	if from == nil || to == nil || len(from.Counts) != len(to.Counts) {
		return record.NA("the runtime does not tell")
	}
	n := uint64(0)
	for i, k := range to.Counts {
		n += k - from.Counts[i]
	}
	if n == 0 {
		return record.NA("no goroutine was seen to wait")
	}
	rank, below := uint64(math.Ceil(q*float64(n))), uint64(0)
	for i, k := range to.Counts {
		if below += k - from.Counts[i]; below >= rank {
			return record.Of(max(0, to.Buckets[i]) * 1e3)
		}
	}
	return record.NA("the runtime does not tell")
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
