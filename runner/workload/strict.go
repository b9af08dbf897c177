package workload

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The bounds of what a reader takes, so that a hostile file ends in an error and not in swap.
const (
	maxLine  = 16 << 20
	maxTotal = 2 << 30
)

// strict decodes one JSON value into v: unknown keys, keys that occur twice, keys in another case and anything after the
// value are errors. encoding/json alone would let the last three pass.
func strict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the text is not UTF-8")
	}
	if err := checkKeys(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// checkKeys walks one JSON value and refuses duplicate keys, keys that are not spelled as ours are, and trailing data.
// The maps of source.options and counts.excluded have free keys, which happen to be spelled the same way.
func checkKeys(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := walkKeys(d, 0); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the JSON value")
	}
	return nil
}

func walkKeys(d *json.Decoder, depth int) error {
	if depth > 64 {
		return errors.New("the JSON value is nested more than 64 deep")
	}
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for d.More() {
		if open == '{' {
			if err := walkKey(d, seen); err != nil {
				return err
			}
		}
		if err := walkKeys(d, depth+1); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

func walkKey(d *json.Decoder, seen map[string]bool) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	key, _ := t.(string)
	if seen[key] {
		return fmt.Errorf("the key %q occurs twice", clip(key, 40))
	}
	seen[key] = true
	if strings.ToLower(key) != key {
		return fmt.Errorf("unknown field %q: keys are lower case", clip(key, 40))
	}
	return nil
}

// lines calls each for every line of r, without its line end, counted from 1. Lines may end in CR LF, and the last one
// need not end at all.
func lines(r io.Reader, each func(line int, text []byte) error) error {
	s := bufio.NewScanner(io.LimitReader(r, maxTotal))
	s.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for s.Scan() {
		n++
		if err := each(n, s.Bytes()); err != nil {
			return err
		}
	}
	switch err := s.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return &Error{Line: n + 1, Text: fmt.Sprintf("the line is longer than %d MiB", maxLine>>20)}
	case err != nil:
		return fmt.Errorf("after line %d: %w", n, err)
	}
	return nil
}

// inflate reads gzip when the name says so.
func inflate(name string, r io.Reader) (io.Reader, error) {
	if !strings.HasSuffix(name, ".gz") {
		return r, nil
	}
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, &Error{File: name, Text: "not gzip: " + err.Error()}
	}
	return z, nil
}
