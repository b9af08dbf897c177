package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/client/scripttest"
)

const streams = "../../runner/client/testdata/streams"

// TestProbePlaysEveryScript asks a server that plays a stream script, over a socket, with the command line a user would
// write, and holds what --json prints against what the script says: whole, and with every write cut into single bytes. The
// scripts mostly wait, so they are played side by side.
func TestProbePlaysEveryScript(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real time")
	}
	all, err := scripttest.Load(streams)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 105 {
		t.Errorf("%d scripts, want 105", len(all))
	}
	var playing sync.WaitGroup
	room := make(chan struct{}, 16)
	for _, s := range all {
		for _, how := range []string{"whole", "bytes"} {
			room <- struct{}{}
			playing.Go(func() {
				defer func() { <-room }()
				t.Run(s.Name+"/"+how, func(t *testing.T) { probeScript(t, &s, how == "bytes") })
			})
		}
	}
	playing.Wait()
}

func probeScript(t *testing.T, s *scripttest.Script, cut bool) {
	t.Helper()
	piece := 0
	if cut {
		piece = 1
		if len(s.Body()) > 1<<20 {
			piece = 4 << 10
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	played := make(chan *scripttest.Playback, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		played <- s.Play(c, piece, func() { _ = c.(*net.TCPConn).SetLinger(0) })
	}()
	var out, errOut bytes.Buffer
	code := command(probeArgs(t, s, l.Addr().String()), &out, &errOut, os.Environ())
	var p *scripttest.Playback
	select {
	case p = <-played:
	case <-time.After(20 * time.Second):
		t.Fatalf("the server is still playing; the command said %s%s", &out, &errOut)
	}
	if p.Requests != 1 || len(p.Wrong) > 0 {
		t.Errorf("the server saw %d requests, wrong: %v", p.Requests, p.Wrong)
	}
	var got struct{ Outcome, Detail string }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &errOut)
	}
	if want := map[bool]int{true: 0, false: 1}[got.Outcome == "ok"]; code != want {
		t.Errorf("exit code %d for outcome %s", code, got.Outcome)
	}
	if (got.Detail == "") != (got.Outcome == "ok") {
		t.Errorf("outcome %s with detail %q", got.Outcome, got.Detail)
	}
	for _, text := range s.Check(out.Bytes(), p, scripttest.Chance{Reads: true, Late: 5 * time.Second}) {
		t.Error(text)
	}
	if t.Failed() {
		t.Logf("%s", &out)
	}
}

// probeArgs is the command line for a script.
func probeArgs(t *testing.T, s *scripttest.Script, address string) []string {
	t.Helper()
	args := []string{"probe", "http://" + address, "--dialect", s.Dialect, "--model", "m", "--json"}
	if s.Path == "/api/generate" {
		args = append(args, "--path", s.Path)
	}
	for name, value := range s.Client {
		if name == "per_event_tokens" {
			args = append(args, "--per-event-tokens", value)
			continue
		}
		args = append(args, "--limit", name+"="+value+"ms")
	}
	if s.Request == "" {
		return args
	}
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(s.Request), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(args, "--body", file)
}

// A service that speaks another dialect is named, and its path when it has none of ours.
func TestProbeNamesTheOtherDialect(t *testing.T) {
	all, err := scripttest.Load(streams)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]scripttest.Script{}
	for _, s := range all {
		byName[s.Name] = s
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "dialects.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```text\noutcome")
	shown, _, _ := strings.Cut(after, "```")
	_, hint, _ := strings.Cut(shown, "\n")
	for _, tt := range []struct{ script, asked, want string }{
		// As docs/dialects.md shows it.
		{"S-13a-ollama-ndjson", "openai-chat", strings.TrimSpace(hint)},
		{"D-01a-tgi", "openai-chat", "looks like tgi"},
		{"D-05-llamacpp", "openai-chat", "looks like llamacpp"},
		{"S-12d-generate-stream", "openai-chat", "looks like triton-generate"},
		{"S-12a-infer", "triton-generate", "looks like kserve-infer"},
		{"S-01a-role-empty", "ollama", "looks like openai-chat"},
		{"D-04-completions", "tgi", "looks like openai-completions"},
		{"D-04-completions", "llamacpp", "looks like openai-completions"},
	} {
		t.Run(tt.script+" as "+tt.asked, func(t *testing.T) {
			s := byName[tt.script]
			for i := range s.Steps {
				s.Steps[i].At = 0
			}
			var lc net.ListenConfig
			l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					s.Play(c, 0, func() {})
				}
			}()
			var out, errOut bytes.Buffer
			url := "http://" + l.Addr().String() + s.Path
			code := command([]string{"probe", url, "--dialect", tt.asked, "--model", "m"}, &out, &errOut, os.Environ())
			if code != probeNotOK || !strings.Contains(out.String(), tt.want) {
				t.Errorf("exit code %d, no %q in\n%s%s", code, tt.want, &out, &errOut)
			}
		})
	}
}

// A service of its own kind is read where the flags say, and flags that its dialect does not take are refused unsent.
func TestProbeOfAServiceOfItsOwnKind(t *testing.T) {
	asked := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked += r.Method + " " + r.URL.Path + " " + string(body)
		_, _ = io.WriteString(w, `{"part":"A","used":{"out":1}}`+"\n"+`{"part":"B","why":"stop","used":{"out":2}}`+"\n")
	}))
	defer srv.Close()
	file := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(file, []byte(`[1.50]`), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"probe", srv.URL, "--dialect", "http-json", "--path", "/complete", "--body", file, "--stream", "ndjson", "--method", "PUT",
		"--pointer-text", "/part", "--pointer-finish", "/why", "--pointer-n-out", "/used/out", "--json",
	}
	var out, errOut bytes.Buffer
	code := command(args, &out, &errOut, os.Environ())
	var got struct {
		Outcome, Text, Finish string
		Output                int    `json:"output_tokens"`
		Source                string `json:"tokens_source"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err, &out, &errOut)
	}
	if code != 0 || got.Outcome != "ok" || got.Text != "AB" || got.Finish != "stop" || got.Output != 2 || got.Source != "usage" {
		t.Errorf("exit code %d\n%s", code, &out)
	}
	if want := "PUT /complete [1.50]"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for flag, want := range map[string]string{
		"--cap-field=both": "http-json has no such setting", "--pointer-text=part": "begins with /", "--stream=ws": "want one of none, sse, ndjson",
		"--dialect=gopher": "known: openai-chat",
	} {
		out.Reset()
		errOut.Reset()
		if code := command(append(args, flag), &out, &errOut, os.Environ()); code != 2 || !strings.Contains(errOut.String(), want) {
			t.Errorf("%s: exit code %d, %s", flag, code, &errOut)
		}
	}
	if strings.Count(asked, "PUT") != 1 {
		t.Errorf("a refused command asked the server: %s", asked)
	}
}
