package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Client measures one server. It is safe for concurrent use: one goroutine per request in flight.
type Client struct {
	o         Options
	speaks    *dialect
	pointers  *pointers
	to        endpoint
	tlsConfig *tls.Config
	dial      dialFunc
	pool      pool
	// trunk is nil for HTTP/1.1.
	trunk *trunk
	model string

	dials, reuses atomic.Int64
	// attempts counts requests whose writing began; quickest is the shortest dial in ns, 0 before the first.
	attempts, quickest atomic.Int64
	// freeCaps remembers the safety cap of each workload: *workload.Workload to int.
	freeCaps sync.Map
}

// setupLimit bounds what New asks of the network.
const setupLimit = 5 * time.Second

// New makes a client for one round. It resolves the host once, and, when no model is configured, asks the server for the
// models it lists; a server that does not answer that has no model, which is an error only where the path needs its name.
// Other errors are those of the options.
func New(o Options) (*Client, error) {
	c, err := prepare(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	if err := c.to.resolve(ctx); err != nil {
		return nil, err
	}
	if c.model == "" {
		c.model = c.firstModel(ctx)
	}
	if c.model == "" && c.to.path == "" && o.Path == "" && c.speaks.needsModel() {
		return nil, fmt.Errorf("dialect %s asks by the model's name, none is configured and the server lists none that is loaded: name the model, or give the whole path", c.speaks.name)
	}
	return c, nil
}

// prepare makes a client without touching the network.
func prepare(o Options) (*Client, error) {
	d, err := findDialect(o.Dialect)
	if err != nil {
		return nil, err
	}
	if o.Clock == (record.Clock{}) {
		return nil, errors.New("client: no clock")
	}
	if o.PerEventTokens == "" {
		o.PerEventTokens = perEventNone
	}
	pointers, err := o.check(d)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(o.Header); err != nil {
		return nil, err
	}
	to, err := parseEndpoint(o.URL, d)
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, speaks: d, pointers: pointers, to: to, dial: tcp, model: o.Model, pool: pool{clock: o.Clock}}
	if to.tls {
		c.tlsConfig = o.TLS.Clone()
		if c.tlsConfig == nil {
			c.tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		c.tlsConfig.NextProtos = []string{"http/1.1"}
		if o.HTTP2 {
			c.tlsConfig.NextProtos = []string{protocolHTTP2}
		}
		if c.tlsConfig.ServerName == "" {
			c.tlsConfig.ServerName = to.host
		}
	}
	if o.HTTP2 {
		for _, stream := range []bool{false, true} {
			if _, err := url.ParseRequestURI(c.path(stream)); err != nil {
				return nil, fmt.Errorf("path over HTTP/2: %w", err)
			}
		}
		c.trunk = newTrunk(c)
	}
	return c, nil
}

// Address is the literal address dialled, host and port.
func (c *Client) Address() string { return c.to.address }

// Model is the model name sent with each request, empty when none is.
func (c *Client) Model() string { return c.model }

// Connections counts the connections dialled and the requests that reused one. Over HTTP/2 there is one at a time, and
// every request but the one that had it dialled reuses it.
func (c *Client) Connections() (dialled, reused int) {
	return int(c.dials.Load()), int(c.reuses.Load())
}

// Attempts counts the requests that this client began to write, those of probes left out. It never counts a request twice,
// because none is written twice: compare it with the samples.
func (c *Client) Attempts() int64 { return c.attempts.Load() }

// QuickestDial is the shortest time in which the server took a connection, 0 before the first: about one round trip.
func (c *Client) QuickestDial() time.Duration { return time.Duration(c.quickest.Load()) }

// dialledIn notes how long a dial took.
func (c *Client) dialledIn(d time.Duration) {
	for d > 0 {
		best := c.quickest.Load()
		if best != 0 && best <= int64(d) || c.quickest.CompareAndSwap(best, int64(d)) {
			return
		}
	}
}

// Close closes the idle connections. Requests in flight go on.
func (c *Client) Close() {
	c.pool.close()
	if c.trunk != nil {
		c.trunk.close()
	}
}

// Do sends r once and reads its answer to the end. From [DialAhead] before r.Sched on it holds a connection ready; it
// writes when the instant of the pick arrives on release, which must have room for it (the pacer must not wait for us).
// Closing release instead withdraws the request: nothing is sent.
// There is exactly one attempt: whatever fails is the outcome.
//
// The sample is complete, with one outcome class. When ctx ends, the class is "cancelled"; nothing was sent if Wrote was
// not reached. The stream lists the payload events of a streamed answer, also of one that failed.
func (c *Client) Do(ctx context.Context, r *Request, release <-chan record.Instant) (record.Sample, record.Stream) {
	x := c.exchange(ctx, r)
	defer x.end()
	x.run(release)
	return x.conclude()
}
