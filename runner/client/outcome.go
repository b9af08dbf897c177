package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// outcome is how a request ended. The detail is never empty for a failure.
type outcome struct {
	class  record.Outcome
	detail string
}

// ours reports whether an error says that this machine, not the server, ran out of something.
func ours(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// breach is an error while an answer was awaited or read.
type breach struct {
	err error
	// reused says that the connection had served before; silent that no byte of the answer had come.
	reused, silent bool
}

// outcome classifies a breach.
func (b breach) outcome() outcome {
	if limit, is := errors.AsType[*limitError](b.err); is {
		return outcome{record.Timeout, limit.limit}
	}
	if f, is := errors.AsType[*streamError](b.err); is {
		return f.outcome(b.reused)
	}
	detail := clean(b.err.Error(), maxDetail)
	if _, is := errors.AsType[*cancelError](b.err); is {
		return outcome{record.Cut, detail}
	}
	reset := errors.Is(b.err, syscall.ECONNRESET) || errors.Is(b.err, syscall.EPIPE)
	ended := errors.Is(b.err, io.EOF) || errors.Is(b.err, io.ErrUnexpectedEOF) || errors.Is(b.err, io.ErrClosedPipe)
	switch {
	case ours(b.err):
		return outcome{record.ClientLimit, detail}
	case b.reused && b.silent && (reset || ended):
		return outcome{record.ConnStale, "the server closed a kept-alive connection as it was used again: " + detail}
	case reset:
		return outcome{record.ConnReset, detail}
	case ended && b.silent:
		return outcome{record.UnexpectedEOF, "closed before the first byte of an answer"}
	case ended:
		return outcome{record.UnexpectedEOF, "the answer was cut"}
	default:
		return outcome{record.Malformed, detail}
	}
}

// statusOutcome classifies an answer by its status; ok is true when the body is the answer.
func statusOutcome(h *head, body []byte) (o outcome, ok bool) {
	code := h.status
	if code >= 200 && code < 300 {
		return outcome{}, true
	}
	if code >= 300 && code < 400 {
		return outcome{record.Redirect, fmt.Sprintf("%d to %s, not followed", code, clean(h.location, 200))}, false
	}
	message := fmt.Sprintf("%d", code)
	if len(body) > 0 {
		message += ": " + faultText(body)
	}
	switch {
	case code == http.StatusTooManyRequests:
		return outcome{record.HTTP429, message}, false
	case code == http.StatusServiceUnavailable:
		return outcome{record.HTTP503, message}, false
	case code >= 500:
		return outcome{record.HTTP5xx, message}, false
	case code >= 400:
		if code == http.StatusBadRequest && tooLong(message) {
			message = "prompt_too_long: " + message
		}
		return outcome{record.HTTP4xx, message}, false
	default:
		return outcome{record.Malformed, message}, false
	}
}

// tooLong recognises the ways in which servers say that a prompt does not fit. They share no code for it.
func tooLong(message string) bool {
	m := strings.ToLower(message)
	for _, phrase := range []string{
		"context length", "context size", "context window", "too long", "max_model_len", "maximum input length",
		"exceeds the available context", "max_position_embeddings",
	} {
		if strings.Contains(m, phrase) {
			return true
		}
	}
	return false
}

// outcome classifies an answer that was read without a breach, or whose end marker came before one.
func (a *answer) outcome(allowEmpty bool) outcome {
	switch {
	case a.faulty:
		return outcome{record.StreamError, a.fault}
	case a.broken != "":
		return outcome{record.Malformed, a.broken}
	case a.bad > 0 && a.bad == a.events:
		return outcome{record.Malformed, fmt.Sprintf("none of %d events is JSON of dialect %s", a.bad, a.want.speaks.name)}
	case !a.ended() && a.bytes > 0:
		return outcome{record.Truncated, "the body ended without finish reason and end marker"}
	case a.empty() && !allowEmpty:
		return outcome{record.EmptyOutput, "the answer holds no output"}
	default:
		return outcome{class: record.OK}
	}
}

// ended reports whether the answer said itself that it is over.
func (a *answer) ended() bool { return a.over.at.Reached() || a.finished.at.Reached() }

// flags lists what limits the use of an answer's numbers.
func (a *answer) flags(t tally) []string {
	var flags []string
	add := func(when bool, flag string) {
		if when {
			flags = append(flags, flag)
		}
	}
	streamed := a.mode == bodyEvents || a.mode == bodyLines
	add(streamed && a.want.speaks.marker && a.finished.at.Reached() && !a.over.at.Reached(), FlagNoDoneMarker)
	add(streamed && a.want.speaks.finishes && a.over.at.Reached() && !a.allFinished(), FlagNoFinishReason)
	add(t.inconsistent, FlagUsageInconsistent)
	add(a.hidden(), FlagReasoningOnly)
	add(a.notStreamed(), FlagNotStreamed)
	add(a.textCut, FlagTextCut)
	add(a.contextCut, FlagContextCut)
	return flags
}
