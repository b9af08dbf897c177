package client

import (
	"strings"
	"testing"
)

// A body given to a probe is completed, not overwritten.
func TestProbingBodies(t *testing.T) {
	for _, tt := range []struct{ dialect, body, want string }{
		{"openai-chat", `{"n":2}`, `{"messages":[{"role":"user","content":"hi"}],"n":2,"stream":true,"stream_options":{"include_usage":true}}`},
		{"openai-chat", `{"stream":false,"stream_options":{"x":1}}`, `{"messages":[{"role":"user","content":"hi"}],"stream":false}`},
		{"openai-chat", `{"messages":[{"role":"user","content":"own"}],"temperature":0.5}`, `{"messages":[{"content":"own","role":"user"}],"stream":true,"stream_options":{"include_usage":true},"temperature":0.5}`},
		{"tgi", `{"inputs":"own","parameters":{"max_new_tokens":3}}`, `{"inputs":"own","parameters":{"details":true,"max_new_tokens":3}}`},
		{"kserve-infer", `{"inputs":[]}`, `{"inputs":[]}`},
		{"http-json", `[1]`, `[1]`},
		{"ollama", "", `{"messages":[{"role":"user","content":"hi"}],"options":{"num_predict":8,"temperature":0},"stream":true}`},
	} {
		var body []byte
		if tt.body != "" {
			body = []byte(tt.body)
		}
		r, err := offlineClient(t, Options{Dialect: tt.dialect}).probing(body, "hi", 8, true)
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Body) != tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.dialect, tt.body, r.Body, tt.want)
		}
		if streams := strings.Contains(tt.want, `"stream":true`) || tt.dialect == "tgi"; r.want.stream != streams {
			t.Errorf("%s %s: expects a stream %t", tt.dialect, tt.body, r.want.stream)
		}
	}
	for _, body := range []string{`[1]`, `{`, `null`, `{} {}`} {
		if _, err := offlineClient(t, Options{}).probing([]byte(body), "hi", 8, true); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
}
