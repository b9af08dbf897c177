package client

// ollama is the native API of Ollama: one JSON object per line. /api/generate takes a prompt, everything else messages.
func ollama() *dialect {
	return &dialect{
		name: "ollama", path: "/api/chat", layout: inLines,
		catalog: catalog{path: "/api/tags", names: namesUnder("models", "name")},
		terms: terms{
			messages: "messages", prompt: "prompt", promptAt: "/api/generate", within: "options", stream: "stream", model: "model",
			temperature: "temperature", topP: "top_p", seed: "seed", caps: []string{"num_predict"},
		},
		read: readOllama, finishes: true,
		signs: signs{says: `newline-delimited JSON with "done"`, all: []string{"done"}, any: []string{"message", "response"}},
	}
}

// readOllama reads a line of /api/chat or /api/generate. The closing object has the counts and times, in ns.
func readOllama(w *walk, e *event, _ reading) {
	var message, answer part
	known := false
	w.object(func(name []byte) {
		here := true
		switch string(name) {
		case "model":
			e.model = w.text()
			here = false
		case "error":
			e.error(w.value())
		case "message":
			message = readOllamaMessage(w, e)
		case "response":
			answer.text = w.text()
		case "thinking":
			answer.thinking = w.text()
		case "done":
			e.over = w.truth()
		case "done_reason":
			answer.finish = w.text()
		case "eval_count":
			e.usage.completion, e.hasUsage = w.count(), true
		case "prompt_eval_count":
			e.usage.prompt, e.hasUsage = w.count(), true
		case "load_duration":
			e.times.load = nanoseconds(w.count())
		case "prompt_eval_duration":
			e.times.prompt = nanoseconds(w.count())
		case "eval_duration":
			e.times.decode = nanoseconds(w.count())
		default:
			here = false
		}
		known = known || here
	})
	e.unknown = !known
	p := e.part()
	finish := answer.finish
	*p = answer
	if message.said {
		*p = message
	}
	if e.over {
		p.finish = finish
	}
}

func readOllamaMessage(w *walk, e *event) part {
	m := part{said: w.is('{'), toolsFrom: len(e.tools), toolsTo: len(e.tools)}
	w.object(func(name []byte) {
		switch string(name) {
		case "content":
			m.text = w.text()
		case "thinking":
			m.thinking = w.text()
		case "tool_calls":
			w.array(func() { readTool(w, e) })
		}
	})
	m.toolsTo = len(e.tools)
	return m
}

// nanoseconds takes a count as a duration.
func nanoseconds(c count) duration { return duration{int64(c.n), c.set && !c.bad} }
