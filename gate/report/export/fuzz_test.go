package export_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tailgate-ci/tailgate/gate/report/export"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Whatever stands in samples.jsonl, an export is an error or well-formed: JSON that parses, a table of equal rows, no cell
// that a spreadsheet takes for a formula.
func FuzzExport(f *testing.F) {
	text, err := os.ReadFile(filepath.Join(golden, "rounds", "00-base", "samples.jsonl"))
	if err != nil {
		f.Fatal(err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f.Add(append(line, '\n'))
	f.Add(append(bytes.ReplaceAll(line, []byte(`"chat`), []byte(`"=cmd|' /C calc'!A0`)), '\n'))
	f.Add(append(bytes.ReplaceAll(line, []byte(`"class":"ok"`), []byte(`"class":"timeout","detail":"\t@x\r\n\"\u202e"`)), '\n'))
	f.Add(append(bytes.ReplaceAll(line, []byte(`"n_out":`), []byte(`"n_out":0,"x":`)), '\n'))
	f.Add([]byte("{}\n"))
	dir := filepath.Join(f.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(golden)); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		must(t, os.WriteFile(filepath.Join(dir, "rounds", "00-base", "samples.jsonl"), data, 0o600))
		folder, err := record.Open(dir)
		must(t, err)
		defer folder.Close()
		out := files{}
		if err := export.Write(folder, export.Names(), out.create); err != nil {
			return
		}
		for name, text := range out {
			switch {
			case strings.HasSuffix(name, ".json"):
				if !json.Valid(text.Bytes()) {
					t.Errorf("%s is no JSON", name)
				}
			case strings.HasSuffix(name, ".jsonl"):
				for line := range bytes.Lines(text.Bytes()) {
					if !json.Valid(line) {
						t.Errorf("%s: no JSON: %s", name, line)
					}
				}
			case strings.HasSuffix(name, ".csv"):
				rows, err := csv.NewReader(text).ReadAll()
				must(t, err)
				for _, row := range rows[1:] {
					for i, cell := range row {
						// A negative number is one: a run that somebody made up may have an end before its start.
						_, err := strconv.ParseFloat(cell, 64)
						if begin := strings.TrimLeft(cell, " "); begin != "" && strings.ContainsAny(begin[:1], "=+-@") && err != nil {
							t.Errorf("%s: %q begins like a formula", rows[0][i], cell)
						}
					}
				}
			}
		}
	})
}
