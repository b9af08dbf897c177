package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// What a reader takes. A run may come from a pull request: none of its sizes can be trusted.
const (
	maxIndexBytes = 32 << 20
	maxDepth      = 32
	maxElements   = 1 << 20
	maxLine       = 16 << 20
	maxLines      = 10_000_000
	// maxUnpacked bounds what a compressed file may become, so that a small one cannot keep a reader busy for ever.
	maxUnpacked = 4 << 30
	maxRounds   = 1000
	// maxCount bounds every count, so that sums and products of two stay within 63 bits.
	maxCount = 1 << 30
	// maxOffset is the longest time from the first event that a stream may tell of, and latestInstant the last instant of
	// a run: a day and a year, ns.
	maxOffset     = int64(24 * 3600 * 1e9)
	latestInstant = Instant(365 * 24 * 3600 * 1e9)
	// longestInterval bounds a measured interval: what is made per second of it stays small.
	longestInterval = Instant(maxOffset)
)

// errUnpacked ends a file that is larger, unpacked, than any we write.
var errUnpacked = fmt.Errorf("more than %d GiB of lines", maxUnpacked>>30)

// capped reads at most left bytes and then fails, where io.LimitReader would feign the end of the file.
type capped struct {
	r    io.Reader
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errUnpacked
	}
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// checkShape refuses JSON that is too deep, too long in a text or too large in elements, before anything is built from it.
func checkShape(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	// Numbers stay text here; the types they are read into bound them.
	dec.UseNumber()
	depth := 0
	for n := 0; ; n++ {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case json.Delim:
			if token == '{' || token == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if len(token) > maxText {
				return fmt.Errorf("a text of %d bytes, at most %d are read", len(token), maxText)
			}
		}
		if depth > maxDepth {
			return fmt.Errorf("nested more than %d deep", maxDepth)
		}
		if n >= maxElements {
			return fmt.Errorf("more than %d elements", maxElements)
		}
	}
}

// readIndex reads an index file (run.json, round.json): at most so many bytes, one value of a bearable shape.
func readIndex(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxIndexBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxIndexBytes {
		return nil, fmt.Errorf("larger than %d MiB", maxIndexBytes>>20)
	}
	return data, checkShape(data)
}
