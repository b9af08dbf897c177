package simserver

import (
	"encoding/json"
	"net/http"
)

// routes are the endpoints, under the paths that vLLM gives them, and the truth.
func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.inference(chatDialect()))
	mux.HandleFunc("POST /v1/completions", s.inference(completionDialect()))
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("POST /reset_prefix_cache", s.resetCache)
	mux.HandleFunc("GET /sim/truth", s.showTruth)
	return mux
}

// health answers 200 with an empty body, as vLLM does, once the configured time has come.
func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	if s.clock.now() < s.truth.start+int64(s.cfg.Start.HealthAfter) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{
		"object": "list",
		"data": []any{map[string]any{
			"id": s.cfg.Model, "object": "model", "created": s.started.Unix(), "owned_by": "tailgate",
		}},
	})
}

func (s *server) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	s.scrape(w)
}

// resetCache forgets the prefix cache and says so, as newer servers do.
func (s *server) resetCache(w http.ResponseWriter, _ *http.Request) {
	s.driver.look(func(e *engine) { e.cache.reset() })
	writeJSON(w, map[string]bool{"success": true})
}

// showTruth gives the counts, and brings the truth log on disk up to date first.
func (s *server) showTruth(w http.ResponseWriter, _ *http.Request) {
	if err := s.truth.flush(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, s.truth.counts(s.clock.now()))
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}
