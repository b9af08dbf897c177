package simserver

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const chatPath, completionPath = "/v1/chat/completions", "/v1/completions"

// golden compares with a file, byte by byte.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestAnswers(t *testing.T) {
	chat := `"messages":[{"role":"system","content":"be brief"},` +
		`{"role":"user","content":[{"type":"text","text":"one two"},{"type":"text","text":"three four"}]}]`
	tests := []struct{ file, path, body string }{
		{"chat-stream.txt", chatPath, `{` + chat + `,"stream":true,"stream_options":{"include_usage":true},"max_tokens":3}`},
		{"chat-stream-each.txt", chatPath, `{` + chat + `,"stream":true,"max_completion_tokens":2,"ignore_eos":true,` +
			`"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		{"chat-stream-plain.txt", chatPath, `{` + chat + `,"stream":true,"max_tokens":1,"model":"other \"name\""}`},
		{"chat.json", chatPath, `{` + chat + `,"max_tokens":3,"min_tokens":3,"temperature":0}`},
		{"completion-stream.txt", completionPath, `{"prompt":"one two","stream":true,"max_tokens":2}`},
		{"completion.json", completionPath, `{"prompt":[[1,2,3,4,5]],"max_tokens":2}`},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			in := start(t, quick(func(c *Config) { c.BlockTokens, c.CacheBlocks = 4, 100 }))
			in.post(t, tt.path, tt.body)
			resp, body := in.post(t, tt.path, tt.body) // the second finds the first's prompt cached
			kind := "application/json"
			if strings.HasSuffix(tt.file, ".txt") {
				kind = "text/event-stream; charset=utf-8"
			}
			if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != kind {
				t.Errorf("status %d, content type %q", resp.StatusCode, resp.Header.Get("Content-Type"))
			}
			for event := range strings.SplitSeq(strings.TrimSpace(body), "\n\n") {
				data := strings.TrimPrefix(event, "data: ")
				if data != "[DONE]" && !json.Valid([]byte(data)) {
					t.Errorf("not JSON: %s", data)
				}
			}
			golden(t, tt.file, body)
		})
	}
}

// answer is what the tests look at in an answer that is not streamed.
type answer struct {
	Choices []struct {
		Message      struct{ Content string }
		Text         string
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func (in *instance) ask(t *testing.T, body string) answer {
	t.Helper()
	_, text := in.post(t, completionPath, body)
	var a answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || len(a.Choices) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

func TestLengths(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.NaturalTokens = Span{Min: 5, Max: 8} }))
	forced := start(t, quick())
	tests := []struct {
		name     string
		in       *instance
		more     string
		min, max int
		finish   string
	}{
		{"default", forced, ``, 16, 16, "length"},
		{"limit", forced, `,"max_tokens":7`, 7, 7, "length"},
		{"natural end", in, `,"max_tokens":50`, 5, 8, "stop"},
		{"limit below the natural end", in, `,"max_tokens":3`, 3, 3, "length"},
		{"ignore_eos", in, `,"max_tokens":50,"ignore_eos":true`, 50, 50, "length"},
		{"min_tokens", in, `,"max_tokens":50,"min_tokens":20`, 20, 20, "stop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := tt.in.ask(t, `{"prompt":"x y z"`+tt.more+`}`)
			n, c := a.Usage.CompletionTokens, a.Choices[0]
			if n < tt.min || n > tt.max || c.FinishReason != tt.finish || len(strings.Fields(c.Text)) != n {
				t.Errorf("%d tokens (%q), finish %q; want %d to %d, %q", n, c.Text, c.FinishReason, tt.min, tt.max, tt.finish)
			}
		})
	}
}

// The text follows from seed and prompt alone: revision and history do not change it.
func TestTextIsDeterministic(t *testing.T) {
	ask := func(prompt string, change func(*Config)) string {
		return start(t, quick(change)).ask(t, `{"prompt":"`+prompt+`"}`).Choices[0].Text
	}
	first := ask("a b", func(*Config) {})
	if again := ask("a b", func(c *Config) { c.Revision = "head" }); again != first {
		t.Errorf("another revision says %q, not %q", again, first)
	}
	if other := ask("a c", func(*Config) {}); other == first {
		t.Error("another prompt has the same answer")
	}
	if other := ask("a b", func(c *Config) { c.Seed = 2 }); other == first {
		t.Error("another seed gives the same answer")
	}
}

func TestCachedTokensAreReported(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.BlockTokens, c.CacheBlocks = 2, 50 }))
	body := `{"prompt":"a b c d e"}`
	for i, want := range []int{0, 4} {
		if got := in.ask(t, body).Usage.Details.CachedTokens; got != want {
			t.Errorf("request %d: %d cached tokens, want %d", i+1, got, want)
		}
	}
	if resp, _ := in.post(t, "/reset_prefix_cache", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("reset: status %d", resp.StatusCode)
	}
	if got := in.ask(t, body).Usage.Details.CachedTokens; got != 0 {
		t.Errorf("after a reset: %d cached tokens", got)
	}
}

func TestBadRequests(t *testing.T) {
	in := start(t, quick())
	tests := []struct{ path, body, want string }{
		{chatPath, `{`, "body: "},
		{chatPath, `{}`, "messages: must not be empty"},
		{chatPath, `{"messages":[{"role":"user","content":5}]}`, "body: "},
		{completionPath, `{}`, "prompt: must be one text"},
		{completionPath, `{"prompt":["a","b"]}`, "prompt: must be one text"},
		{completionPath, `{"prompt":"a","max_tokens":0}`, "max_tokens: must be 1"},
		{completionPath, `{"prompt":"a","max_tokens":1e12}`, "max_tokens"},
		{completionPath, `{"prompt":"a","n":2}`, "n: this server gives one choice"},
	}
	for _, tt := range tests {
		resp, body := in.post(t, tt.path, tt.body)
		var e struct{ Error struct{ Message string } }
		err := json.Unmarshal([]byte(body), &e)
		if resp.StatusCode != http.StatusBadRequest || err != nil || !strings.Contains(e.Error.Message, tt.want) {
			t.Errorf("%s: status %d, %s", tt.body, resp.StatusCode, body)
		}
	}
	if c := in.counts(t); c.Requests != int64(len(tests)) || c.Failed != c.Requests {
		t.Errorf("truth counts %+v", c)
	}
}

func (in *instance) counts(t *testing.T) Counts {
	t.Helper()
	var c Counts
	if _, body := in.get(t, "/sim/truth"); json.Unmarshal([]byte(body), &c) != nil {
		t.Fatalf("truth: %s", body)
	}
	return c
}

// No body panics the parser, and what it takes has at least one token to make.
func FuzzParseCall(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"a"}],"stream":true}`, `{"prompt":[1,2]}`, `{"prompt":["a b"]}`,
		`{"prompt":[[1]],"max_tokens":3}`, `{"messages":[{"content":[{"text":"x"}]}]}`, `{"messages":null,"prompt":null}`,
	} {
		f.Add(true, []byte(seed))
		f.Add(false, []byte(seed))
	}
	cfg := Default()
	f.Fuzz(func(t *testing.T, chat bool, data []byte) {
		c, err := parseCall(dialect{chat: chat}, &cfg, data)
		if err != nil {
			return
		}
		if c.output < 1 || c.output > maxOutput || c.prompt.tokens < 0 || len(c.prompt.blocks) != c.prompt.tokens/16 {
			t.Fatalf("%+v", c)
		}
	})
}
