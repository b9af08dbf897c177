//go:build linux && cgo

package main

import (
	"bufio"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// command is one line of stdin: an edge token, or a new interval when the token is empty.
type command struct {
	token    string
	interval time.Duration
}

// The longest interval that can be asked for.
const maxInterval = time.Hour

// parse reads one line of stdin. What it does not understand it leaves alone.
func parse(text string, tokens *regexp.Regexp) (command, bool) {
	verb, argument, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch verb {
	case "edge":
		return command{token: argument}, tokens.MatchString(argument)
	case "rate":
		ms, err := strconv.ParseInt(argument, 10, 64)
		interval := time.Duration(ms) * time.Millisecond
		return command{interval: interval}, err == nil && ms >= 0 && ms <= maxInterval.Milliseconds()
	default:
		return command{}, false
	}
}

// read passes commands on until stdin ends. While the driver hangs they pile up; what does not fit is dropped, for an edge
// that comes late is worth nothing.
func read(stdin io.Reader, commands chan<- command) {
	tokens := regexp.MustCompile(`^[a-z0-9.-]{1,40}$`)
	lines := bufio.NewScanner(stdin)
	for lines.Scan() {
		c, understood := parse(lines.Text(), tokens)
		if !understood {
			continue
		}
		select {
		case commands <- c:
		default:
		}
	}
}
