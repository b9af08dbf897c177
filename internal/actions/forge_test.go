package actions

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"
)

const (
	botLogin  = "github-actions[bot]"
	testToken = "ghs_0123456789abcdefghijklmnopqrstuvwxyz"
)

// forge is a fake of GitHub's API as far as comments go. It is stricter than GitHub: a path, a method, a query key or a body
// field that it does not know fails the test. Shapes and limits follow GitHub's REST description of 2022-11-28.
type forge struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	comments []remark
	next     int64
	// log lists "METHOD path" of each call, in order.
	log []string
	// limit is the longest body taken, UTF-16 units; viewer is who the token belongs to, "" for one that may not ask.
	limit  int
	viewer string
	// faults answer calls that match "METHOD" instead of the forge, one after another.
	faults map[string][]http.HandlerFunc
	// onPost runs after a comment was created and before the answer: the place for a race.
	onPost func()
}

type remark struct {
	ID      int64     `json:"id"`
	NodeID  string    `json:"node_id"`
	URL     string    `json:"url"`
	HTMLURL string    `json:"html_url"`
	Body    string    `json:"body"`
	User    forgeUser `json:"user"`
}

type forgeUser struct {
	Login string `json:"login"`
	Type  string `json:"type"`
}

func newForge(t *testing.T) *forge {
	t.Helper()
	f := &forge{t: t, next: 100, limit: 65_536, viewer: "github-actions", faults: map[string][]http.HandlerFunc{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /repos/acme/service/issues/7/comments", f.list)
	mux.HandleFunc("POST /repos/acme/service/issues/7/comments", f.create)
	mux.HandleFunc("PATCH /repos/acme/service/issues/comments/{id}", f.edit)
	mux.HandleFunc("DELETE /repos/acme/service/issues/comments/{id}", f.remove)
	mux.HandleFunc("POST /graphql", f.graphQL)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("unknown call %s %s", r.Method, r.URL)
		http.NotFound(w, r)
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.log = append(f.log, r.Method+" "+r.URL.Path)
		if got := r.Header.Get("Authorization"); got != "Bearer "+testToken {
			t.Errorf("%s %s: Authorization %q", r.Method, r.URL, got)
		}
		if !strings.HasPrefix(r.Header.Get("User-Agent"), "tailgate/") {
			t.Errorf("User-Agent %q", r.Header.Get("User-Agent"))
		}
		// A fault of nil lets the call through.
		if queue := f.faults[r.Method]; len(queue) > 0 && r.URL.Path != "/graphql" {
			f.faults[r.Method] = queue[1:]
			if queue[0] != nil {
				queue[0](w, r)
				return
			}
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// add puts a comment there, as if somebody had written it.
func (f *forge) add(login, kind, body string) int64 {
	f.next++
	id := f.next
	f.comments = append(f.comments, remark{
		ID: id, NodeID: fmt.Sprintf("IC_%d", id), URL: fmt.Sprintf("%s/repos/acme/service/issues/comments/%d", f.URL, id),
		HTMLURL: fmt.Sprintf("https://github.com/acme/service/pull/7#issuecomment-%d", id), Body: body, User: forgeUser{login, kind},
	})
	return id
}

// list pages like GitHub: 30 a page unless asked, 100 at most, Link headers; sort and direction do nothing there.
func (f *forge) list(w http.ResponseWriter, r *http.Request) {
	size, page := 30, 1
	for key, values := range r.URL.Query() {
		n, err := strconv.Atoi(values[0])
		switch {
		case err != nil || n < 1:
			f.t.Errorf("query %s=%q", key, values)
		case key == "per_page" && n <= 100:
			size = n
		case key == "page":
			page = n
		default:
			f.t.Errorf("query %s=%q is unknown or too large", key, values)
		}
	}
	from := min((page-1)*size, len(f.comments))
	to := min(from+size, len(f.comments))
	if to < len(f.comments) {
		link := func(page int, rel string) string {
			q := url.Values{"per_page": {strconv.Itoa(size)}, "page": {strconv.Itoa(page)}}
			return fmt.Sprintf("<%s%s?%s>; rel=%q", f.URL, r.URL.Path, q.Encode(), rel)
		}
		w.Header().Set("Link", link(page+1, "next")+", "+link((len(f.comments)+size-1)/size, "last"))
	}
	answer(w, http.StatusOK, f.comments[from:to])
}

func (f *forge) create(w http.ResponseWriter, r *http.Request) {
	if body, ok := f.body(w, r); ok {
		f.add(botLogin, "Bot", body)
		made := f.comments[len(f.comments)-1]
		if f.onPost != nil {
			f.onPost()
		}
		answer(w, http.StatusCreated, made)
	}
}

func (f *forge) edit(w http.ResponseWriter, r *http.Request) {
	i := f.find(r)
	if i < 0 {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	if body, ok := f.body(w, r); ok {
		f.comments[i].Body = body
		answer(w, http.StatusOK, f.comments[i])
	}
}

func (f *forge) remove(w http.ResponseWriter, r *http.Request) {
	i := f.find(r)
	if i < 0 {
		refuse(w, http.StatusNotFound, "Not Found")
		return
	}
	f.comments = slices.Delete(f.comments, i, i+1)
	w.WriteHeader(http.StatusNoContent)
}

// find looks a comment up and holds writes to those of the token's own.
func (f *forge) find(r *http.Request) int {
	i := slices.IndexFunc(f.comments, func(c remark) bool { return strconv.FormatInt(c.ID, 10) == r.PathValue("id") })
	if i >= 0 && f.comments[i].User.Type != "Bot" {
		f.t.Errorf("%s of somebody else's comment %d", r.Method, f.comments[i].ID)
	}
	return i
}

// body reads a write: one field, body, within the limit.
func (f *forge) body(w http.ResponseWriter, r *http.Request) (string, bool) {
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		f.t.Errorf("Content-Type %q", got)
	}
	var sent struct {
		Body *string `json:"body"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&sent); err != nil || sent.Body == nil || *sent.Body == "" {
		f.t.Errorf("%s %s: body: %v", r.Method, r.URL, err)
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
		return "", false
	}
	if n := len(utf16.Encode([]rune(*sent.Body))); n > f.limit {
		refuse(w, http.StatusUnprocessableEntity, fmt.Sprintf("Body is too long (maximum is %d characters)", f.limit))
		return "", false
	}
	return *sent.Body, true
}

func (f *forge) graphQL(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil || !strings.Contains(string(text), "viewer{login}") {
		f.t.Errorf("graphql %q: %v", text, err)
	}
	if f.viewer == "" {
		answer(w, http.StatusOK, map[string]any{"errors": []any{map[string]string{"type": "FORBIDDEN"}}})
		return
	}
	answer(w, http.StatusOK, map[string]any{"data": map[string]any{"viewer": map[string]string{"login": f.viewer}}})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]string{"message": message, "documentation_url": "https://docs.github.com/rest"})
}

// fault answers one call with a status and headers.
func fault(code int, message string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		refuse(w, code, message)
	}
}

// cut closes the connection without an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// writes are the calls that change something.
func (f *forge) writes() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []string
	for _, call := range f.log {
		if method, path, _ := strings.Cut(call, " "); method != http.MethodGet && path != "/graphql" {
			list = append(list, method)
		}
	}
	return strings.Join(list, " ")
}

// bodies are the comments there are.
func (f *forge) bodies() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]string, len(f.comments))
	for i, c := range f.comments {
		list[i] = c.Body
	}
	return list
}

// newServer serves a handler at an address of its own.
func newServer(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}
