package actions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// callLimit is how long one call to the API may take; patienceLimit how long all waiting of a phase may.
	callLimit     = 10 * time.Second
	patienceLimit = 5 * time.Minute
	// secondary is the first wait after a limit without a time; it doubles.
	secondary = time.Minute
	// answerLimit bounds what is read of an answer, bytes: a hundred comments of the largest size are less.
	answerLimit = 32 << 20
	// repeats is how often a call that changes nothing twice is repeated after a fault of the server or the network.
	repeats = 2
)

// patience is the connection to the API: it alone adds the token, waits out rate limits, and repeats a call where a repetition
// cannot do twice what was asked once. GitHub's limits are told by status, header or message, so all three are looked at. The
// limit headers go no further: the client above would refuse calls by them on its own.
type patience struct {
	next http.RoundTripper
	// host is the API's; no other host sees the token.
	host, token string
	wait        func(context.Context, time.Duration) error
	now         func() time.Time
	// waited sums up the waits.
	waited time.Duration
}

// RoundTrip makes one call, repeated where that is safe.
func (p *patience) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 0; ; try++ {
		resp, err := p.once(req)
		delay, again := p.delay(req.Method, resp, err, try)
		if resp != nil {
			for name := range resp.Header {
				if strings.HasPrefix(name, "X-Ratelimit-") || name == "Retry-After" {
					resp.Header.Del(name)
				}
			}
		}
		if !again || p.waited+delay > patienceLimit {
			return resp, err
		}
		p.waited += delay
		if waitErr := p.wait(req.Context(), delay); waitErr != nil {
			return nil, waitErr
		}
	}
}

// once makes one call and reads the whole answer.
func (p *patience) once(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), callLimit)
	defer cancel()
	call := req.Clone(ctx)
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		call.Body = body
	}
	if p.token != "" && call.URL.Host == p.host {
		call.Header.Set("Authorization", "Bearer "+p.token)
	}
	resp, err := p.next.RoundTrip(call)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err == nil && len(text) > answerLimit {
		err = fmt.Errorf("answer of %s is larger than %d MiB", req.URL.Path, answerLimit>>20)
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	if limited(resp.StatusCode, resp.Header, text) {
		resp.Header.Set(limitedHeader, "1")
	}
	return resp, nil
}

// limitedHeader marks an answer that says "later", however it says it.
const limitedHeader = "Tailgate-Limited"

// limited reports whether an answer is a rate limit.
func limited(status int, h http.Header, body []byte) bool {
	switch status {
	case http.StatusTooManyRequests:
		return true
	case http.StatusForbidden:
		return h.Get("Retry-After") != "" || h.Get("X-Ratelimit-Remaining") == "0" || bytes.Contains(body, []byte("rate limit"))
	}
	return false
}

// delay says whether to call again, and after how long.
func (p *patience) delay(method string, resp *http.Response, err error, try int) (time.Duration, bool) {
	if resp != nil && resp.Header.Get(limitedHeader) != "" {
		resp.Header.Del(limitedHeader)
		// Nothing was done: any call may be made again.
		return p.until(resp.Header, try), true
	}
	fault := err != nil || resp.StatusCode >= http.StatusInternalServerError
	if !fault || try >= repeats || method == http.MethodPost || errors.Is(err, context.Canceled) {
		return 0, false
	}
	return time.Second << try, true
}

// until is how long the server asks to wait: Retry-After in seconds or as a date, else the reset of the limit, else a minute,
// doubled with each try.
func (p *patience) until(h http.Header, try int) time.Duration {
	after := h.Get("Retry-After")
	if s, err := strconv.Atoi(after); err == nil && s >= 0 {
		return time.Duration(min(s, 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(p.now()))
	}
	if s, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && h.Get("X-Ratelimit-Remaining") == "0" {
		return max(0, time.Unix(s, 0).Sub(p.now()))
	}
	return secondary << min(try, 10)
}

// sameHost refuses a redirect to another host.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return fmt.Errorf("redirected from %s to another address, which is not followed", via[0].URL.Host)
	}
	return nil
}
