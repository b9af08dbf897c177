package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// errCut ends a file whose last line was never finished: the writer died, or still writes. What stands before it counts.
var errCut = errors.New("the last line is cut")

// errLong is a line over maxLine.
var errLong = fmt.Errorf("a line of more than %d MiB", maxLine>>20)

// lines reads JSON Lines into values of T and hands each to yield, until yield returns false. It returns errCut when the
// file ends in half a line, the first error with its line number otherwise.
func lines[T any](r io.Reader, check func(*T) error, yield func(T) bool) error {
	in := bufio.NewReaderSize(&capped{r, maxUnpacked}, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > maxLines {
			return fmt.Errorf("line %d: more lines than a round has", n)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := check(&v); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !yield(v) {
			return nil
		}
	}
}

// readLine gives the next line without its end; io.EOF after the last whole one, errCut when something follows it. A
// compressed file that was never closed ends in io.ErrUnexpectedEOF, which is the same thing.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case len(line) > maxLine:
			return nil, errLong
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF) && len(line) > 0:
			return nil, errCut
		default:
			return nil, err
		}
	}
}
