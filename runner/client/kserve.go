package client

import "fmt"

// kserveInfer is the inference call of the Open Inference Protocol (KServe v2, Triton): tensors in, tensors out, in one
// piece. There is no first token.
func kserveInfer() *dialect {
	return &dialect{
		name: "kserve-infer", path: "/v2/models/%s/infer", catalog: modelIndex(), ready: "/v2/models/%s/ready", layout: inOnePiece,
		terms: terms{id: "id", wrap: func(f fields, prompt string) {
			f["inputs"] = []fields{{"name": "text_input", "shape": []int{1}, "datatype": "BYTES", "data": []string{prompt}}}
		}},
		read: readKServe, endless: true,
		signs: signs{says: `tensors in "outputs"`, all: []string{"outputs"}},
	}
}

// readKServe reads the JSON of an answer, which is also its text: what assertions look into.
func readKServe(w *walk, e *event, _ reading) {
	tensors, known := 0, false
	all := w.rest(func() {
		w.object(func(name []byte) {
			switch string(name) {
			case "error":
				e.error(w.value())
			case "id":
				e.id = w.text()
			case "model_name":
				e.model = w.text()
			case "outputs":
				known = true
				w.array(func() {
					tensors++
					readTensor(w, e)
				})
			}
		})
	})
	e.unknown = !known
	if !known {
		return
	}
	if p := e.part(); tensors > 0 {
		p.verbatim = all
	}
}

// readTensor adds up what the tensors say of raw data behind the JSON.
func readTensor(w *walk, e *event) {
	w.object(func(name []byte) {
		if string(name) != "parameters" {
			return
		}
		w.object(func(name []byte) {
			if string(name) != "binary_data_size" {
				return
			}
			if n := w.count(); n.set && !n.bad {
				e.binary += int64(n.n)
			} else {
				e.binary = -1 << 62
			}
		})
	})
}

// checkBinary holds the raw data behind the JSON against what the tensors announce.
func checkBinary(announced, came int64) string {
	switch {
	case announced < 0:
		return "a tensor announces binary data of a size that is no number"
	case announced != came:
		return fmt.Sprintf("the tensors announce %d bytes of binary data, %d came", announced, came)
	default:
		return ""
	}
}
