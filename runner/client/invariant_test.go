package client

import (
	"testing"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// checkSample holds what is true of every sample, whatever the server did.
func checkSample(tb testing.TB, s record.Sample, st record.Stream) {
	tb.Helper()
	if s.Class == "" {
		tb.Error("no outcome class")
	}
	if (s.Class == record.OK) != (s.Detail == "") {
		tb.Errorf("class %s with detail %q", s.Class, s.Detail)
	}
	var before record.Instant
	for _, at := range []record.Instant{s.Pick, s.Conn, s.Wrote, s.Header, s.First, s.FirstOut, s.Last} {
		if at.Reached() {
			if at < before && at != s.FirstOut {
				tb.Errorf("instants fall: %+v", s)
			}
			before = max(before, at)
		}
	}
	if s.Class == record.OK && (!s.End.Reached() || s.End < s.Wrote || s.End < s.Last && len(s.Flags) == 0) {
		tb.Errorf("a success without a sound end: %+v", s)
	}
	if len(st.T) != s.PayloadEvents {
		tb.Errorf("%d payload events, %d in the stream", s.PayloadEvents, len(st.T))
	}
	if st.N != nil && len(st.N) != len(st.T) || st.R != nil && len(st.R) != len(st.T) {
		tb.Errorf("stream arrays of lengths %d %d %d", len(st.T), len(st.N), len(st.R))
	}
	var sum record.Instant
	for _, d := range st.T {
		if d < 0 {
			tb.Error("negative gap")
		}
		sum += record.Instant(d)
	}
	if len(st.T) > 0 && (st.T[0] != 0 || s.First+sum != s.Last) {
		tb.Errorf("the gaps of the stream do not lead from first to last")
	}
}
