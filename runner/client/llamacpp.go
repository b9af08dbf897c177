package client

// llamaCPP is the native API of llama.cpp's server.
func llamaCPP() *dialect {
	return &dialect{
		name: "llamacpp", path: "/completion", catalog: openAIList(),
		terms: terms{
			prompt: "prompt", temperature: "temperature", topP: "top_p", seed: "seed", stream: "stream", caps: []string{"n_predict"},
			force: func(f fields, _ int) { f["ignore_eos"] = true },
		},
		complete: func(f fields, _ bool, _ *Options) { f.otherwise("cache_prompt", true) },
		read:     readLlamaCPP, finishes: true, counts: countsRunning,
		signs: signs{says: `events with "content" and "stop"`, all: []string{"content", "stop"}},
	}
}

// readLlamaCPP reads an event of /completion. tokens_predicted counts up from event to event.
func readLlamaCPP(w *walk, e *event, _ reading) {
	var text, finish raw
	var stopped raw
	known, stop := false, false
	cached, reused, fresh := count{}, count{}, count{}
	w.object(func(name []byte) {
		switch string(name) {
		case "error":
			e.error(w.value())
		case "model":
			e.model = w.text()
		case "content":
			text, known = w.text(), true
		case "stop":
			known = true
			stop = w.truth()
		case "stop_type":
			finish = w.text()
		case "stopped_eos", "stopped_word", "stopped_limit":
			// Older servers name the reason so. The name is gone when the value has been read.
			reason := stopReasons[string(name)]
			if w.truth() {
				stopped = reason
			}
		case "tokens_predicted":
			e.tokens = w.count()
			e.usage.completion, e.hasUsage = e.tokens, true
		case "tokens_evaluated":
			e.usage.prompt, e.hasUsage = w.count(), true
		case "tokens_cached":
			cached = w.count()
		case "truncated":
			e.cut = w.truth()
		case "timings":
			reused, fresh = readTimings(w, e)
		}
	})
	e.unknown, e.over = !known, stop
	e.usage.cached = cachedTokens(e.usage.prompt, cached, reused, fresh)
	p := e.part()
	p.text = text
	if stop {
		p.finish = finish
		if finish.empty() || string(finish) == `"none"` {
			p.finish = stopped
		}
	}
}

// stopReasons puts the older fields into the words of the newer one.
var stopReasons = map[string]raw{"stopped_eos": raw(`"eos"`), "stopped_word": raw(`"word"`), "stopped_limit": raw(`"limit"`)}

func readTimings(w *walk, e *event) (reused, fresh count) {
	w.object(func(name []byte) {
		switch string(name) {
		case "cache_n":
			reused = w.count()
		case "prompt_n":
			fresh = w.count()
		case "prompt_ms":
			e.times.prompt = milliseconds(w.number())
		case "predicted_ms":
			e.times.decode = milliseconds(w.number())
		}
	})
	return reused, fresh
}

// cachedTokens finds how much of the prompt came from the cache. The timings say it; tokens_cached is, in many versions, the
// length of the whole context at the end, and is believed only where it could be a part of the prompt.
func cachedTokens(prompt, cached, reused, fresh count) count {
	switch {
	case reused.set:
		return reused
	case fresh.set && !fresh.bad && prompt.set && fresh.n <= prompt.n:
		return count{n: prompt.n - fresh.n, set: true}
	case cached.set && !cached.bad && prompt.set && cached.n < prompt.n:
		return cached
	default:
		return count{}
	}
}

func milliseconds(ms float64, ok bool) duration {
	if !ok || ms < 0 || ms > 1e12 {
		return duration{}
	}
	return duration{int64(ms * 1e6), true}
}
