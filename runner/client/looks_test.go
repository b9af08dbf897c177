package client

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// serve answers "METHOD path" with a body, and everything else with 404.
func serve(t *testing.T, routes map[string]string) (url string, asked *[]string) {
	t.Helper()
	asked = new([]string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method+" "+r.URL.Path)
		body, ok := routes[r.Method+" "+r.URL.EscapedPath()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, asked
}

func onlineClient(t *testing.T, o Options) *Client {
	t.Helper()
	o.Clock, o.Limits = record.NewClock(), record.DefaultLimits()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// Each dialect asks for models where its servers list them.
func TestFirstModel(t *testing.T) {
	for _, tt := range []struct{ dialect, route, list, want string }{
		{"openai-chat", "GET /v1/models", `{"data":[{"id":"a"},{"id":"b"}]}`, "a"},
		{"llamacpp", "GET /v1/models", `{"data":[{"id":"a"}]}`, "a"},
		{"ollama", "GET /api/tags", `{"models":[{"name":"a:latest"}]}`, "a:latest"},
		{"tgi", "GET /info", `{"model_id":"org/a"}`, "org/a"},
		{"triton-generate", "POST /v2/repository/index", `[{"name":"off","state":"UNAVAILABLE"},{"name":"on","state":"READY"}]`, "on"},
		{"kserve-infer", "POST /v2/repository/index", `[{"name":"on","state":"READY"}]`, "on"},
		{"openai-chat", "GET /v1/models", `not JSON`, ""},
		{"openai-chat", "GET /other", ``, ""},
		{"http-json", "GET /", `{}`, ""},
	} {
		url, _ := serve(t, map[string]string{tt.route: tt.list})
		if got := onlineClient(t, Options{URL: url, Dialect: tt.dialect}).Model(); got != tt.want {
			t.Errorf("%s: model %q, want %q", tt.dialect, got, tt.want)
		}
	}
	url, _ := serve(t, map[string]string{"POST /v2/repository/index": `[{"name":"off","state":"UNAVAILABLE"}]`})
	_, err := New(Options{URL: url, Dialect: "kserve-infer", Clock: record.NewClock()})
	if err == nil || !strings.Contains(err.Error(), "name the model") {
		t.Errorf("a path without a model: %v", err)
	}
	if got := onlineClient(t, Options{URL: url + "/v2/models/x/infer", Dialect: "kserve-infer"}).path(false); got != "/v2/models/x/infer" {
		t.Errorf("path %s", got)
	}
}

// A ready server is not a ready model.
func TestModelReadiness(t *testing.T) {
	routes := map[string]string{"POST /v2/models/m%2F1/infer": `{"model_name":"m/1","outputs":[{"name":"y","data":[1]}]}`}
	url, asked := serve(t, routes)
	c := onlineClient(t, Options{URL: url, Dialect: "kserve-infer", Model: "m/1"})
	if err := c.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "model m/1 is not ready: 404 at /v2/models/m%2F1/ready") {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"GET /v2/models/m/1/ready"}, *asked); diff != "" {
		t.Error(diff)
	}
	routes["GET /v2/models/m%2F1/ready"] = ""
	if err := c.Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// A service whose requests cannot be made up is probed with an example of its workload.
func TestProbeWithAnExample(t *testing.T) {
	url, _ := serve(t, map[string]string{"POST /score": `{"score":0.5}`})
	o := Options{URL: url, Dialect: "http-json", Settings: Settings{Path: "/score"}}
	if err := onlineClient(t, o).Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "give one") {
		t.Errorf("error %v", err)
	}
	o.Example = []byte(`{"x":1}`)
	if err := onlineClient(t, o).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}

// The wrong dialect is noticed before anything is measured, and the right one named.
func TestProbeNamesTheDialect(t *testing.T) {
	for _, tt := range []struct {
		name, asked string
		routes      map[string]string
		class       record.Outcome
		want        string
	}{
		{"tgi, by its model list", "openai-chat", map[string]string{"GET /info": `{"model_id":"org/a"}`}, record.HTTP4xx, "the server lists model org/a at /info: try --dialect tgi"},
		{"ollama, by its model list", "openai-chat", map[string]string{"GET /api/tags": `{"models":[{"name":"a"}]}`}, record.HTTP4xx, "try --dialect ollama"},
		{"openai, by its model list", "tgi", map[string]string{"GET /v1/models": `{"data":[{"id":"a"}]}`}, record.HTTP4xx, "try --dialect openai-chat"},
		{"nothing known", "openai-chat", nil, record.HTTP4xx, "404 at /v1/chat/completions: give the whole URL"},
		{"a web page", "openai-chat", map[string]string{"POST /v1/chat/completions": "<html>hello</html>"}, record.Malformed, "a web page"},
		{"anthropic", "openai-chat", map[string]string{"POST /v1/chat/completions": "event: message_start\ndata: {\"type\":\"message_start\"}\n\n"}, record.Truncated, "Anthropic"},
		{"its own dialect, cut", "openai-chat", map[string]string{"POST /v1/chat/completions": helloEvent}, record.Truncated, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, _ := serve(t, tt.routes)
			err := onlineClient(t, Options{URL: url, Dialect: tt.asked, Model: "m"}).Probe(t.Context())
			probe, ok := errors.AsType[*ProbeError](err)
			if !ok || probe.Class != tt.class || !strings.Contains(probe.Looks, tt.want) || tt.want == "" && probe.Looks != "" {
				t.Errorf("error %v, %+v", err, probe)
			}
			if ok && !strings.Contains(err.Error(), probe.Looks) {
				t.Errorf("the error hides the hint: %v", err)
			}
		})
	}
}

// What a server misses in a request is what another dialect would have sent.
func TestRefusalNamesTheField(t *testing.T) {
	chat := openAIChat()
	for message, want := range map[string]string{
		"Failed to deserialize the JSON body into the target type: missing field `inputs` at line 1": "try --dialect tgi",
		`{"error":"'text_input' is required"}`:                                                       "try --dialect triton-generate",
		`{"error":"\"prompt\" is required"}`:                                                         "try --dialect openai-completions",
		`{"error":"'messages' is required"}`:                                                         "",
		`{"error":"'model' is missing"}`:                                                             "",
		`{"error":"the prompt is too long"}`:                                                         "",
	} {
		got := chat.refusal([]byte(message))
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", message, got, want)
		}
	}
}

// Every dialect with signs of its own recognises its own event and no other's.
func TestSignsAreDistinct(t *testing.T) {
	for name, event := range eventOf() {
		for _, d := range dialects() {
			if is := d.signs.match(sightOf([]byte(event))); is != (d.name == name && d.name != "http-json") {
				t.Errorf("an event of %s taken for %s: %t", name, d.name, is)
			}
		}
	}
	for _, s := range loadScripts(t) {
		d, err := findDialect(s.Dialect)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.looksLike(s.Body()); got != "" && !strings.Contains(got, "web page") && s.Dialect != "openai-completions" {
			t.Errorf("%s: %s", s.Name, got)
		}
	}
}
