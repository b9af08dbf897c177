package client

// openAIChat is the chat API of OpenAI as vLLM, SGLang, llama.cpp and many others serve it.
func openAIChat() *dialect {
	return &dialect{
		name: "openai-chat", path: "/v1/chat/completions", catalog: openAIList(),
		terms: terms{
			messages: "messages", temperature: "temperature", topP: "top_p", seed: "seed", choices: "n", stream: "stream", model: "model",
			caps: []string{"max_tokens", "max_completion_tokens"}, force: openAIForce,
		},
		complete: func(f fields, stream bool, o *Options) {
			openAIStream(f, stream, o)
			if o.PerEventTokens == perEventLogprobs {
				f["logprobs"] = true
			}
		},
		read: readOpenAI, marker: true, finishes: true,
		settings: settings{capField: true, perEvent: true},
		signs:    signs{says: `chat completion chunks ("delta" or "message" in "choices")`, within: "choices", any: []string{"delta", "message"}},
	}
}
