package export

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/tailgate-ci/tailgate/gate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// run is a stored run and the rounds of it that were measured whole.
type run struct {
	*record.Run
	folder *record.Folder
	rounds []*record.Round
	void   map[int]record.Void
}

func open(f *record.Folder) (*run, error) {
	r := &run{Run: f.Run(), folder: f, void: map[int]record.Void{}}
	for i := range r.Rounds {
		if rd := &r.Rounds[i]; rd.State == record.RoundComplete && rd.Phases.M0.Reached() {
			r.rounds = append(r.rounds, rd)
		}
	}
	if len(r.rounds) == 0 {
		return nil, errors.New("no round of this run was measured whole: there is nothing to export")
	}
	for _, v := range gate.Validity(r.Run) {
		r.void[v.Slot] = v
	}
	return r, nil
}

// request is one scheduled request with its timeline and its figures.
type request struct {
	record.Sample
	record.Figures
	// counted is true when it belongs to the figures of its round.
	counted bool
}

// requests reads the requests of a round in order of schedule.
func (r *run) requests(rd *record.Round) ([]request, error) {
	streams := map[int]record.Stream{}
	for st, err := range r.folder.Streams(rd.Slot) {
		if err != nil {
			return nil, err
		}
		streams[st.Seq] = st
	}
	var list []request
	for s, err := range r.folder.Samples(rd.Slot) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w; this run was stored without its samples", err)
		}
		if err != nil {
			return nil, err
		}
		list = append(list, request{s, record.FiguresOf(&s, streams[s.Seq]), rd.Phases.Counts(&s)})
	}
	slices.SortStableFunc(list, func(a, b request) int { return a.Seq - b.Seq })
	return list, nil
}

// measured reads the requests that belong to the figures of a round.
func (r *run) measured(rd *record.Round) ([]request, error) {
	list, err := r.requests(rd)
	return slices.DeleteFunc(list, func(q request) bool { return !q.counted }), err
}

// arm lists the rounds of an arm that count.
func (r *run) arm(arm record.Arm) []*record.Round {
	var list []*record.Round
	for _, rd := range r.rounds {
		if _, void := r.void[rd.Slot]; !void && rd.Arm == arm {
			list = append(list, rd)
		}
	}
	return list
}

// roundName names a round in a file name, as its folder is named.
func roundName(rd *record.Round) string { return fmt.Sprintf("%02d-%s", rd.Slot, rd.Arm) }

// seconds is the length of a round's measured interval.
func seconds(rd *record.Round) float64 { return float64(rd.Phases.M1-rd.Phases.M0) / 1e9 }
