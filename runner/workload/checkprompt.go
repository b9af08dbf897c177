package workload

import (
	"encoding/json"
	"fmt"
)

// checkPrompt demands exactly one kind of prompt, sound references, and one hash id per block.
func (w *Workload) checkPrompt(t *Turn) error {
	kinds := 0
	for _, set := range []bool{len(t.HashIDs) > 0, len(t.Messages) > 0, t.Prompt != nil, t.Body != nil} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return fieldError("hash_ids", "want exactly one of hash_ids, messages, prompt and body, got %d", kinds)
	}
	if err := w.checkTexts(t); err != nil {
		return err
	}
	if len(t.HashIDs) > 0 {
		return w.checkBlocks(t)
	}
	return nil
}

func (w *Workload) checkBlocks(t *Turn) error {
	if w.Manifest.BlockSize == 0 || w.Manifest.HashScope == "" {
		return fieldError("hash_ids", "the manifest has no block_size or no hash_scope")
	}
	return checkBlockCount(len(t.HashIDs), t.InTokens, w.Manifest.BlockSize)
}

// checkBlockCount holds the number of ids to the length they stand for: one block begun, one id.
func checkBlockCount(ids, tokens, size int) error {
	if want := (tokens + size - 1) / size; ids != want {
		return fieldError("hash_ids", "%d blocks of %d for %d tokens, want %d", ids, size, tokens, want)
	}
	return nil
}

// checkTexts follows every reference of a turn.
func (w *Workload) checkTexts(t *Turn) error {
	for i, m := range t.Messages {
		if m.Role == "" {
			return fieldError(fmt.Sprintf("messages[%d].role", i), "missing")
		}
		if err := w.checkText("messages", &m.Content); err != nil {
			return err
		}
	}
	if err := w.checkText("prompt", t.Prompt); err != nil {
		return err
	}
	if err := w.checkText("body", t.Body); err != nil {
		return err
	}
	if t.Body != nil && !json.Valid([]byte(w.text(*t.Body))) {
		return fieldError("body", "the text is not a JSON value")
	}
	if t.Reply == nil {
		return nil
	}
	if t.Reply.Tokens < 0 || (t.Reply.Text == nil) == (t.Reply.Tokens == 0) {
		return fieldError("reply", "want either a text or a token count of 1 or more")
	}
	return w.checkText("reply", t.Reply.Text)
}

func (w *Workload) checkText(field string, t *Text) error {
	if t == nil || t.Ref == "" {
		return nil
	}
	if _, ok := w.Texts[t.Ref]; !ok {
		return fieldError(field, "there is no text %q in %s", clip(t.Ref, 60), textsFile)
	}
	return nil
}
