package client

import (
	"fmt"
	"net/url"
	"strings"
)

// dialect is an API this package speaks: how a request is put and how an answer is read. A new one is a file with a function
// that returns it and a line in [dialects].
type dialect struct {
	name string
	// path is where an inference is asked for, plain where one in one piece is, when that is another place. %s stands for the
	// model's name.
	path, plain string
	// catalog says where the server lists its models; ready is where it says that a model is loaded, empty when it does not.
	catalog catalog
	ready   string
	layout  layout
	terms   terms
	// complete adds to a body what follows from streaming and from the client's settings.
	complete func(f fields, stream bool, o *Options)
	// read takes one event apart, or a whole answer.
	read func(w *walk, e *event, how reading)

	// marker says that a stream ends with the event [DONE], finishes that answers have a finish reason, endless that the clean
	// end of the body is the end of the answer.
	marker, finishes, endless bool
	// anyJSON says that an answer may be any JSON value, not an object only.
	anyJSON bool
	// verbatim says that bodies are the workload's and are sent as they are.
	verbatim bool
	// counts says what the count of tokens in an event means.
	counts counting
	// settings lists the options that only some dialects have.
	settings settings
	// signs are what an answer of this dialect shows; see looks.go.
	signs signs
}

// layout is how the events of a stream are set apart.
type layout int

const (
	inEvents layout = iota
	inLines
	inOnePiece
)

// counting says what an event's count of tokens means.
type counting int

const (
	countsNothing counting = iota
	// countsEach: the tokens of this event. countsRunning: the tokens of all events up to this one.
	countsEach
	countsRunning
)

// settings are the options that a dialect takes beside those all have.
type settings struct {
	capField, perEvent, text, pointers, request bool
}

// terms are the names under which a dialect takes what most can be asked; an empty one is not taken.
type terms struct {
	// messages takes a chat, prompt a text. A dialect with both takes a prompt where its path ends in promptAt.
	messages, prompt, promptAt string
	// wrap puts a prompt where no member of its own takes it.
	wrap func(f fields, prompt string)
	// within names the object that holds the sampling parameters and the cap; empty for the body itself.
	within                     string
	temperature, topP, seed    string
	choices, stream, model, id string
	// caps limit the output, the usual one first; force makes it exactly n tokens long, nil where that cannot be asked.
	caps  []string
	force func(f fields, n int)
}

// catalog is a list of models.
type catalog struct {
	path string
	// post says that the list is asked for by POST.
	post bool
	// names finds the names in a list.
	names func(list []byte) []string
}

// dialects lists every API known, the default first.
func dialects() []*dialect {
	return []*dialect{
		openAIChat(),
		openAICompletions(),
		ollama(),
		tgi(),
		kserveInfer(),
		tritonGenerate(),
		llamaCPP(),
		httpJSON(),
	}
}

// Dialects lists the names of the dialects, the default first.
func Dialects() []string {
	var names []string
	for _, d := range dialects() {
		names = append(names, d.name)
	}
	return names
}

func findDialect(name string) (*dialect, error) {
	all := dialects()
	if name == "" {
		return all[0], nil
	}
	for _, d := range all {
		if d.name == name {
			return d, nil
		}
	}
	return nil, fmt.Errorf("unknown dialect %q; known: %s", clean(name, 64), strings.Join(Dialects(), ", "))
}

// needsModel reports whether the dialect names the model in its path.
func (d *dialect) needsModel() bool { return strings.Contains(d.path, "%s") }

// at is the path for a model and a way of answering.
func (d *dialect) at(model string, stream bool) string {
	path := d.path
	if !stream && d.plain != "" {
		path = d.plain
	}
	return strings.ReplaceAll(path, "%s", escapePath(model))
}

// escapePath makes a model's name one segment of a path.
func escapePath(model string) string { return url.PathEscape(model) }
