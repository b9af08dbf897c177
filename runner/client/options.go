package client

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// DialAhead is how long before a request is due its connection is sought, so that dialling lies outside the latency.
const DialAhead = 50 * time.Millisecond

// Options say which server to measure and how. Only URL and Clock are required.
type Options struct {
	// URL is http or https. A path in it is used as it is; without one the dialect's path is added. Userinfo is refused.
	URL string
	// Dialect is one of [Dialects]; empty means openai-chat.
	Dialect string
	Settings
	// Model is sent as the model's name, in the body or in the path. When empty, the first model that the server lists is
	// sent, and none if it lists none; a dialect with the name in its path then needs a path.
	Model string
	// Limits bound one request; a zero limit is no limit. NoProgress and Drain are limits of a round and not applied by
	// [Client.Do].
	Limits record.Limits
	Clock  record.Clock
	// Header is added to every request, e.g. Authorization. It cannot replace what the measurement needs.
	Header http.Header
	// Example is a body that a probe may send, for services whose requests tailgate cannot make up; nil for none.
	Example []byte
	// NoStream asks for one JSON answer instead of a stream. A turn's own stream parameter wins.
	NoStream bool
	// TLS is used for https; nil trusts the system's roots. Its protocols are replaced by http/1.1, or h2 with HTTP2.
	TLS *tls.Config
	// HTTP2 sends requests over HTTP/2, all as streams of one connection: for https as ALPN agrees, for http with prior
	// knowledge. A server that answers in another protocol gets no request. The stamps are less exact; see doc.go.
	HTTP2 bool
}

// endpoint is a URL taken apart.
type endpoint struct {
	tls bool
	// host is as the user wrote it, for the Host header and the certificate; address is the literal one dialled.
	host, address string
	// hostPort is the value of the Host header.
	hostPort string
	// path is that of the URL, empty when it has none; models is where the server lists its models, empty when it does not.
	path, models string
}

func parseEndpoint(raw string, d *dialect) (endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return endpoint{}, fmt.Errorf("server URL: %w", err)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return endpoint{}, fmt.Errorf("server URL %q: want http://… or https://…", clean(u.Redacted(), maxDetail))
	case u.Hostname() == "":
		return endpoint{}, fmt.Errorf("server URL %q: no host", clean(u.Redacted(), maxDetail))
	case u.User != nil:
		return endpoint{}, fmt.Errorf("server URL of %s: pass credentials as a header, not in the URL", u.Host)
	}
	e := endpoint{tls: u.Scheme == "https", host: u.Hostname(), hostPort: u.Host, models: d.catalog.path}
	if u.Path != "" && u.Path != "/" {
		e.path = u.RequestURI()
		e.models = sibling(u.EscapedPath(), d)
	}
	port := u.Port()
	if port == "" {
		port = "80"
		if e.tls {
			port = "443"
		}
	}
	e.address = net.JoinHostPort(e.host, port)
	return e, nil
}

// sibling guesses where a server behind a prefix lists its models: beside the path of its inferences.
func sibling(path string, d *dialect) string {
	for _, own := range []string{d.path, d.plain, d.terms.promptAt} {
		if prefix, ok := strings.CutSuffix(path, own); ok && own != "" && d.catalog.path != "" {
			return prefix + d.catalog.path
		}
	}
	return d.catalog.path
}

// checkHeader refuses what could change the request's framing or split it.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if name == "" || strings.ContainsFunc(name, notToken) {
			return fmt.Errorf("header %q: not a header name", clean(name, 64))
		}
		switch http.CanonicalHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection", "Host", "Accept-Encoding", "Content-Type", "Expect", "Upgrade":
			return fmt.Errorf("header %s: set by tailgate, cannot be configured", http.CanonicalHeaderKey(name))
		}
		for _, v := range values {
			if strings.ContainsFunc(v, notFieldValue) {
				return fmt.Errorf("header %s: the value has characters no header may hold", http.CanonicalHeaderKey(name))
			}
		}
	}
	return nil
}

// notToken reports whether r may not stand in a header name (RFC 9110, 5.6.2).
func notToken(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}

// notFieldValue reports whether r may not stand in a header value (RFC 9110, 5.5).
func notFieldValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
