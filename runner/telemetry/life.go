package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// How long a sensor has to leave: by itself after its stdin closed, and after SIGKILL before it is given up.
const (
	leaveGrace = 2 * time.Second
	killGrace  = 5 * time.Second
)

// life is one process of a sensor, from start to end. One goroutine owns it.
type life struct {
	*sensor
	watch watchdog
	// announced is the driver symbol that the sensor named last on stderr.
	announced atomic.Value
	hello     bool
}

// live starts the process and attends to it until it ended or must end. It never waits for a process that SIGKILL does
// not end.
func (l *life) live(ctx context.Context) ending {
	p, err := l.launch(l.args())
	if err != nil {
		return ending{text: fmt.Sprintf("%s did not start: %v", l.name, err), final: true}
	}
	lines := newQueue()
	tokens := make(chan string, 16)
	ended := make(chan exit, 1)
	var pumps sync.WaitGroup
	pumps.Go(func() { l.read(p.stdout, lines) })
	pumps.Go(func() { l.listen(p.stderr) })
	pumps.Go(func() { tell(p.stdin, tokens) })
	go func() {
		pumps.Wait()
		ended <- p.wait()
	}()

	cause := l.attend(ctx, lines, tokens)
	close(tokens)
	how, stuck := part(p, ended, cause != nil && ctx.Err() == nil)
	if stuck {
		return ending{text: "sensor_stuck: " + l.name + " does not die; its readings end here", final: true}
	}
	if cause != nil {
		return *cause
	}
	return l.death(how)
}

// attend handles lines until the process closes its stdout (nil), ctx ends (nil) or the process must go.
func (l *life) attend(ctx context.Context, lines *queue, tokens chan<- string) *ending {
	clock := time.NewTicker(time.Second)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case token := <-l.edges:
			select {
			case tokens <- token:
			default: // the sensor does not read; an edge that comes late is worth nothing
			}
		case <-clock.C:
			if why := l.watch.verdict(l.mono()); why != "" {
				return &ending{text: l.name + ": " + why + ", killed"}
			}
		case <-lines.ready:
			batch, dropped, more := lines.take()
			if dropped > 0 {
				l.store.trouble(l.clock.Now(), fmt.Sprintf("%d lines of %s dropped, queue full", dropped, l.name), false)
			}
			for _, a := range batch {
				if end := l.line(a); end != nil {
					return end
				}
			}
			if !more {
				return nil
			}
		}
	}
}

// line parses and handles one line.
func (l *life) line(a arrival) *ending {
	l.watch.heard(a.at)
	l.tally.lines++
	if a.long {
		return l.reject(fmt.Errorf("line longer than %d bytes", maxLine))
	}
	parsed, err := ParseLine(a.line)
	if err != nil {
		return l.reject(err)
	}
	switch parsed.Type {
	case "hello":
		l.hello = true
	case "device":
		l.watch.opened = true
	case "beat":
		l.watch.busy = 0
		if parsed.BusyMS != nil {
			l.watch.busy = time.Duration(*parsed.BusyMS * float64(time.Millisecond))
		}
	}
	return l.handle(parsed, a.at)
}

// part makes the process end, by SIGKILL at once when it must, else by its closed stdin. stuck is true when it did not.
func part(p *process, ended <-chan exit, now bool) (how exit, stuck bool) {
	if !now {
		select {
		case how = <-ended:
			return how, false
		case <-time.After(leaveGrace):
		}
	}
	p.kill()
	select {
	case how = <-ended:
		return how, false
	case <-time.After(killGrace):
		p.abandon()
		return exit{}, true
	}
}

// death explains a process that ended by itself.
func (l *life) death(how exit) ending {
	symbol, _ := l.announced.Load().(string)
	broken := how.code == 127 || how.signal == syscall.SIGSEGV
	switch {
	case broken && symbol != "":
		return ending{
			text:   fmt.Sprintf("symbol_missing: %s died at driver function %s (%v)", l.name, symbol, how),
			symbol: symbol,
		}
	case broken && !l.hello:
		return ending{final: true, text: fmt.Sprintf(
			"%s died at start (%v): its driver functions are bound eagerly (linked with -z now, or a musl system)", l.name, how)}
	default:
		return ending{text: fmt.Sprintf("%s ended (%v)", l.name, how)}
	}
}

// read cuts stdout into lines. Of a line that is too long only the fact is kept.
func (l *life) read(stdout io.Reader, lines *queue) {
	defer lines.close()
	r := bufio.NewReaderSize(stdout, maxLine+1)
	for skipping := false; ; {
		line, err := r.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case long && !skipping:
			lines.put(arrival{at: l.mono(), long: true})
		case err == nil && !skipping:
			lines.put(arrival{at: l.mono(), line: bytes.Clone(line[:len(line)-1])})
		case err != nil && !long:
			return // an unfinished last line says nothing
		}
		skipping = long
	}
}

// listen keeps stderr in the log and notes which driver function is about to be used for the first time.
func (l *life) listen(stderr io.Reader) {
	r := bufio.NewReaderSize(stderr, 4096)
	for {
		line, err := r.ReadSlice('\n')
		_, _ = l.log.Write(line) // a log that cannot be written must not stop the sensor
		if symbol, found := bytes.CutPrefix(bytes.TrimSpace(line), []byte("first ")); found {
			l.announced.Store(clean(string(symbol)))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// tell passes edge tokens on and closes stdin at the end, which asks the sensor to leave.
func tell(stdin io.WriteCloser, tokens <-chan string) {
	defer func() { _ = stdin.Close() }()
	for token := range tokens {
		if _, err := io.WriteString(stdin, "edge "+token+"\n"); err != nil {
			break
		}
	}
	for range tokens { // a sensor that closed its stdin hears no edges
	}
}
