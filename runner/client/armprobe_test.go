package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
	"github.com/tailgate-ci/tailgate/runner/workload"
)

// chatServer answers chat requests as told and keeps their bodies.
type chatServer struct {
	mu     sync.Mutex
	bodies []map[string]any
	// answer gets the number of the request, from 0, and its body.
	answer func(n int, body map[string]any) string
}

func (s *chatServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	var body map[string]any
	_ = json.Unmarshal(text, &body)
	s.mu.Lock()
	n := len(s.bodies)
	s.bodies = append(s.bodies, body)
	s.mu.Unlock()
	answer := s.answer(n, body)
	if answer == "" {
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, answer)
}

func streamOf(model string, tokens int) string {
	return fmt.Sprintf(`data: {"model":%q,"choices":[{"index":0,"delta":{"content":"x"}}]}`, model) + "\n\n" + finishEvent +
		usageEvent(fmt.Sprintf(`{"prompt_tokens":3,"completion_tokens":%d}`, tokens)) + doneEvent
}

func asked(body map[string]any) int {
	n, _ := body["max_tokens"].(float64)
	return int(n)
}

func TestPreflight(t *testing.T) {
	tests := []struct {
		name   string
		answer func(n int, body map[string]any) string
		failed int
		// wrong is the name of the first check that failed, detail a part of what it says.
		wrong, detail string
	}{
		{"a good service", func(_ int, b map[string]any) string { return streamOf("m", asked(b)) }, 0, "", ""},
		{"every second request fails", func(n int, b map[string]any) string {
			if n%2 == 1 {
				return ""
			}
			return streamOf("m", asked(b))
		}, 2, record.ProbeAnswers, "2 of 4 requests failed, the first with http_503"},
		{"all fail", func(int, map[string]any) string { return "" }, 4, record.ProbeAnswers, "4 of 4"},
		{"not streamed", func(_ int, b map[string]any) string {
			return fmt.Sprintf(`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"completion_tokens":%d}}`, asked(b))
		}, 0, record.ProbeStreams, "in one piece"},
		{"no usage", func(int, map[string]any) string { return helloEvent + finishEvent + doneEvent }, 0, record.ProbeUsage, "does not say"},
		{"cap ignored", func(_ int, b map[string]any) string { return streamOf("m", asked(b)+1) }, 0, record.ProbeUsage, "cannot be true"},
		{"forced length ignored", func(_ int, b map[string]any) string { return streamOf("m", asked(b)-1) }, 0, record.ProbeLength, "7 came"},
		{"two models", func(n int, b map[string]any) string { return streamOf(fmt.Sprint("m", n), asked(b)) }, 0, record.ProbeModel, "another"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &chatServer{answer: tt.answer}
			srv := httptest.NewServer(h)
			defer srv.Close()
			c, err := New(Options{URL: srv.URL, Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := c.Preflight(t.Context(), preflightWorkload(t))
			if err != nil {
				t.Fatal(err)
			}
			if len(h.bodies) != record.ProbeRequests || r.Sent != record.ProbeRequests || r.Failed != tt.failed || (r.Failure == "") != (tt.failed == 0) {
				t.Errorf("%d seen, report %+v", len(h.bodies), r)
			}
			wrong, is := r.Wrong()
			if wrong.Name != tt.wrong || is != (tt.wrong != "") || !strings.Contains(wrong.Detail, tt.detail) {
				t.Errorf("wrong: %+v", wrong)
			}
			if dialled, reused := c.Connections(); dialled+reused != 0 {
				t.Error("the probe is in the client's counts")
			}
		})
	}
}

func preflightWorkload(t *testing.T) *workload.Workload {
	t.Helper()
	var turns []workload.Turn
	for i, n := range []int{400, 8, 8, 16, 32} {
		mode := workload.Cap
		if i%2 == 1 {
			mode = workload.Force
		}
		turns = append(turns, workload.Turn{
			ID: fmt.Sprint("t", i), Prompt: &workload.Text{Inline: fmt.Sprint("question ", i)}, Out: workload.Output{Mode: mode, Tokens: n},
		})
	}
	return newWorkload(t, workload.Manifest{}, turns...)
}

// The cheapest turns are asked, both kinds of length, and never with the text a round sends.
func TestPreflightTurns(t *testing.T) {
	h := &chatServer{answer: func(_ int, b map[string]any) string { return streamOf("m", asked(b)) }}
	srv := httptest.NewServer(h)
	defer srv.Close()
	c, err := New(Options{URL: srv.URL, Model: "m", Limits: record.DefaultLimits(), Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Preflight(t.Context(), preflightWorkload(t)); err != nil {
		t.Fatal(err)
	}
	forced := 0
	for _, b := range h.bodies {
		if asked(b) > 32 {
			t.Errorf("a turn of %d tokens was asked", asked(b))
		}
		if b["min_tokens"] != nil {
			forced++
		}
		text := b["messages"].([]any)[0].(map[string]any)["content"].(string)
		if strings.HasPrefix(text, "question") {
			t.Errorf("the text of a round: %q", text)
		}
	}
	if forced != 2 {
		t.Errorf("%d of 4 requests had a forced length", forced)
	}
}

// A workload of one turn is asked four times; one that cannot be asked is an error that names the turn.
func TestPreflightOfSmallWorkloads(t *testing.T) {
	one := newWorkload(t, workload.Manifest{}, workload.Turn{ID: "a", Prompt: &workload.Text{Inline: "x"}})
	picks, err := preflightTurns(one)
	if err != nil || len(picks) != record.ProbeRequests {
		t.Errorf("%d turns, %v", len(picks), err)
	}
	chat := newWorkload(t, workload.Manifest{}, workload.Turn{
		ID: "chat", Messages: []workload.TurnMessage{{Role: "user", Content: workload.Text{Inline: "x"}}},
	})
	c := offlineClient(t, Options{Dialect: "openai-completions"})
	if _, err := c.Preflight(t.Context(), chat); err == nil || !strings.Contains(err.Error(), "turn chat") {
		t.Errorf("error %v", err)
	}
}

// Tokens per event that were asked for must come; both arms must give them.
func TestPreflightOfTokensPerEvent(t *testing.T) {
	running := func(_ int, b map[string]any) string {
		n := asked(b)
		return fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"completion_tokens":%d}}`, n) + "\n\n" + finishEvent +
			usageEvent(fmt.Sprintf(`{"completion_tokens":%d}`, n)) + doneEvent
	}
	silent := func(_ int, b map[string]any) string { return streamOf("m", asked(b)) }
	for _, tt := range []struct {
		perEvent string
		answer   func(n int, body map[string]any) string
		ok       bool
		na       string
	}{
		{"usage", running, true, ""},
		{"usage", silent, false, ""},
		{"none", silent, false, "were not asked for"},
	} {
		srv := httptest.NewServer(&chatServer{answer: tt.answer})
		c := onlineClient(t, Options{URL: srv.URL, Model: "m", Settings: Settings{PerEventTokens: tt.perEvent}})
		r, err := c.Preflight(t.Context(), preflightWorkload(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range r.Checks {
			if check.Name == record.ProbePerEvent && (check.OK != tt.ok || !strings.Contains(check.NA, tt.na) || (check.NA == "") != (tt.na == "")) {
				t.Errorf("%s: %+v", tt.perEvent, check)
			}
		}
		if wrong, is := r.Wrong(); is != (tt.perEvent == "usage" && !tt.ok) {
			t.Errorf("%s: wrong %+v", tt.perEvent, wrong)
		}
		srv.Close()
	}
}
