package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/tailgate-ci/tailgate/internal/config"
	"github.com/tailgate-ci/tailgate/runner"
	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// apiFlags say how a service is spoken to, for commands that get a URL.
type apiFlags struct {
	dialect, model string
	settings       client.Settings
	http2          bool
}

// register adds the flags. The help of a setting names the dialects that take it.
func (fl *apiFlags) register(f *pflag.FlagSet) {
	s := &fl.settings
	f.StringVar(&fl.dialect, "dialect", client.Dialects()[0], "the API the server speaks: "+strings.Join(client.Dialects(), ", "))
	f.StringVar(&fl.model, "model", "", "model name to send (default: the server's first)")
	f.BoolVar(&fl.http2, "http2", false, "send over HTTP/2, all requests as streams of one connection; stamps are less exact")
	f.StringVar(&s.Path, "path", "", "path to ask at, when the URL has none (default: the dialect's)")
	f.StringVar(&s.PerEventTokens, "per-event-tokens", "", "openai-*: ask for tokens per event, by usage or logprobs")
	f.StringVar(&s.CapField, "cap-field", "", "openai-chat: field that caps the output: max_tokens, max_completion_tokens or both")
	f.StringVar(&s.TritonText, "event-text", "", "triton-generate: what an event holds: delta, or whole, all text so far")
	f.StringVar(&s.Stream, "stream", "", "http-json: how answers stream: none, sse or ndjson")
	f.StringVar(&s.Method, "method", "", "http-json: POST, PUT or GET")
	for name, to := range map[string]*string{"text": &s.Pointers.Text, "finish": &s.Pointers.Finish, "error": &s.Pointers.Error} {
		f.StringVar(to, "pointer-"+name, "", "http-json: JSON Pointer to the "+name+" of an answer, such as /outputs/0/"+name)
	}
	f.StringVar(&s.Pointers.NIn, "pointer-n-in", "", "http-json, triton-generate: JSON Pointer to the number of prompt tokens")
	f.StringVar(&s.Pointers.NOut, "pointer-n-out", "", "http-json, triton-generate: JSON Pointer to the number of output tokens")
}

// check refuses settings that the dialect does not take, before anything is measured.
func (fl *apiFlags) check() error {
	if err := fl.settings.Check(fl.dialect); err != nil {
		return usage(err, "docs/dialects.md says which dialect takes which setting")
	}
	return nil
}

// apiOf is how the file says that its service is spoken to.
func apiOf(f *config.File, w *workload.Workload) (runner.API, error) {
	t := f.Target
	api := runner.API{Dialect: t.Dialect, Model: t.Model, Settings: client.Settings{
		Path: t.Path, PerEventTokens: t.PerEventTokens, CapField: t.CapField, TritonText: t.Text, Stream: t.Stream, Method: t.Method,
		Pointers: client.Pointers{
			Text: t.Pointers.Text, Finish: t.Pointers.Finish, Error: t.Pointers.Error, NIn: t.Pointers.NIn, NOut: t.Pointers.NOut,
		},
	}, Example: exampleOf(w)}
	if err := api.Settings.Check(api.Dialect); err != nil {
		return api, usage(err, "it is a key of target in the file; docs/dialects.md says which dialect takes which setting")
	}
	return api, nil
}

// exampleOf is the body of the workload's first turn that has a whole one: a request the service can answer, for probes of a
// service whose requests cannot be made up. Nil when there is none.
func exampleOf(w *workload.Workload) []byte {
	for i := range w.Turns {
		if w.Turns[i].Body == nil {
			continue
		}
		content, err := w.Content(workload.Request{Turn: &w.Turns[i]})
		if err != nil {
			return nil
		}
		return content.Body
	}
	return nil
}
