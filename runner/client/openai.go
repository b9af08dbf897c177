package client

import "strings"

// openAIList is the model list of openai-chat and openai-completions, which llama.cpp has too.
func openAIList() catalog { return catalog{path: "/v1/models", names: namesUnder("data", "id")} }

// openAIForce makes an answer exactly n tokens long, in the words of vLLM and SGLang.
func openAIForce(f fields, n int) { f["min_tokens"], f["ignore_eos"] = n, true }

// openAIStream asks for usage at the end of a stream, or in each event.
func openAIStream(f fields, stream bool, o *Options) {
	delete(f, "stream_options")
	if !stream {
		return
	}
	options := fields{"include_usage": true}
	if o.PerEventTokens == perEventUsage {
		options["continuous_usage_stats"] = true
	}
	f["stream_options"] = options
}

// readOpenAI reads an event of openai-chat or openai-completions, or a whole answer of either.
func readOpenAI(w *walk, e *event, how reading) {
	var object, message raw
	choices := false
	w.object(func(name []byte) {
		switch string(name) {
		case "id":
			e.id = w.text()
		case "model":
			e.model = w.text()
		case "object":
			object = w.text()
		case "message":
			message = w.value()
		case "error":
			e.error(w.value())
		case "choices":
			choices = choices || w.is('[')
			e.parts, e.tools = e.parts[:0], e.tools[:0]
			w.array(func() { readChoice(w, e, how.whole) })
		case "usage":
			readUsage(w, e)
		}
	})
	switch string(object) {
	case `"error"`:
		if !e.faulty {
			e.fault, e.faulty = message, true
		}
	case "", `""`, `"chat.completion.chunk"`, `"chat.completion"`, `"text_completion"`:
	default:
		e.unknown = !choices && !e.hasUsage
	}
}

func readChoice(w *walk, e *event, whole bool) {
	p := e.part()
	var delta, message part
	w.object(func(name []byte) {
		switch string(name) {
		case "index":
			p.index = w.integer(0)
		case "delta":
			delta = readDelta(w, e)
		case "message":
			message = readDelta(w, e)
		case "text":
			p.completion = w.text()
		case "finish_reason":
			p.finish = w.text()
		case "logprobs":
			p.tokens = readLogprobs(w)
		}
	})
	if whole && message.said {
		delta = message
	}
	p.text, p.reasoning, p.thinking, p.refusal, p.audio = delta.text, delta.reasoning, delta.thinking, delta.refusal, delta.audio
	p.toolsFrom, p.toolsTo = delta.toolsFrom, delta.toolsTo
}

// readDelta reads a part of an answer, or a whole message.
func readDelta(w *walk, e *event) part {
	d := part{said: w.is('{'), toolsFrom: len(e.tools), toolsTo: len(e.tools)}
	w.object(func(name []byte) {
		switch string(name) {
		case "content":
			d.text = w.text()
		case "reasoning_content":
			d.reasoning = w.text()
		case "reasoning":
			d.thinking = w.text()
		case "refusal":
			d.refusal = w.text()
		case "tool_calls":
			w.array(func() { readTool(w, e) })
		case "audio":
			w.object(func(name []byte) {
				if string(name) == "data" {
					d.audio = max(len(w.text())-len(`""`), 0)
				}
			})
		}
	})
	d.toolsTo = len(e.tools)
	return d
}

// readTool reads a tool call or a piece of one. The arguments are a string of JSON, in Ollama an object.
func readTool(w *walk, e *event) {
	t := toolPart{index: -1}
	w.object(func(name []byte) {
		switch string(name) {
		case "index":
			t.index = w.integer(-1)
		case "function":
			w.object(func(name []byte) {
				switch string(name) {
				case "name":
					t.name = w.text()
				case "index":
					t.index = w.integer(-1)
				case "arguments":
					t.object = !w.is('"')
					t.arguments = w.value()
				}
			})
		}
	})
	e.tools = append(e.tools, t)
}

// readLogprobs counts the entries of the list: one entry is one token.
func readLogprobs(w *walk) int {
	n := 0
	w.object(func(name []byte) {
		switch string(name) {
		case "content", "tokens":
			here := 0
			w.array(func() {
				w.value()
				here++
			})
			n = max(n, here)
		}
	})
	return n
}

// readUsage reads the counts of the answer; null says nothing.
func readUsage(w *walk, e *event) {
	if !w.is('{') {
		w.value()
		return
	}
	e.usage, e.hasUsage = usage{}, true
	w.object(func(name []byte) {
		switch string(name) {
		case "prompt_tokens":
			e.usage.prompt = w.count()
		case "completion_tokens":
			e.usage.completion = w.count()
			e.tokens = e.usage.completion
		case "prompt_tokens_details":
			w.object(func(name []byte) {
				if string(name) == "cached_tokens" {
					e.usage.cached = w.count()
				}
			})
		case "completion_tokens_details":
			w.object(func(name []byte) {
				if string(name) == "reasoning_tokens" {
					e.usage.reasoning = w.count()
				}
			})
		}
	})
}

// pathEnds reports whether a URL's path ends like this, whatever stands before it and after it.
func pathEnds(path, end string) bool {
	path, _, _ = strings.Cut(path, "?")
	return strings.HasSuffix(strings.TrimSuffix(path, "/"), end)
}
