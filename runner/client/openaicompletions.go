package client

// openAICompletions is the older completions API of OpenAI: a prompt, as text or as token ids, and its continuation.
func openAICompletions() *dialect {
	return &dialect{
		name: "openai-completions", path: "/v1/completions", catalog: openAIList(),
		terms: terms{
			prompt: "prompt", temperature: "temperature", topP: "top_p", seed: "seed", choices: "n", stream: "stream", model: "model",
			caps: []string{"max_tokens"}, force: openAIForce,
		},
		complete: func(f fields, stream bool, o *Options) {
			openAIStream(f, stream, o)
			if o.PerEventTokens == perEventLogprobs {
				f["logprobs"] = 0
			}
		},
		read: readOpenAI, marker: true, finishes: true,
		settings: settings{perEvent: true},
		signs:    signs{says: `text completions ("text" in "choices")`, within: "choices", any: []string{"text"}},
	}
}
