//go:build linux && cgo

package main

import (
	"strconv"
	"sync/atomic"
)

// meter tells how long the driver call in progress has been running. One goroutine calls the driver, another reads.
type meter struct {
	since atomic.Int64
	now   func() int64
}

func (m *meter) begin() { m.since.Store(m.now()) }
func (m *meter) end()   { m.since.Store(0) }

// busyMS is the age of the call in progress in ms, 0 when there is none.
func (m *meter) busyMS() int64 {
	since := m.since.Load()
	if since == 0 {
		return 0
	}
	return max(1, (m.now()-since)/1e6)
}

// probe asks one device and remembers what it cannot answer, so that it is not asked again, and what it answered last, so
// that only changes are told. One goroutine owns it.
type probe struct {
	device
	uuid  string
	busy  *meter
	print *printer
	// codes holds the last code of each call; caps the capability of each field, news whether one changed since told.
	codes map[string]code
	caps  map[string]string
	news  bool
	// total is the device's memory in bytes, 0 when unknown.
	total int64
}

func newProbe(d device, busy *meter, p *printer) *probe {
	return &probe{device: d, busy: busy, print: p, codes: map[string]code{}, caps: map[string]string{}}
}

// ask makes one driver call under the meter, unless its answer is settled.
func (p *probe) ask(call string, do func() code) code {
	last, asked := p.codes[call]
	if asked && last.settled() {
		return last
	}
	p.busy.begin()
	c := do()
	p.busy.end()
	p.codes[call] = c
	if c.capability() == "error" && c != last {
		p.print.print("error", line{"dev": p.uuid, "op": call, "code": c.String(), "fatal": c.fatal()})
	}
	return c
}

// text is a name, empty when the device does not tell.
func (p *probe) text(call string) string {
	var s string
	if c := p.ask(call, func() (c code) { s, c = p.Text(call); return c }); c != ok {
		return ""
	}
	return s
}

// measure asks for a signal and puts its fields into l. A field that has no value stays out of the line.
func (p *probe) measure(s signal, l line) code {
	var c code
	for _, call := range s.calls {
		var numbers []int64
		c = p.ask(call, func() (c code) { numbers, c = p.Numbers(call); return c })
		if c == ok {
			for i, field := range s.fields {
				l[field] = numbers[i]
			}
		}
		if !c.settled() {
			break
		}
	}
	return c
}

// note keeps the capability of fields.
func (p *probe) note(c code, fields ...string) {
	for _, field := range fields {
		if state := c.capability(); p.caps[field] != state {
			p.caps[field], p.news = state, true
		}
	}
}

// tell prints the capabilities if one changed.
func (p *probe) tell() {
	if !p.news {
		return
	}
	caps := line{}
	for field, state := range p.caps {
		caps[field] = state
	}
	p.print.print("caps", line{"dev": p.uuid, "caps": caps})
	p.news = false
}

// sample reads all polled signals.
func (p *probe) sample() line {
	l := line{"dev": p.uuid}
	for _, s := range polled() {
		p.note(p.measure(s, l), s.fields...)
	}
	if bits, found := l["reasons"].(int64); found {
		l["reasons"] = "0x" + strconv.FormatUint(uint64(bits), 16)
	}
	return l
}

// counters reads all counted signals.
func (p *probe) counters() line {
	l := line{"dev": p.uuid}
	for _, s := range counted() {
		p.note(p.measure(s, l), s.fields...)
	}
	return l
}

// processes lists who uses the device. ok is false when the driver does not say.
func (p *probe) processes(namespace string) (l line, found bool) {
	procs, reliable := []line{}, true
	for _, list := range processLists() {
		kind, call := list[0], list[1]
		var ps []process
		c := p.ask(call, func() (c code) { ps, c = p.Processes(call); return c })
		if kind == "compute" {
			p.note(c, "procs")
			found = c == ok
		}
		for _, one := range ps {
			entry := line{"pid": one.pid, "kind": kind}
			if one.mem >= 0 {
				entry["mem_b"] = one.mem
			}
			procs = append(procs, entry)
			reliable = reliable && plausible(one, p.total)
		}
	}
	return line{"dev": p.uuid, "procs": procs, "ns": namespace, "reliable": reliable}, found
}

// plausible is false for what drivers of the early 535 line list: they shifted the struct.
func plausible(one process, total int64) bool {
	return one.pid != 0 && one.pid != 1<<32-1 && (total == 0 || one.mem <= total)
}
