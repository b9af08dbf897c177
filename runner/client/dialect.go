package client

import (
	"fmt"
	"strings"
)

// dialect is an API this package speaks. Both share their fields; see event.go.
type dialect struct {
	name string
	// path is where an inference is asked for, models where the server lists its models.
	path, models string
	// chat says that the prompt is a list of messages.
	chat bool
}

// dialects lists every API known, the default first.
func dialects() []dialect {
	return []dialect{
		{name: "openai-chat", path: "/v1/chat/completions", models: "/v1/models", chat: true},
		{name: "openai-completions", path: "/v1/completions", models: "/v1/models"},
	}
}

func findDialect(name string) (dialect, error) {
	all := dialects()
	if name == "" {
		return all[0], nil
	}
	names := make([]string, len(all))
	for i, d := range all {
		if d.name == name {
			return d, nil
		}
		names[i] = d.name
	}
	return dialect{}, fmt.Errorf("unknown dialect %q; known: %s", clean(name, 64), strings.Join(names, ", "))
}
