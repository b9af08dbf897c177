package client

import "encoding/json"

// tgi is the native API of Hugging Face's Text Generation Inference. Each event is one token; the last one also carries the
// whole text, and there is no marker after it.
func tgi() *dialect {
	return &dialect{
		name: "tgi", path: "/generate_stream", plain: "/generate",
		catalog: catalog{path: "/info", names: func(list []byte) []string {
			var info struct {
				ID string `json:"model_id"`
			}
			_ = json.Unmarshal(list, &info)
			return []string{info.ID}
		}},
		terms: terms{
			prompt: "inputs", within: "parameters", temperature: "temperature", topP: "top_p", seed: "seed", caps: []string{"max_new_tokens"},
		},
		complete: func(f fields, _ bool, _ *Options) {
			p := f.within("parameters")
			p["details"] = true
			// Greedy decoding has a switch of its own here, and a temperature of 0 is refused.
			switch t, set := p["temperature"]; {
			case !set:
			case isZero(t):
				delete(p, "temperature")
				p.otherwise("do_sample", false)
			default:
				p.otherwise("do_sample", true)
			}
		},
		read: readTGI, finishes: true, counts: countsEach,
		signs: signs{says: `events with "token" and "generated_text"`, any: []string{"generated_text"}},
	}
}

func isZero(v any) bool {
	n, ok := v.(json.Number)
	if !ok {
		return false
	}
	x, err := n.Float64()
	return err == nil && x == 0
}

// readTGI reads a token. Special tokens are counted and are no output.
func readTGI(w *walk, e *event, how reading) {
	var token, whole, finish raw
	special, known, got := false, false, false
	w.object(func(name []byte) {
		switch string(name) {
		case "error":
			e.error(w.value())
		case "token":
			known = true
			w.object(func(name []byte) {
				switch string(name) {
				case "text":
					token, got = w.text(), true
				case "special":
					special = w.truth()
				}
			})
		case "generated_text":
			known = true
			e.over = w.is('"')
			whole = w.text()
		case "details":
			finish = readTGIDetails(w, e)
		}
	})
	e.unknown = !known
	if got {
		e.tokens = count{n: 1, set: true}
	}
	if special {
		token = nil
	}
	if how.whole {
		token = whole
	}
	p := e.part()
	p.text, p.finish = token, finish
}

func readTGIDetails(w *walk, e *event) (finish raw) {
	w.object(func(name []byte) {
		switch string(name) {
		case "finish_reason":
			finish = w.text()
		case "generated_tokens":
			e.usage.completion, e.hasUsage = w.count(), true
		case "input_length":
			e.usage.prompt, e.hasUsage = w.count(), true
		}
	})
	return finish
}
