package simserver

import (
	"fmt"
	"net/http"
)

// stream writes the events of one answer, each with one write.
type stream struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	form  form
	buf   []byte // reused by every write
	held  int    // events in buf that wait for company, see EventsPerWrite
	first bool   // the next event is the first
}

// streamed sends an answer as server-sent events.
func (s *server) streamed(w http.ResponseWriter, r *http.Request, api dialect, t *ticket) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	st := &stream{
		w: w, flush: http.NewResponseController(w),
		form: newForm(api, t.call, t.entry.ID, s.now().Unix()), buf: make([]byte, 0, 1024), first: true,
	}
	if t.fate == FaultEmpty {
		return s.emptyStream(r, st, t)
	}
	ping := func() error { return st.ping(t) }
	for sent := 0; sent < t.output; {
		upTo := min(sent+s.cfg.TokensPerEvent, t.output)
		if err := s.wait(r.Context(), t, upTo-1, ping); err != nil {
			return err
		}
		if err := s.event(st, t, upTo); err != nil {
			return err
		}
		sent = upTo
	}
	return st.breakOff(t)
}

// event adds one event and sends it, unless it is to wait for others. The last one carries the end of the stream.
func (s *server) event(st *stream, t *ticket, upTo int) error {
	st.begin(t)
	last := upTo == t.output
	finish := ""
	if last && t.fate == "" {
		finish = t.call.finish
	}
	st.buf = st.form.tokens(st.buf, upTo, finish, s.cfg.Seed, t.prompt.hash)
	st.held++
	if !last && st.held < s.cfg.EventsPerWrite {
		return nil
	}
	if last && t.fate == "" {
		st.buf = st.form.done(st.buf)
	}
	return st.send(t)
}

// begin puts the role in front of the first event.
func (st *stream) begin(t *ticket) {
	if st.first {
		st.first = false
		st.form.cached = t.entry.CachedTokens
		st.buf = st.form.role(st.buf)
	}
}

// send writes what is gathered and notes the stamp of that write for each event in it.
func (st *stream) send(t *ticket) error {
	_, err := st.w.Write(st.buf)
	st.buf = st.buf[:0]
	if err == nil {
		err = st.flush.Flush()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	t.wrote(st.held)
	st.held = 0
	return nil
}

// ping breaks a silence with a comment, which is no event.
func (st *stream) ping(t *ticket) error {
	st.buf = append(st.buf, ": ping\n\n"...)
	return st.send(t)
}

// emptyStream finishes in good order without a word.
func (s *server) emptyStream(r *http.Request, st *stream, t *ticket) error {
	if err := s.wait(r.Context(), t, 0, nil); err != nil {
		return err
	}
	st.begin(t)
	st.buf = st.form.tokens(st.buf, 0, "stop", 0, 0)
	st.buf = st.form.done(st.buf)
	return st.send(t)
}

// breakOff adds what an answer that is cut short still says.
func (st *stream) breakOff(t *ticket) error {
	if t.fate != FaultStreamError {
		return nil
	}
	st.buf = append(st.buf, "data: "...)
	st.buf = append(st.buf, failure(http.StatusInternalServerError, "InternalServerError", injected)...)
	st.buf = append(st.buf, "\n\ndata: [DONE]\n\n"...)
	return st.send(t)
}
