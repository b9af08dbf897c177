package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
)

// maxModels bounds the model list, in bytes.
const maxModels = 1 << 20

// firstModel is the first model that the server lists, "" when it lists none. This is the only place that uses the
// standard client: nothing here is measured.
func (c *Client) firstModel(ctx context.Context) string {
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   c.tlsConfig,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return c.dial(ctx, c.to.address)
		},
	}
	defer transport.CloseIdleConnections()
	scheme := "http"
	if c.to.tls {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s%s", scheme, c.to.hostPort, c.to.models), nil)
	if err != nil {
		return ""
	}
	maps.Copy(req.Header, c.o.Header)
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close() //nolint:errcheck // read only
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxModels)).Decode(&list) != nil {
		return ""
	}
	if len(list.Data) == 0 || len(list.Data[0].ID) > 512 {
		return ""
	}
	return list.Data[0].ID
}
