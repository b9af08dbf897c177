package workload

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Importer reads one trace format. Add one with a file of its own and a line in [Importers].
type Importer struct {
	// Name is what `workload build --from` takes. Version is raised when the same file gives another workload.
	Name    string
	Version int
	// About is one line of help.
	About string

	// blockSize and scope say what the rows' hash ids mean.
	blockSize int
	scope     Scope
	// reuse is false when the format does not record which prompts share a prefix.
	reuse bool
	read  func(r io.Reader, s *sink) error
}

// Importers lists the formats that [Import] reads.
func Importers() []Importer { return []Importer{mooncakeImporter(), azureImporter()} }

// Input is one trace file. Its name decides by suffix whether it is gzip.
type Input struct {
	Name string
	Data io.Reader
}

// row is one request of a source, before anything was chosen or changed.
type row struct {
	// line is its place in the file, n its number among the rows, from 1 in order of time.
	line, n int
	at      time.Duration
	// timed is false for a later turn of a conversation that has a delay alone.
	timed bool
	in    int
	out   int
	ids   []BlockID
	// text and messages replace ids where the source has text.
	text     string
	messages []TurnMessage
	// conv is the source's conversation, empty for a single request; delay the pause after the previous turn.
	conv  string
	delay time.Duration
	group string
}

// sink collects rows and decides about bad ones.
type sink struct {
	file   string
	maxBad int
	rows   []row
	bad    int
}

func (s *sink) add(r row) { s.rows = append(s.rows, r) }

// reject counts a bad row, or ends the import once there are more than allowed.
func (s *sink) reject(line int, err error) error {
	s.bad++
	if s.bad > s.maxBad {
		return at(s.file, line, err)
	}
	return nil
}

// ImportFile is [Import] of one file by its path.
func ImportFile(kind, path string, o Options) (*Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer closeAll(f)
	return Import(kind, Input{Name: filepath.Base(path), Data: f}, o)
}

// Import makes a workload of a trace. Rows keep their order; a bad one stops the import with an [Error] that has its line,
// unless Options.MaxBad allows for it. Every row that is left out is counted with a reason. The error is a [*FidelityError]
// when the result differs too much from its source.
func Import(kind string, in Input, o Options) (*Workload, error) {
	i := slices.IndexFunc(Importers(), func(i Importer) bool { return i.Name == kind })
	if i < 0 {
		return nil, fmt.Errorf("there is no importer %q; there are %s", clip(kind, 40), importerNames())
	}
	importer := Importers()[i]
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &sink{file: in.Name, maxBad: o.MaxBad}
	file, err := readInput(in, func(r io.Reader) error { return importer.read(r, s) })
	if err != nil {
		return nil, err
	}
	if len(s.rows) == 0 {
		return nil, &Error{File: in.Name, Text: "there is no row"}
	}
	moved, err := s.sort(o.StrictOrder)
	if err != nil {
		return nil, err
	}
	b := newBuild(importer, o, s, file)
	b.moved = moved
	return b.workload()
}

func importerNames() string {
	var names []string
	for _, i := range Importers() {
		names = append(names, i.Name)
	}
	return strings.Join(names, ", ")
}

// readInput hands the file's content to read, inflated, and returns its digest as it was.
func readInput(in Input, read func(io.Reader) error) (SourceFile, error) {
	h := sha256.New()
	count := &counter{}
	raw := io.TeeReader(in.Data, io.MultiWriter(h, count))
	r, err := inflate(in.Name, raw)
	if err != nil {
		return SourceFile{}, err
	}
	if err := read(r); err != nil {
		return SourceFile{}, err
	}
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return SourceFile{}, err
	}
	return SourceFile{Name: in.Name, SHA256: hex.EncodeToString(h.Sum(nil)), Bytes: count.n}, nil
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// sort puts rows in order of time and counts those that had to move. A later turn without a stamp stays behind the row that
// it follows.
func (s *sink) sort(strict bool) (moved int, err error) {
	var latest time.Duration
	last := map[string]time.Duration{}
	for i := range s.rows {
		r := &s.rows[i]
		if !r.timed {
			r.at = last[r.conv]
			continue
		}
		if i > 0 && r.at < latest {
			moved++
			if strict {
				return 0, at(s.file, r.line, fmt.Errorf("the row is out of order of time"))
			}
		}
		latest = max(latest, r.at)
		last[r.conv] = r.at
	}
	slices.SortStableFunc(s.rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	for i := range s.rows {
		s.rows[i].n = i + 1
	}
	return moved, nil
}
