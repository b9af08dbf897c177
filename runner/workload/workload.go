package workload

import (
	"errors"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

var errStub = errors.New("not built yet")

// Workload is a set of requests, complete and checked. It is not changed after it was made, and is safe for concurrent use.
type Workload struct {
	Manifest Manifest
	// Turns are sorted by (start of the conversation, conversation, turn, id).
	Turns []Turn
	// Texts holds texts.jsonl by id; nil when there is none.
	Texts map[string]string
}

// New makes a workload of turns in memory.
func New(m Manifest, turns []Turn, texts map[string]string) (*Workload, error) {
	return &Workload{Manifest: m, Turns: turns, Texts: texts}, nil
}

// Open reads a workload folder strictly.
func Open(dir string) (*Workload, error) { return nil, errStub }

// Digest is "sha256:" and 64 hex over everything that is sent and when.
func (w *Workload) Digest() string { return w.Manifest.Digest }

// Plan lays out one round.
func (w *Workload) Plan(measure, window time.Duration) (*Plan, error) { return nil, errStub }

// Warmup is the traffic of warm-up window k, counted from 0.
func (p *Plan) Warmup(k int) []Request { return p.warm }

// Content gives the text of a request.
func (w *Workload) Content(r Request) (Content, error) { return Content{}, errStub }

// Info describes the workload for the run's record.
func (w *Workload) Info(measure time.Duration) record.WorkloadInfo { return record.WorkloadInfo{} }

// Fidelity says how the replay differs from its source.
func (w *Workload) Fidelity() []record.Fidelity { return w.Manifest.Fidelity }
