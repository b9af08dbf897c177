package actions

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/gate/report"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// Result is a judged run, read from its folder. Reports are rendered from it, never taken from a file.
type Result struct {
	// Dir is the run folder.
	Dir       string
	Run       *record.Run
	Judgement gate.Judgement
}

// ErrNotJudged says that a run folder holds no judgement: the run was cancelled.
var ErrNotJudged = errors.New("the run was not judged")

// judgementLimit is the largest judgement.json read, bytes.
const judgementLimit = 8 << 20

// OpenResult reads run.json and judgement.json of a run folder. A judgement of another run is refused. The error wraps
// [ErrNotJudged] when there is no judgement.
func OpenResult(dir string) (*Result, error) {
	folder, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close() //nolint:errcheck // read only
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // read only
	text, err := readLimited(root, "judgement.json", judgementLimit)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w (status %s)", dir, ErrNotJudged, folder.Run().Status)
	}
	if err != nil {
		return nil, err
	}
	r := &Result{Dir: dir, Run: folder.Run()}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&r.Judgement); err != nil {
		return nil, fmt.Errorf("judgement.json: %w", err)
	}
	return r, r.check(root)
}

// check holds the judgement to the run beside it.
func (r *Result) check(root *os.Root) error {
	switch r.Judgement.Verdict {
	case gate.Pass, gate.Fail, gate.Inconclusive, gate.Invalid:
	default:
		return fmt.Errorf("judgement.json: unknown verdict %q", oneLine(string(r.Judgement.Verdict), shownValue))
	}
	index, err := readLimited(root, "run.json", 64<<20)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(index)
	if r.Judgement.RunSHA256 != hex.EncodeToString(sum[:]) {
		return errors.New("judgement.json judges another run.json than the one beside it")
	}
	return nil
}

func readLimited(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is no regular file of at most %d bytes", name, limit)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	return io.ReadAll(io.LimitReader(f, limit))
}

// Summary is the report for the job summary: everything but the marker.
func (r *Result) Summary(job Job) (string, error) {
	return r.markdown(report.Options{RunURL: job.URL()})
}

func (r *Result) markdown(o report.Options) (string, error) {
	var b strings.Builder
	err := report.Markdown(&b, r.Run, r.Judgement, o)
	return b.String(), err
}

// comment is the report as a comment, with the history of an earlier one.
func (r *Result) comment(job Job, ours marker, earlier *marker, budget int) (string, error) {
	var before []past
	if earlier != nil {
		before = earlier.past
	}
	list := history(before, ours.result(r.Judgement.Verdict))
	text, err := r.markdown(report.Options{
		Key: ours.key, RunID: job.RunID, Attempt: ours.attempt, HeadSHA: ours.head,
		History: written(list), Attempts: repeated(list), RunURL: job.URL(),
	})
	return fit(text, budget, units), err
}
