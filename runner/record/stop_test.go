package record

import "testing"

func TestForceInWords(t *testing.T) {
	for want, report := range map[string]StopReport{
		"":                                       {},
		"the server needed force":                {Forced: 1, Leader: true},
		"1 child needed force":                   {Forced: 1},
		"2 children needed force":                {Forced: 2},
		"the server and 2 children needed force": {Forced: 3, Leader: true},
	} {
		if got := report.Force(); got != want {
			t.Errorf("%+v: %q, want %q", report, got, want)
		}
	}
}
