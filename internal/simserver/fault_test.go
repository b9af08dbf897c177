package simserver

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func hit(tr Trouble, upTo int) []int {
	var got []int
	for n := 1; n <= upTo; n++ {
		if tr.pick(9, n) != "" {
			got = append(got, n)
		}
	}
	return got
}

func TestEveryNth(t *testing.T) {
	tests := []struct {
		name string
		f    Fault
		want []int
	}{
		{"every fourth", Fault{Every: 4}, []int{4, 8, 12}},
		{"three of ten", Fault{Every: 10, Burst: 3}, []int{8, 9, 10}},
		{"all", Fault{Every: 1, After: 9}, []int{10, 11, 12}},
		{"counted after the spared ones", Fault{Every: 4, After: 3}, []int{7, 11}},
		{"never", Fault{Share: 0.5, After: 12}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.Kind = FaultHTTP500
			if diff := cmp.Diff(tt.want, hit(Trouble{Errors: []Fault{tt.f}}, 12)); diff != "" {
				t.Errorf("requests hit (-want +got):\n%s", diff)
			}
		})
	}
}

// A share is met within 4 standard deviations, always hits the same requests, and changes with the seed.
func TestShare(t *testing.T) {
	const n = 20000
	for _, share := range []float64{0.01, 0.3, 1} {
		tr := Trouble{Errors: []Fault{{Kind: FaultReset, Share: share}}}
		got := hit(tr, n)
		if sd := math.Sqrt(n * share * (1 - share)); math.Abs(float64(len(got))-n*share) > 4*sd {
			t.Errorf("share %v hit %d of %d", share, len(got), n)
		}
		if !cmp.Equal(got, hit(tr, n)) {
			t.Errorf("share %v is not repeatable", share)
		}
		other := 0
		for k := 1; k <= n; k++ {
			if tr.pick(10, k) != tr.pick(9, k) {
				other++
			}
		}
		if share < 1 && other == 0 {
			t.Errorf("share %v ignores the seed", share)
		}
	}
}

func TestFirstFaultDecides(t *testing.T) {
	tr := Trouble{Errors: []Fault{{Kind: FaultReset, Every: 6}, {Kind: FaultEmpty, Every: 3}}}
	if got := tr.pick(0, 6); got != FaultReset {
		t.Errorf("request 6 meets %q", got)
	}
	if got := tr.pick(0, 3); got != FaultEmpty {
		t.Errorf("request 3 meets %q", got)
	}
}

func TestHold(t *testing.T) {
	tr := Trouble{Delay: Delay{Every: 3, For: 5}}
	for n, want := range map[int]int64{1: 0, 2: 0, 3: 5, 4: 0, 6: 5} {
		if got := tr.hold(n); got != want {
			t.Errorf("request %d is held %d, want %d", n, got, want)
		}
	}
	if got := (Trouble{}).hold(3); got != 0 {
		t.Errorf("without a delay request 3 is held %d", got)
	}
}
