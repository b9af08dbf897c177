package report

import (
	"testing"
	"time"

	"github.com/tailgate-ci/tailgate/runner/record"
)

func TestHowRequestsWereOffered(t *testing.T) {
	for _, tt := range []struct {
		load record.Load
		want string
	}{
		{record.Load{Kind: record.OpenLoop}, inert("open", 20) + " loop"},
		{record.Load{Kind: record.OpenLoop, MaxInFlight: 8}, inert("open", 20) + " loop with at most 8 requests in flight; waiting for a place is in the latencies"},
		{record.Load{Kind: record.ClosedLoop, Concurrency: 32}, "closed loop of 32 slots: a slow service is asked less, so overload stays hidden"},
		{
			record.Load{Kind: record.ClosedLoop, Concurrency: 2, Think: 500 * time.Millisecond},
			"closed loop of 2 slots that rest 500 ms: a slow service is asked less, so overload stays hidden",
		},
	} {
		if got := offeredAs(tt.load); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.load, got, tt.want)
		}
	}
}
