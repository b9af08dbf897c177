package simserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// plainly is a plain server for tests.
func plainly(t *testing.T) *instance {
	t.Helper()
	cfg := Default()
	cfg.Plain = &Plain{First: Duration(5 * time.Millisecond), Gap: Duration(2 * time.Millisecond)}
	return start(t, cfg)
}

// asked is a request with headers.
func asked(path, body string, headers ...string) string {
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\ncontent-length: %d\r\n", path, len(body))
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "\r\n" + body
}

func connect(t *testing.T, in *instance) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", in.l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func response(t *testing.T, br *bufio.Reader) (*http.Response, string) {
	t.Helper()
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodPost})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// taken is what the server knows of a run of n requests that all have their answers.
func taken(t *testing.T, in *instance, run string, n int) []Entry {
	t.Helper()
	_, text := in.get(t, PlainTakePath+"?run="+run)
	all, err := ReadTruth([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != n {
		t.Fatalf("the server knows %d requests of the run, want %d", len(all), n)
	}
	return all
}

// Each event carries its stamp, the books hold the same stamps, and none lies before its due time.
func TestPlainStreamTellsTheTruth(t *testing.T) {
	for _, path := range []string{chatPath, completionPath} {
		t.Run(path, func(t *testing.T) {
			in := plainly(t)
			c := connect(t, in)
			request := asked(path, `{"stream": true, "max_tokens": 4, "stream_options": {"include_usage": true}}`, "X-Truth-Run: r", "x-truth-gap: 3ms")
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			resp, body := response(t, bufio.NewReader(c))
			if id := resp.Header.Get("X-Request-Id"); resp.StatusCode != http.StatusOK || id != "r-1" {
				t.Errorf("status %d, id %q", resp.StatusCode, id)
			}
			events := strings.Split(strings.TrimSpace(body), "\n\n")
			if len(events) != 6 || events[5] != "data: [DONE]" || !strings.Contains(events[4], `"completion_tokens":4`) ||
				!strings.Contains(events[3], `"finish_reason":"length"`) {
				t.Fatalf("events %q", events)
			}
			e := taken(t, in, "r", 1)[0]
			if e.ID != "r-1" || e.Outcome != "ok" || len(e.WroteNS) != 4 || e.OutputTokens != 4 {
				t.Fatalf("entry %+v", e)
			}
			for i, stamp := range e.WroteNS {
				if !strings.Contains(events[i], fmt.Sprintf("%0*d", stampWidth, stamp)) {
					t.Errorf("event %d does not carry its stamp %d: %s", i, stamp, events[i])
				}
				if due := e.ArrivedNS + int64(5*time.Millisecond) + int64(i)*int64(3*time.Millisecond); stamp < due {
					t.Errorf("event %d was written %d ns early", i, due-stamp)
				}
			}
			if _, text := in.get(t, PlainTakePath+"?run=r"); text != "" {
				t.Errorf("taken twice: %s", text)
			}
		})
	}
}

// Requests may come byte by byte, or several in one write, on one connection.
func TestPlainRequestsHoweverTheyArrive(t *testing.T) {
	in := plainly(t)
	c := connect(t, in)
	br := bufio.NewReader(c)
	long := strings.Repeat("x", 20<<10) // more than the reader's first buffer
	one := asked(completionPath, fmt.Sprintf(`{"prompt": %q, "max_completion_tokens": 2}`, long), "X-Truth-Run: r")
	for i := range len(one) {
		if i < 400 || i > len(one)-400 {
			if _, err := c.Write([]byte{one[i]}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if i == 400 {
			if _, err := io.WriteString(c, one[400:len(one)-399]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := io.WriteString(c, one+one); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		resp, body := response(t, br)
		if resp.Header.Get("X-Request-Id") != "r-"+strconv.Itoa(i+1) || !strings.Contains(body, `"completion_tokens":2`) {
			t.Fatalf("answer %d: %v %s", i, resp.Header, body)
		}
	}
	for _, e := range taken(t, in, "r", 3) {
		if len(e.WroteNS) != 1 || e.WroteNS[0] < e.ArrivedNS {
			t.Errorf("entry %+v", e)
		}
	}
}

func TestPlainRefusesWhatIsNoRequest(t *testing.T) {
	tests := map[string]struct{ sent, want string }{
		"body":     {asked(chatPath, `{"stream": 1}`, "X-Truth-Run: bad"), "HTTP/1.1 400"},
		"path":     {"GET /nowhere HTTP/1.1\r\n\r\n", "HTTP/1.1 404"},
		"no http":  {"hello\r\n\r\n", ""},
		"no colon": {"POST / HTTP/1.1\r\nhost\r\n\r\n", ""},
		"chunked":  {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", ""},
		"negative": {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", ""},
		"duration": {asked(chatPath, "{}", "X-Truth-Gap: soon"), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := plainly(t)
			c := connect(t, in)
			if _, err := io.WriteString(c, tt.sent); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if !strings.HasPrefix(line, tt.want) || tt.want == "" && err == nil {
				t.Errorf("answer %q, %v", line, err)
			}
			if name == "body" && taken(t, in, "bad", 1)[0].Outcome != "rejected" {
				t.Error("not in the books")
			}
		})
	}
}

// A client that does not read holds up nobody else, and gets every byte when it reads again.
func TestPlainFullSocketHoldsNobodyUp(t *testing.T) {
	in := plainly(t)
	lazy := connect(t, in)
	if tcp, ok := lazy.(*net.TCPConn); ok {
		if err := tcp.SetReadBuffer(256 << 10); err != nil {
			t.Fatal(err)
		}
	}
	const many = 60_000 // some 9 MB, more than the buffers of both ends hold
	if _, err := io.WriteString(lazy, asked(completionPath, fmt.Sprintf(`{"stream":true,"max_tokens":%d}`, many), "X-Truth-Run: lazy", "X-Truth-Gap: 0s")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		quick := connect(t, in)
		if _, err := io.WriteString(quick, asked(completionPath, `{"stream":true,"max_tokens":3}`)); err != nil {
			t.Fatal(err)
		}
		if _, body := response(t, bufio.NewReader(quick)); strings.Count(body, "data: ") != 4 {
			t.Fatalf("body %q", body)
		}
	}
	_, body := response(t, bufio.NewReader(lazy))
	if n := strings.Count(body, "data: "); n != many+1 {
		t.Errorf("%d events, want %d and the end marker", n, many)
	}
	if e := taken(t, in, "lazy", 1)[0]; e.Outcome != "ok" || len(e.WroteNS) != many {
		t.Errorf("outcome %s, %d stamps", e.Outcome, len(e.WroteNS))
	}
}

func TestPlainCountsThoseWhoLeave(t *testing.T) {
	in := plainly(t)
	c := connect(t, in)
	if _, err := io.WriteString(c, asked(completionPath, `{"stream":true,"max_tokens":100000}`, "X-Truth-Run: gone")); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadByte(); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if e := taken(t, in, "gone", 1)[0]; e.Outcome != "aborted" || len(e.WroteNS) == 0 {
		t.Errorf("outcome %s, %d stamps", e.Outcome, len(e.WroteNS))
	}
	_, text := in.get(t, "/sim/truth")
	for _, want := range []string{`"requests":1,`, `"aborted":1,`, `"in_flight":0,`} {
		if !strings.Contains(text, want) {
			t.Errorf("counts %s lack %s", text, want)
		}
	}
}

// A run is asked for when its client has all answers, which may be before the books know that they were written.
func TestPlainBooksWaitForWhatIsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks()
		one, two := &entry{run: "r"}, &entry{run: "r"}
		b.begun(one)
		b.begun(two)
		b.ended(one, "ok")
		began := time.Now()
		time.AfterFunc(patience/4, func() { b.ended(two, "ok") })
		if got := b.taken("r"); len(got) != 2 || time.Since(began) != patience/4 {
			t.Errorf("%d entries after %v", len(got), time.Since(began))
		}
		b.begun(one)
		b.begun(two)
		b.ended(two, "ok")
		began = time.Now()
		if got := b.taken("r"); len(got) != 1 || got[0] != two || time.Since(began) != patience {
			t.Errorf("%d entries after %v: what is still in flight stays", len(got), time.Since(began))
		}
		b.ended(one, "aborted")
		if got := b.taken("r"); len(got) != 1 || got[0] != one {
			t.Errorf("%d entries at the second asking", len(got))
		}
		if got := b.taken("r"); got != nil || len(b.runs) != 0 {
			t.Errorf("%d entries, %d runs are left", len(got), len(b.runs))
		}
	})
}

// The end of the server breaks running streams off and leaves nothing behind.
func TestPlainEndsInTheMiddle(t *testing.T) {
	in := plainly(t)
	c := connect(t, in)
	if _, err := io.WriteString(c, asked(completionPath, `{"stream":true,"max_tokens":100000}`)); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	if _, err := br.ReadByte(); err != nil {
		t.Fatal(err)
	}
	in.stop()
	if err := in.wait(t); err != nil {
		t.Error(err)
	}
	rest, err := io.ReadAll(br)
	if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Error(err)
	}
	if bytes.Contains(rest, []byte("[DONE]")) {
		t.Error("the stream came to its end")
	}
}

// Whatever arrives, the reader neither panics nor loops, and what it takes for a request lies within what came.
func FuzzPlainReader(f *testing.F) {
	f.Add([]byte(asked(chatPath, `{"stream":true}`, "X-Truth-First: 1ms", "X-Truth-Gap: 2ms", "X-Truth-Run: a b")))
	f.Add([]byte("GET /sim/truth/take?run=%zz HTTP/1.1\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &plainReader{conn: reads{once{Reader: bytes.NewReader(data)}, newClock()}, books: newBooks(), buf: make([]byte, 64)}
		total := 0
		for {
			q, err := r.next()
			if err != nil {
				return
			}
			if total += q.size; total > len(data) {
				t.Fatalf("requests of %d bytes out of %d", total, len(data))
			}
			_, _ = q.query("run"), q.arrived
			_, _ = parsePlain(q.body)
			r.drop(q)
		}
	})
}

// once is a connection that gives a reader's bytes.
type once struct {
	net.Conn
	io.Reader
}

func (o once) Read(p []byte) (int, error) { return o.Reader.Read(p) }
