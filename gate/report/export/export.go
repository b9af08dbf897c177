package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Create makes a file of an export. The name is relative, of our own making, with slashes.
type Create func(name string) (io.WriteCloser, error)

// format is one way to write a run.
type format struct {
	name, about string
	write       func(*run, Create) error
}

// formats is the table of all formats, in the order that help lists them.
func formats() []format {
	return []format{
		{"vllm", "vLLM's detailed benchmark file, one JSON per arm", vllm},
		{"llmd", "llm-d Benchmark Report " + llmdVersion + ", one JSON per round", llmd},
		{"requests", "AIPerf's request records, JSON Lines per round", requests},
		{"csv", "one row per request, all rounds in one file", csvTable},
		{"parquet", "the same rows as Parquet", parquetTable},
		{"hgrm", "HdrHistogram percentile logs per round and latency", hgrm},
	}
}

// Names lists the formats.
func Names() []string {
	var names []string
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

// About is one line per format, for help.
func About() string {
	var b strings.Builder
	for _, f := range formats() {
		fmt.Fprintf(&b, "  %-9s %s\n", f.name, f.about)
	}
	return b.String()
}

// Parse takes a list of formats apart: names separated by commas. It fails on an unknown name, naming the known ones, and
// on an empty list.
func Parse(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("%.80q is no export; known are %s", name, strings.Join(Names(), ", "))
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// Write writes a run in the formats named, which must be known. It fails when the run has no round that was measured whole,
// or when the samples of such a round are gone. What was written before an error stays.
func Write(f *record.Folder, names []string, create Create) error {
	r, err := open(f)
	if err != nil {
		return err
	}
	for _, known := range formats() {
		if !slices.Contains(names, known.name) {
			continue
		}
		if err := known.write(r, create); err != nil {
			return fmt.Errorf("export %s: %w", known.name, err)
		}
	}
	return nil
}

// into writes one file and closes it, whatever fails.
func into(create Create, name string, write func(io.Writer) error) (err error) {
	w, err := create(name)
	if err != nil {
		return err
	}
	defer func() {
		if e := w.Close(); err == nil {
			err = e
		}
	}()
	return write(w)
}
