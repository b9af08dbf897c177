package simserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// errGone says that the client left, or that the server is going down.
var errGone = errors.New("client gone")

// inference serves one of the two endpoints.
func (s *server) inference(api dialect) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn := connOf(r.Context())
		data, err := readBody(w, r)
		if err != nil {
			writeError(w, http.StatusRequestEntityTooLarge, "BadRequestError", err.Error())
			return
		}
		e := Entry{V: 1, ArrivedNS: conn.arrived.Load(), N: s.truth.requests.Add(1)}
		s.truth.inFlight.Add(1)
		e.ID = requestID(r.Header.Get("X-Request-Id"), e.N)
		w.Header().Set("X-Request-Id", e.ID)
		fate := s.fate(e.ArrivedNS, int(e.N))
		if status := fate.status(); status != 0 {
			e.Outcome = string(fate)
			defer s.finish(&e)
			refuse(w, status)
			return
		}
		c, err := parseCall(api, &s.cfg, data)
		if err != nil {
			e.Outcome = "rejected"
			defer s.finish(&e)
			writeError(w, http.StatusBadRequest, "BadRequestError", err.Error())
			return
		}
		s.answer(w, r, api, newTicket(c, fate, s.cfg.hold(int(e.N)), e, conn))
	}
}

// fate is what happens to request n: the start's failure while the engine is not up, then the injected ones.
func (s *server) fate(at int64, n int) FaultKind {
	if at < s.truth.ready {
		if k := s.cfg.Start.InferenceFailure; k != "" {
			return k
		}
		return FaultHTTP503
	}
	return s.cfg.pick(s.cfg.Seed, n)
}

// answer runs a request through the engine and writes what it is to get.
func (s *server) answer(w http.ResponseWriter, r *http.Request, api dialect, t *ticket) {
	defer func() {
		t.entry.DueNS = t.at[:t.due.Load()]
		if t.fate != FaultEmpty {
			t.entry.OutputTokens = len(t.entry.DueNS)
		}
		s.meters.observe(t)
		s.finish(&t.entry)
	}()
	if t.fate != FaultHang { // a hanging request never reaches the engine
		s.driver.submit(&t.sequence)
	}
	write := s.unstreamed
	if t.call.stream {
		write = s.streamed
	}
	t.entry.Outcome = "ok"
	if t.fate != "" {
		t.entry.Outcome = string(t.fate)
	}
	if err := write(w, r, api, t); err != nil {
		s.driver.cancel(&t.sequence)
		t.entry.Outcome = "aborted"
		panic(http.ErrAbortHandler) // nothing more can be said on this connection
	}
	switch t.fate {
	case FaultReset:
		t.conn.reset()
		panic(http.ErrAbortHandler)
	case FaultCut:
		panic(http.ErrAbortHandler)
	default:
	}
}

// wait blocks until more than have tokens are due. While it waits it calls ping, if pings are configured.
func (s *server) wait(ctx context.Context, t *ticket, have int, ping func() error) error {
	for {
		if int(t.due.Load()) > have {
			t.entry.CachedTokens = t.cached
			return nil
		}
		var silence <-chan time.Time
		if s.cfg.Ping > 0 && ping != nil {
			silence = time.After(time.Duration(s.cfg.Ping))
		}
		select {
		case <-t.bell:
		case <-ctx.Done():
			return errGone
		case <-s.dying:
			return errGone
		case <-silence:
			if err := ping(); err != nil {
				return err
			}
		}
	}
}

// unstreamed waits for the last token and sends one body.
func (s *server) unstreamed(w http.ResponseWriter, r *http.Request, api dialect, t *ticket) error {
	if err := s.wait(r.Context(), t, t.output-1, nil); err != nil {
		return err
	}
	n := t.output
	if t.fate == FaultEmpty {
		n = 0
	}
	body := whole(api, t.call, t.entry.ID, s.now().Unix(), n, t.entry.CachedTokens, s.cfg.Seed)
	length := len(body)
	switch t.fate {
	case FaultReset, FaultCut:
		return nil // the caller ends the connection before a byte was said
	case FaultStreamError:
		body = failure(http.StatusInternalServerError, "InternalServerError", injected)
		length = len(body)
	case FaultTruncated:
		body = body[:length/2]
	default:
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(length))
	if _, err := w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	t.wrote(1)
	if t.fate == FaultTruncated {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// readBody reads a request to its last byte.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limited := http.MaxBytesReader(w, r.Body, maxBody)
	if n := r.ContentLength; n > 0 && n <= maxBody {
		data := make([]byte, n)
		if _, err := io.ReadFull(limited, data); err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		return data, nil
	}
	data, err := io.ReadAll(limited)
	if err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return data, nil
}

// requestID takes the client's name for a request if it is short and plain, and makes one up otherwise.
func requestID(given string, n int64) string {
	plain := given != "" && len(given) <= 128
	for _, b := range []byte(given) {
		plain = plain && b > ' ' && b < 0x7f && b != '"' && b != '\\'
	}
	if plain {
		return given
	}
	return fmt.Sprintf("sim-%08d", n)
}

// injected is the text of every failure made on purpose.
const injected = "injected failure"

func refuse(w http.ResponseWriter, status int) {
	kind := "InternalServerError"
	switch status {
	case http.StatusTooManyRequests:
		kind = "RateLimitError"
		w.Header().Set("Retry-After", "1")
	case http.StatusServiceUnavailable:
		kind = "ServiceUnavailableError"
	}
	writeError(w, status, kind, injected)
}

func writeError(w http.ResponseWriter, status int, kind, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(failure(status, kind, text)) // a client that left needs no answer
}
