//go:build linux && cgo

package main

import (
	"io"
	"maps"
	"strings"
	"time"
)

const (
	beatEvery  = 2 * time.Second
	procsEvery = 10 * time.Second
	// leaveWithin is how long a driver call may hold up the end.
	leaveWithin = 800 * time.Millisecond
)

// sensor measures until its stdin closes. Three goroutines: one calls the driver, one reads stdin, one beats.
type sensor struct {
	driver    driver
	print     *printer
	busy      *meter
	interval  time.Duration
	only      []string
	namespace string
}

// run works until stdin closes and returns the exit code. A driver call that hangs is left behind.
func (s *sensor) run(stdin io.Reader) int {
	commands, closed, done := make(chan command, 64), make(chan struct{}), make(chan struct{})
	result := make(chan int, 1)
	go func() {
		defer close(closed)
		read(stdin, commands)
	}()
	go s.beat(done)
	go func() { result <- s.measure(commands, closed) }()
	defer close(done)

	select {
	case exit := <-result:
		return exit
	case <-closed:
	}
	reason := "stdin closed"
	select {
	case exit := <-result:
		if exit != 0 {
			return exit
		}
	case <-time.After(leaveWithin):
		reason = "stdin closed, a driver call is left behind"
	}
	s.print.print("bye", line{"reason": reason})
	return 0
}

// beat says every two seconds that the sensor lives, and how long the driver has kept it waiting.
func (s *sensor) beat(done <-chan struct{}) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		s.print.print("beat", line{"busy_ms": s.busy.busyMS()})
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// measure opens the driver, announces its devices and polls them. It is the only goroutine that calls the driver.
func (s *sensor) measure(commands <-chan command, closed <-chan struct{}) int {
	s.busy.begin()
	c := s.driver.Open()
	s.busy.end()
	if c != ok {
		s.print.hello(s.interval.Milliseconds(), whyNot(c))
		return exitUnavailable
	}
	defer s.driver.Close()
	devices := s.devices()
	if len(devices) == 0 {
		s.print.hello(s.interval.Milliseconds(), &unavailable{
			"no_devices", "the NVIDIA driver lists no device to watch", "check nvidia-smi -L and NVIDIA_VISIBLE_DEVICES",
		})
		return exitUnavailable
	}
	s.print.hello(s.interval.Milliseconds(), nil)
	probes := s.announce(devices)
	s.poll(probes, commands, closed)
	return 0
}

// devices are the handles of all devices that answer.
func (s *sensor) devices() []device {
	s.busy.begin()
	defer s.busy.end()
	n, c := s.driver.Count()
	if c != ok {
		s.print.print("error", line{"op": "nvmlDeviceGetCount", "code": c.String(), "fatal": true})
		return nil
	}
	devices := make([]device, n)
	for i := range devices {
		d, c := s.driver.Device(i)
		if c != ok {
			s.print.print("error", line{"op": "nvmlDeviceGetHandleByIndex", "code": c.String(), "fatal": c.fatal()})
			continue
		}
		devices[i] = d
	}
	return devices
}

// announce prints every device with its capabilities before the first sample of any.
func (s *sensor) announce(devices []device) []*probe {
	system := line{}
	for field, call := range map[string]string{
		"driver": "nvmlSystemGetDriverVersion", "lib": "nvmlSystemGetNVMLVersion", "cuda": "nvmlSystemGetCudaDriverVersion",
	} {
		s.busy.begin()
		if text, c := s.driver.System(call); c == ok {
			system[field] = text
		}
		s.busy.end()
	}
	var probes []*probe
	for i, d := range devices {
		if d == nil {
			continue
		}
		p := newProbe(d, s.busy, s.print)
		if !p.announce(i, system, s.only) {
			continue
		}
		p.sample()
		p.counters()
		p.processes(s.namespace)
		p.tell()
		probes = append(probes, p)
	}
	return probes
}

// poll samples at the interval and answers commands until stdin is closed. The first tick comes at once, also without an
// interval.
func (s *sensor) poll(probes []*probe, commands <-chan command, closed <-chan struct{}) {
	due := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	listed := time.Time{}
	for {
		select {
		case <-closed:
			return
		case c := <-commands:
			if c.token != "" {
				s.edge(probes, c.token)
				continue
			}
			s.interval = c.interval
			due = time.Now().Add(s.interval)
			timer.Stop()
			if s.interval > 0 {
				timer.Reset(s.interval)
			}
		case <-timer.C:
			s.tick(probes, time.Since(due))
			if time.Since(listed) >= procsEvery {
				listed = time.Now()
				s.list(probes, line{})
			}
			if s.interval > 0 {
				due = due.Add(s.interval)
				timer.Reset(max(0, time.Until(due)))
			}
		}
	}
}

// tick samples every device. late is how far the tick began behind its time.
func (s *sensor) tick(probes []*probe, late time.Duration) {
	for _, p := range probes {
		begin := time.Now()
		l := p.sample()
		l["cost_us"], l["late_us"] = time.Since(begin).Microseconds(), late.Microseconds()
		p.tell()
		s.print.print("sample", l)
	}
}

// edge prints counters and process lists at once, marked with the token.
func (s *sensor) edge(probes []*probe, token string) {
	for _, p := range probes {
		l := p.counters()
		l["edge"] = token
		s.print.print("counters", l)
	}
	s.list(probes, line{"edge": token})
}

// list prints the process list of every device that has one.
func (s *sensor) list(probes []*probe, mark line) {
	for _, p := range probes {
		l, found := p.processes(s.namespace)
		p.tell()
		if !found {
			continue
		}
		maps.Copy(l, mark)
		s.print.print("procs", l)
	}
}

// namespaceOf tells from the target of /proc/self/ns/pid whether process ids here are the host's. The first namespace of a
// kernel has a fixed number. Source: linux, include/linux/proc_ns.h, PROC_PID_INIT_INO.
func namespaceOf(link string) string {
	switch {
	case link == "pid:[4026531836]":
		return "host"
	case strings.HasPrefix(link, "pid:["):
		return "container"
	default:
		return "unknown"
	}
}
