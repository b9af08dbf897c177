package client

import "encoding/json"

// modelIndex is Triton's list of models. Only those that are loaded count.
func modelIndex() catalog {
	return catalog{path: "/v2/repository/index", post: true, names: func(list []byte) []string {
		var models []struct {
			Name  string `json:"name"`
			State string `json:"state"`
		}
		_ = json.Unmarshal(list, &models)
		var names []string
		for _, m := range models {
			if m.State == "READY" {
				names = append(names, m.Name)
			}
		}
		return names
	}}
}

// tritonGenerate is the generate extension of Triton. Its events carry text and whatever the model adds; the stream ends
// with the body.
func tritonGenerate() *dialect {
	return &dialect{
		name: "triton-generate", path: "/v2/models/%s/generate_stream", plain: "/v2/models/%s/generate", catalog: modelIndex(),
		ready: "/v2/models/%s/ready",
		terms: terms{
			prompt: "text_input", temperature: "temperature", topP: "top_p", seed: "seed", stream: "stream", caps: []string{"max_tokens"},
			force: openAIForce,
		},
		read: readTriton, marker: true, endless: true,
		settings: settings{text: true, pointers: true},
		signs:    signs{says: `events with "text_output"`, all: []string{"text_output"}},
	}
}

func readTriton(w *walk, e *event, how reading) {
	var text raw
	known := false
	all := w.rest(func() {
		w.object(func(name []byte) {
			switch string(name) {
			case "error":
				e.error(w.value())
			case "model_name":
				e.model = w.text()
			case "text_output":
				known = true
				text = w.text()
			}
		})
	})
	e.unknown = !known
	e.part().text = text
	how.counts(all, e)
}
