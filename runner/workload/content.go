package workload

import "encoding/json"

// Content is the content of a request. Exactly one field is set: Messages for conversations and for workloads made for a
// chat dialect, Prompt for the others, Body where the source's body is sent as it stands.
type Content struct {
	Messages []Message
	Prompt   string
	Body     json.RawMessage
}

// Message is one message of a chat prompt.
type Message struct {
	Role    string
	Content string
}
