package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// dialFunc opens a connection to the server's address.
type dialFunc func(ctx context.Context, address string) (net.Conn, error)

// tcp dials a literal address. Nagle's algorithm is off, as Go leaves it.
func tcp(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// tlsError marks a handshake that failed, so that it is not taken for a failed dial.
type tlsError struct{ err error }

func (e *tlsError) Error() string { return "tls handshake: " + e.err.Error() }
func (e *tlsError) Unwrap() error { return e.err }

// dialled is a new connection with the time it took.
type dialled struct {
	conn *conn
	// carrier is what the exchange's bytes go through: the socket raw, or TLS over it.
	carrier, raw net.Conn
	dial, tls    time.Duration
}

// open makes a connection for one exchange at a time.
func (c *Client) open(ctx context.Context) (dialled, error) {
	got, err := c.reach(ctx)
	if err == nil {
		got.conn = newConn(got.carrier, got.raw, c.o.Clock)
	}
	return got, err
}

// reach dials and, for https, shakes hands, both within the dial limit.
func (c *Client) reach(ctx context.Context) (dialled, error) {
	if d := c.o.Limits.Dial; d > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d, tooSlow(d))
		defer cancel()
	}
	start := c.o.Clock.Now()
	raw, err := c.dial(ctx, c.to.address)
	got := dialled{dial: time.Duration(c.o.Clock.Now() - start)}
	if err != nil {
		return got, because(ctx, err)
	}
	got.carrier, got.raw = raw, raw
	if !c.to.tls {
		return got, nil
	}
	secure := tls.Client(raw, c.tlsConfig)
	start = c.o.Clock.Now()
	err = secure.HandshakeContext(ctx)
	got.tls = time.Duration(c.o.Clock.Now() - start)
	if err != nil {
		_ = raw.Close()
		if c.o.HTTP2 && strings.Contains(err.Error(), "no application protocol") {
			err = fmt.Errorf("the server does not offer HTTP/2: %w", err)
		}
		return got, &tlsError{because(ctx, err)}
	}
	if chosen := secure.ConnectionState().NegotiatedProtocol; c.o.HTTP2 && chosen != protocolHTTP2 {
		_ = raw.Close()
		return got, &tlsError{fmt.Errorf("the server does not offer HTTP/2 (it chose %q)", chosen)}
	}
	got.carrier = secure
	return got, nil
}

// because prefers the reason why a context ended to the symptom it caused.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// resolve turns the host name into one literal address, once: a name such as localhost may stand for two, and requests
// must not be spread over them.
func (e *endpoint) resolve(ctx context.Context) error {
	host, port, err := net.SplitHostPort(e.address)
	if err != nil || net.ParseIP(host) != nil {
		return err
	}
	ips, err := new(net.Resolver).LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("resolve the server's host: %w", err)
	}
	best := ips[0]
	for _, ip := range ips {
		// Servers that bind one family bind IPv4 far more often.
		if ip.Unmap().Is4() {
			best = ip
			break
		}
	}
	e.address = net.JoinHostPort(best.Unmap().String(), port)
	return nil
}

// dialOutcome classifies a connection that did not come about.
func dialOutcome(err error) outcome {
	detail := clean(err.Error(), maxDetail)
	if ours(err) {
		return outcome{record.ClientLimit, detail}
	}
	if _, is := errors.AsType[*tlsError](err); is {
		return outcome{record.TLS, detail}
	}
	return outcome{record.Dial, detail}
}

func tooSlow(limit time.Duration) error { return fmt.Errorf("no connection within %v", limit) }
