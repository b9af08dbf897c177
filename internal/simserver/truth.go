package simserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
)

// truth counts what reached the server and keeps the log of what left it. Safe for concurrent use.
type truth struct {
	start int64 // when Serve was called
	ready int64 // when the engine's time begins

	connections, bytesIn, bytesOut     atomic.Int64
	requests, answered, failed, aborts atomic.Int64
	inFlight, events                   atomic.Int64

	logging bool // set before the first request

	mu  sync.Mutex
	log *bufio.Writer // nil without a log, and after close
	out *os.File
}

// Counts is what GET /sim/truth answers. Every number counts from the server's start.
type Counts struct {
	// V is the version of this object, 1.
	V int `json:"v"`
	// NowNS, StartNS and ReadyNS are instants of CLOCK_MONOTONIC: of the answer, of the start, of the first possible
	// inference.
	NowNS   int64 `json:"now_ns"`
	StartNS int64 `json:"start_ns"`
	ReadyNS int64 `json:"ready_ns"`
	// Requests are inference requests whose last byte was read; each ends as exactly one of Answered, Failed, Aborted,
	// or is InFlight.
	Requests int64 `json:"requests"`
	// Answered are those that got what they asked for.
	Answered int64 `json:"answered"`
	// Failed are those that were refused or broken off on purpose.
	Failed int64 `json:"failed"`
	// Aborted are those whose client left before the end.
	Aborted int64 `json:"aborted"`
	// InFlight are those not ended yet.
	InFlight int64 `json:"in_flight"`
	// Events are stream events with text; an answer that is not streamed counts as one.
	Events int64 `json:"events"`
	// Connections, BytesIn and BytesOut cover every endpoint, this one too.
	Connections int64 `json:"connections"`
	BytesIn     int64 `json:"bytes_in"`
	BytesOut    int64 `json:"bytes_out"`
}

func (t *truth) counts(now int64) Counts {
	return Counts{
		V: 1, NowNS: now, StartNS: t.start, ReadyNS: t.ready,
		Requests: t.requests.Load(), Answered: t.answered.Load(), Failed: t.failed.Load(), Aborted: t.aborts.Load(),
		InFlight: t.inFlight.Load(), Events: t.events.Load(),
		Connections: t.connections.Load(), BytesIn: t.bytesIn.Load(), BytesOut: t.bytesOut.Load(),
	}
}

// Entry is one line of the truth log: what one inference request really met. Instants are nanoseconds of CLOCK_MONOTONIC.
type Entry struct {
	// V is the version of the line, 1.
	V int `json:"v"`
	// ID is the answer's header x-request-id.
	ID string `json:"id"`
	// N is the request's number, from 1, in the order in which last bytes were read.
	N int64 `json:"n"`
	// ArrivedNS is when the request's last byte had been read; a plain server on Linux says when the kernel took it in.
	ArrivedNS int64 `json:"arrived_ns"`
	// PromptTokens, CachedTokens and OutputTokens are what usage says.
	PromptTokens int `json:"prompt_tokens"`
	CachedTokens int `json:"cached_tokens"`
	OutputTokens int `json:"output_tokens"`
	// DueNS are the model's instants of the tokens. The wait between them and WroteNS is this process's lateness, not
	// the model's.
	DueNS []int64 `json:"due_ns"`
	// WroteNS are read just before the write of each event with text (of the one body, when not streamed). Events that
	// share a write share the stamp.
	WroteNS []int64 `json:"wrote_ns"`
	// Outcome is "ok", "aborted", "rejected" (the request was invalid) or the kind of the injected failure.
	Outcome string `json:"outcome"`
}

func (t *truth) open(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("truth log: %w", err)
	}
	t.logging, t.out, t.log = true, f, bufio.NewWriterSize(f, 64<<10)
	return nil
}

// ended counts a request out and logs it.
func (t *truth) ended(e *Entry) {
	switch e.Outcome {
	case "ok":
		t.answered.Add(1)
	case "aborted":
		t.aborts.Add(1)
	default:
		t.failed.Add(1)
	}
	t.events.Add(int64(len(e.WroteNS)))
	t.inFlight.Add(-1)
	if !t.logging {
		return
	}
	line := e.append(make([]byte, 0, 256+21*(len(e.DueNS)+len(e.WroteNS))))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log != nil {
		_, _ = t.log.Write(line) // close reports the first error
	}
}

// append writes the line; the keys are Entry's, the encoder is spared for the numbers.
func (e *Entry) append(dst []byte) []byte {
	dst = append(dst, `{"v":1,"id":`...)
	dst = append(dst, quote(e.ID)...)
	number := func(key string, v int64) {
		dst = append(dst, `,"`...)
		dst = append(dst, key...)
		dst = append(dst, `":`...)
		dst = strconv.AppendInt(dst, v, 10)
	}
	list := func(key string, vs []int64) {
		dst = append(dst, `,"`...)
		dst = append(dst, key...)
		dst = append(dst, `":[`...)
		for i, v := range vs {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, v, 10)
		}
		dst = append(dst, ']')
	}
	number("n", e.N)
	number("arrived_ns", e.ArrivedNS)
	number("prompt_tokens", int64(e.PromptTokens))
	number("cached_tokens", int64(e.CachedTokens))
	number("output_tokens", int64(e.OutputTokens))
	list("due_ns", e.DueNS)
	list("wrote_ns", e.WroteNS)
	dst = append(dst, `,"outcome":`...)
	dst = append(dst, quote(e.Outcome)...)
	return append(dst, "}\n"...)
}

// flush brings the log on disk up to date.
func (t *truth) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return nil
	}
	return t.log.Flush()
}

func (t *truth) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.log == nil {
		return nil
	}
	err := errors.Join(t.log.Flush(), t.out.Close())
	t.log = nil
	if err != nil {
		return fmt.Errorf("truth log: %w", err)
	}
	return nil
}

// ReadTruth parses a truth log.
func ReadTruth(data []byte) ([]Entry, error) {
	var entries []Entry
	dec := json.NewDecoder(bytes.NewReader(data))
	for dec.More() {
		var e Entry
		if err := dec.Decode(&e); err != nil {
			return entries, fmt.Errorf("truth log, line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
