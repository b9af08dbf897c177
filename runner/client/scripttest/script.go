package scripttest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Script is what a server does, and when.
type Script struct {
	Name                  string
	Dialect, Method, Path string
	// Request is a JSON object for the request's body, empty for none.
	Request string
	// Expect lists request headers that must be there, Headers those of the answer, as "Name: value".
	Expect, Headers []string
	// Client holds settings of the client by name.
	Client  map[string]string
	Status  int
	Framing string
	// HeadersAt is when the head is flushed; nil: with the first write.
	HeadersAt *time.Duration
	Steps     []Step
	// Expected is expected.json, nil for a script that was not loaded.
	Expected []byte
}

// MaxBody bounds what a script may write, in bytes.
const MaxBody = 64 << 20

// Step is one line of the timeline: a write, or the end.
type Step struct {
	At time.Duration
	// What is write, close, cut, reset or hold.
	What string
	Data []byte
	Hold time.Duration
}

// Load parses every script.txt in the folders of dir.
func Load(dir string) ([]Script, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*", "script.txt"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no scripts in %s", dir)
	}
	var all []Script
	for _, p := range paths {
		text, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		s, err := Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		s.Name = filepath.Base(filepath.Dir(p))
		if s.Expected, err = os.ReadFile(filepath.Join(filepath.Dir(p), "expected.json")); err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads the text of a script. The error names the line.
func Parse(text string) (Script, error) {
	s := Script{Framing: "chunked", Client: map[string]string{}}
	for n, line := range strings.Split(text, "\n") {
		var err error
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "+"):
			err = s.timeline(line[1:])
		case strings.HasPrefix(line, " ") && len(s.Steps) > 0:
			last := &s.Steps[len(s.Steps)-1]
			var more []byte
			more, err = terms(line)
			if last.Data = append(last.Data, more...); len(last.Data) > MaxBody {
				err = errors.New("too much for one write")
			}
		default:
			err = s.head(line)
		}
		if err != nil {
			return s, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	return s, nil
}

func (s *Script) head(line string) error {
	key, value, ok := strings.Cut(line, ": ")
	if !ok {
		return fmt.Errorf("want key: value, got %q", line)
	}
	switch key {
	case "stream", "case":
	case "method":
		s.Method = value
	case "dialect":
		s.Dialect = value
	case "path":
		s.Path = value
	case "request":
		s.Request = value
	case "expect":
		s.Expect = append(s.Expect, value)
	case "header":
		s.Headers = append(s.Headers, value)
	case "client":
		name, setting, _ := strings.Cut(value, "=")
		s.Client[name] = setting
	case "status":
		var err error
		s.Status, err = strconv.Atoi(value)
		return err
	case "framing":
		s.Framing = value
	case "headers-at":
		at, err := milliseconds(value)
		s.HeadersAt = &at
		return err
	default:
		return fmt.Errorf("unknown key %q", key)
	}
	return nil
}

func (s *Script) timeline(line string) error {
	ms, what, _ := strings.Cut(line, " ")
	at, err := milliseconds(ms)
	if err != nil {
		return err
	}
	st := Step{At: at}
	word, arg, _ := strings.Cut(strings.TrimSpace(what), " ")
	switch word {
	case "close", "cut", "reset":
		st.What = word
	case "hold":
		if st.Hold, err = milliseconds(arg); err != nil {
			return err
		}
		st.What = word
	default:
		st.What = "write"
		if st.Data, err = terms(what); err != nil {
			return err
		}
	}
	if n := len(s.Steps); n > 0 && st.At < s.Steps[n-1].At {
		return errors.New("time goes backwards")
	}
	s.Steps = append(s.Steps, st)
	return nil
}

// milliseconds reads a time of at most a day.
func milliseconds(text string) (time.Duration, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	if d := time.Duration(n) * time.Millisecond; n >= 0 && n <= int(24*time.Hour/time.Millisecond) {
		return d, nil
	}
	return 0, fmt.Errorf("%d ms is no time within a day", n)
}

// terms joins Go string literals, each with an optional count before it.
func terms(line string) ([]byte, error) {
	var out []byte
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		times := 1
		if count, rest, ok := strings.Cut(line, "*"); ok && !strings.ContainsAny(count, "\"`") {
			var err error
			if times, err = strconv.Atoi(count); err != nil {
				return nil, err
			}
			line = rest
		}
		literal, err := strconv.QuotedPrefix(line)
		if err != nil {
			return nil, fmt.Errorf("%w: %.40q", err, line)
		}
		text, err := strconv.Unquote(literal)
		if err != nil {
			return nil, err
		}
		if times < 0 || len(text) > 0 && times > MaxBody/len(text) || len(out)+times*len(text) > MaxBody {
			return nil, errors.New("too much for one write")
		}
		out = append(out, bytes.Repeat([]byte(text), times)...)
		line = line[len(literal):]
	}
	return out, nil
}

// Body is everything the script writes, for parsers that need no times.
func (s *Script) Body() []byte {
	var b []byte
	for _, st := range s.Steps {
		b = append(b, st.Data...)
	}
	return b
}
