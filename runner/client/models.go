package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
)

// maxModels bounds the model list, in bytes.
const maxModels = 1 << 20

// firstModel is the first model that the server lists, "" when it lists none.
func (c *Client) firstModel(ctx context.Context) string {
	if c.to.models == "" {
		return ""
	}
	method, body := http.MethodGet, ""
	if c.speaks.catalog.post {
		method, body = http.MethodPost, "{}"
	}
	status, list, err := c.lookUp(ctx, method, c.to.models, body)
	if err != nil || status != http.StatusOK {
		return ""
	}
	names := c.speaks.catalog.names(list)
	if len(names) == 0 || len(names[0]) > 512 {
		return ""
	}
	return names[0]
}

// namesUnder finds the names in a list of models such as {"data": [{"id": "m"}]}.
func namesUnder(list, name string) func([]byte) []string {
	return func(answer []byte) []string {
		var lists map[string]json.RawMessage
		var models []map[string]json.RawMessage
		// What is no such list has no names.
		_ = json.Unmarshal(answer, &lists)
		_ = json.Unmarshal(lists[list], &models)
		names := make([]string, len(models))
		for i, m := range models {
			_ = json.Unmarshal(m[name], &names[i])
		}
		return names
	}
}

// modelReady asks the server whether the model is loaded, where the dialect has a way to ask. A ready server is not a ready
// model.
func (c *Client) modelReady(ctx context.Context) error {
	if c.speaks.ready == "" || c.model == "" {
		return nil
	}
	path := strings.ReplaceAll(c.speaks.ready, "%s", escapePath(c.model))
	status, _, err := c.lookUp(ctx, http.MethodGet, path, "")
	if err != nil {
		return fmt.Errorf("model %s: %w", clean(c.model, 64), err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("model %s is not ready: %d at %s", clean(c.model, 64), status, clean(path, 128))
	}
	return nil
}

// lookUp asks the server for something that is not measured. This is the only place that uses the standard client as it is.
func (c *Client) lookUp(ctx context.Context, method, path, body string) (status int, answer []byte, err error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   c.tlsConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.dial(ctx, c.to.address)
		},
	}
	defer transport.CloseIdleConnections()
	if c.o.HTTP2 {
		transport.Protocols = onlyHTTP2()
	}
	scheme := "http"
	if c.to.tls {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("%s://%s%s", scheme, c.to.hostPort, path), strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, c.o.Header)
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxModels))
	return resp.StatusCode, answer, err
}
