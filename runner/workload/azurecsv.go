package workload

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// azureImporter reads the Azure LLM inference traces of Azure/AzurePublicDataset: CSV with absolute times to 100 ns. They
// say nothing about shared prefixes, so every row becomes a conversation of its own with text of its own.
func azureImporter() Importer {
	return Importer{
		Name: "azure-csv", Version: 1, About: "Azure LLM traces: CSV with TIMESTAMP, ContextTokens, GeneratedTokens",
		blockSize: azureBlock, scope: ScopeConversation, reuse: false, read: readAzure,
	}
}

const (
	azureBlock = 512
	azureTime  = "2006-01-02 15:04:05.9999999"
)

func readAzure(r io.Reader, s *sink) error {
	c := csv.NewReader(io.LimitReader(r, maxTotal))
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return &Error{File: s.file, Line: 1, Text: "no header: " + err.Error()}
	}
	header[0] = string(bytes.TrimPrefix([]byte(header[0]), []byte("\ufeff")))
	var columns [3]int
	for i, name := range []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"} {
		if columns[i] = slices.Index(header, name); columns[i] < 0 {
			return at(s.file, 1, fmt.Errorf("the header has no column %s", name))
		}
	}
	for {
		fields, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var line int
		if p, ok := errors.AsType[*csv.ParseError](err); ok {
			line, err = p.Line, p.Err
		} else if err != nil {
			return err
		} else {
			line, _ = c.FieldPos(0)
		}
		var x row
		if err == nil {
			x, err = azureRow(fields[columns[0]], fields[columns[1]], fields[columns[2]])
		}
		if err != nil {
			if err := s.reject(line, err); err != nil {
				return err
			}
			continue
		}
		x.line = line
		s.add(x)
	}
	relative(s.rows)
	return nil
}

func azureRow(stamp, in, out string) (row, error) {
	t, err := time.Parse(azureTime, stamp)
	if err != nil || t.Year() < 1971 || t.Year() > 2200 {
		return row{}, fieldError("TIMESTAMP", "%q is not YYYY-MM-DD HH:MM:SS.fffffff", clip(stamp, 40))
	}
	r := row{at: time.Duration(t.UnixNano()), timed: true}
	if r.in, err = tokenCount(in); err != nil {
		return row{}, fieldError("ContextTokens", "%v", err)
	}
	if r.out, err = tokenCount(out); err != nil {
		return row{}, fieldError("GeneratedTokens", "%v", err)
	}
	for k := range (r.in + azureBlock - 1) / azureBlock {
		r.ids = append(r.ids, BlockID{Number: uint64(k)})
	}
	return r, nil
}

func tokenCount(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 24)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a token count of 1 or more", clip(s, 40))
	}
	return int(n), nil
}

// relative counts absolute times from the earliest one.
func relative(rows []row) {
	if len(rows) == 0 {
		return
	}
	first := rows[0].at
	for i := range rows {
		first = min(first, rows[i].at)
	}
	for i := range rows {
		rows[i].at -= first
	}
}
