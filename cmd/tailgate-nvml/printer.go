package main

import (
	"encoding/json"
	"io"
	"strings"
	"sync"

	tailgate "github.com/tailgate-ci/tailgate"
)

// protocol is the version of the sensor protocol; exitUnavailable the exit code after a hello that says why nothing can be
// measured.
const (
	protocol        = 1
	exitUnavailable = 3
)

// release is the version of this build; tailgate refuses a sensor of another one.
func release() string { return strings.TrimSpace(tailgate.Version) }

// unavailable says why nothing can be measured: a word, a sentence, and what to do.
type unavailable struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
	Fix    string `json:"fix"`
}

// line is one line of the protocol before v, type and t_ns are added.
type line map[string]any

// printer writes protocol lines, each with one write so that lines of several goroutines never mix.
type printer struct {
	mu  sync.Mutex
	out io.Writer
	// now is CLOCK_MONOTONIC in ns.
	now func() int64
}

// print writes one line of the given type, stamped now. When nobody reads any more there is nobody to tell.
func (p *printer) print(kind string, l line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l["v"], l["type"], l["t_ns"] = protocol, kind, p.now()
	b, err := json.Marshal(l)
	if err != nil {
		return // a line holds numbers and texts only
	}
	_, _ = p.out.Write(append(b, '\n'))
}

// hello introduces the sensor; why is nil when it can measure.
func (p *printer) hello(intervalMS int64, why *unavailable) {
	l := line{"sensor": "tailgate-nvml", "version": release(), "edges": true, "interval_ms": intervalMS}
	if why != nil {
		l["unavailable"] = why
	}
	p.print("hello", l)
}
