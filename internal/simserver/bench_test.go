package simserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a server in a process of its own, so that its CPU time can be told from the load's.
type process struct {
	cmd  *exec.Cmd
	addr string
}

func startProcess(b *testing.B, cfg Config) *process {
	b.Helper()
	exe, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	data, err := json.Marshal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(b.Context(), exe)}
	p.cmd.Env = append(os.Environ(), childEnv+"=server", serveCfg+"="+string(data))
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fscanf(bufio.NewReader(out), "listening on http://%s", &p.addr); err != nil {
		b.Fatal(err)
	}
	return p
}

// stop ends the process and says how much CPU time it took in all.
func (p *process) stop(b *testing.B) time.Duration {
	b.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// line is a kept-alive connection that reads as little as a client can.
type line struct {
	net.Conn
	buf []byte
}

func dial(ctx context.Context, addr string) (*line, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	return &line{Conn: c, buf: make([]byte, 64<<10)}, err
}

// ask sends a request and reads until the answer's last bytes.
func (l *line) ask(request, end []byte) error {
	if _, err := l.Write(request); err != nil {
		return err
	}
	kept := 0
	for {
		n, err := l.Read(l.buf[kept:])
		if err != nil {
			return err
		}
		if bytes.HasSuffix(l.buf[:kept+n], end) {
			return nil
		}
		kept = copy(l.buf, l.buf[max(kept+n-len(end), 0):kept+n])
	}
}

var chunkedEnd = []byte("data: [DONE]\n\n\r\n0\r\n\r\n")

func wire(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, len(body), body)
}

// BenchmarkDemoLoad offers what the demo offers, 400 requests a second for ten seconds, and reports the server's share
// of a core and the lateness of its writes against the model.
func BenchmarkDemoLoad(b *testing.B) {
	const rate, length = 400.0, 10 * time.Second
	for b.Loop() {
		cfg := Demo()
		cfg.TruthLog = filepath.Join(b.TempDir(), "truth.jsonl")
		p := startProcess(b, cfg)
		offer(b, p.addr, rate, length)
		cpu := p.stop(b)
		b.ReportMetric(cpu.Seconds()/length.Seconds(), "cores")
		reportLateness(b, cfg.TruthLog)
	}
}

// offer sends Poisson arrivals with the demo's prompts and outputs.
func offer(b *testing.B, addr string, rate float64, length time.Duration) {
	b.Helper()
	r := rand.New(rand.NewPCG(11, 13))
	idle := make(chan *line, 1024)
	var wg sync.WaitGroup
	begin := time.Now()
	for at := 0.0; at < length.Seconds(); at += r.ExpFloat64() / rate {
		n := int(math.Exp(math.Log(300) - 0.08 + 0.4*r.NormFloat64()))
		request := wire(chatPath, fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"stream":true,"max_tokens":%d}`,
			tokens(max(n, 1), fmt.Sprintf("w%d", r.IntN(1e6))), 4+r.IntN(9)))
		time.Sleep(time.Until(begin.Add(time.Duration(at * float64(time.Second)))))
		wg.Go(func() {
			var l *line
			var err error
			select {
			case l = <-idle:
			default:
				l, err = dial(b.Context(), addr)
			}
			if err == nil {
				err = l.ask(request, chunkedEnd)
			}
			if err != nil {
				b.Error(err)
				return
			}
			idle <- l
		})
	}
	wg.Wait()
	close(idle)
	for l := range idle {
		_ = l.Close()
	}
}

// reportLateness compares each write's stamp with the instant the model gave its token.
func reportLateness(b *testing.B, path string) {
	b.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	entries, err := ReadTruth(data)
	if err != nil {
		b.Fatal(err)
	}
	var late, ttft []int64
	for _, e := range entries {
		if e.Outcome != "ok" || len(e.DueNS) != len(e.WroteNS) {
			b.Fatalf("entry %+v", e)
		}
		for i, due := range e.DueNS {
			late = append(late, e.WroteNS[i]-due)
		}
		ttft = append(ttft, e.WroteNS[0]-e.ArrivedNS)
	}
	slices.Sort(late)
	slices.Sort(ttft)
	at := func(v []int64, q float64) float64 { return float64(v[int(q*float64(len(v)-1))]) }
	b.ReportMetric(at(late, 0.5)/1e3, "late-p50-µs")
	b.ReportMetric(at(late, 0.99)/1e3, "late-p99-µs")
	b.ReportMetric(at(late, 1)/1e3, "late-max-µs")
	b.ReportMetric(at(ttft, 0.5)/1e6, "ttft-p50-ms")
	b.ReportMetric(float64(len(entries)), "requests")
}

// BenchmarkEventCeiling is how many events a second leave the server when the model is no limit, each with a write of
// its own, and eight to a write.
func BenchmarkEventCeiling(b *testing.B) {
	const streams, each = 16, 20_000
	for _, perWrite := range []int{1, 8} {
		b.Run(fmt.Sprintf("per-write=%d", perWrite), func(b *testing.B) {
			cfg := quick(func(c *Config) { c.EventsPerWrite = perWrite })
			p := startProcess(b, cfg)
			request := wire(completionPath, fmt.Sprintf(`{"prompt":"a","stream":true,"max_tokens":%d}`, each))
			n := 0
			for b.Loop() {
				inParallel(b, p.addr, streams, func(l *line) error { return l.ask(request, chunkedEnd) })
				n++
			}
			b.ReportMetric(float64(n*streams*each)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(p.stop(b).Seconds()/b.Elapsed().Seconds(), "cores")
		})
	}
}

// BenchmarkRequestCeiling is how many small answers a second the server gives that are not streamed.
func BenchmarkRequestCeiling(b *testing.B) {
	const lines, each = 16, 500
	p := startProcess(b, quick())
	request := wire(completionPath, `{"prompt":"a b c d","max_tokens":4}`)
	n := 0
	for b.Loop() {
		inParallel(b, p.addr, lines, func(l *line) error {
			for range each {
				if err := l.ask(request, []byte("}}}")); err != nil {
					return err
				}
			}
			return nil
		})
		n++
	}
	b.ReportMetric(float64(n*lines*each)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(p.stop(b).Seconds()/b.Elapsed().Seconds(), "cores")
}

func inParallel(b *testing.B, addr string, n int, work func(*line) error) {
	b.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			l, err := dial(b.Context(), addr)
			if err == nil {
				defer func() { _ = l.Close() }()
				err = work(l)
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
}

// BenchmarkEngine is the model alone: a token's cost with 100 sequences in the batch.
func BenchmarkEngine(b *testing.B) {
	cfg := Demo().Engine
	e := newEngine(cfg, 0, 1)
	for range 100 {
		e.arrive(sequenceOf(cfg, job{prompt: "a", output: math.MaxInt}, discard{}))
	}
	e.advance(int64(time.Second))
	before := e.tally.generatedTokens
	for b.Loop() {
		at, _ := e.next()
		e.advance(at)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(e.tally.generatedTokens-before), "ns/token")
}

type discard struct{}

func (discard) token(int64) {}

// BenchmarkEventText is the cost of an event's bytes; it must not allocate.
func BenchmarkEventText(b *testing.B) {
	c := &call{model: "sim", prompt: promptOf(16, strings.Repeat("w ", 300))}
	f := newForm(chatDialect(), c, "sim-00000001", 1700000000)
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		f.written = 0
		buf = f.tokens(buf[:0], 1, "", 1, 2)
	}
}
