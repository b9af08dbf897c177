package stat_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

// X3 of the verdict rules: balanced order, no true difference, and a machine that moved by 28 %.
func TestDriftWorked(t *testing.T) {
	head := stat.Order(4, 0)
	y := logs(100, 104, 108, 112, 116, 120, 124, 128)
	d, ok := stat.Drift(slotsOf(head), head, y)
	if !ok || !near(d, 0.246554, 5e-7) {
		t.Errorf("D = %.6f (%v), want 0.246554", d, ok)
	}
}

// The fit must agree with the normal equations solved by hand, on slots with holes.
func TestDriftAgainstNormalEquations(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		var slots []int
		var head []bool
		var y []float64
		slot := 0
		for pair := range 3 + rng.IntN(10) {
			for k := range 2 {
				slot += 1 + rng.IntN(3)
				slots, head = append(slots, slot), append(head, (pair+k)%2 == 0)
				y = append(y, rng.NormFloat64())
			}
		}
		got, ok := stat.Drift(slots, head, y)
		if want := solve(slots, head, y) * float64(slots[len(slots)-1]-slots[0]); !ok || !near(got, want, 1e-9) {
			t.Fatalf("drift %v, by normal equations %v", got, want)
		}
		for i := range y {
			if head[i] {
				y[i] += 0.7
			}
		}
		if moved, _ := stat.Drift(slots, head, y); !near(moved, got, 1e-9) {
			t.Fatalf("a slower head changed the drift from %v to %v", got, moved)
		}
	}
}

// solve fits y = mu + delta·[head] + beta·slot by Cramer's rule and returns beta.
func solve(slots []int, head []bool, y []float64) float64 {
	var a [3][3]float64
	var b [3]float64
	for i := range slots {
		row := [3]float64{1, 0, float64(slots[i])}
		if head[i] {
			row[1] = 1
		}
		for j := range row {
			b[j] += row[j] * y[i]
			for k := range row {
				a[j][k] += row[j] * row[k]
			}
		}
	}
	det := func(m [3][3]float64) float64 {
		return m[0][0]*(m[1][1]*m[2][2]-m[1][2]*m[2][1]) - m[0][1]*(m[1][0]*m[2][2]-m[1][2]*m[2][0]) + m[0][2]*(m[1][0]*m[2][1]-m[1][1]*m[2][0])
	}
	top := a
	for i := range top {
		top[i][2] = b[i]
	}
	return det(top) / det(a)
}

func TestDriftCannotBeTold(t *testing.T) {
	tests := map[string]struct {
		slots []int
		head  []bool
		y     []float64
	}{
		"nothing":       {nil, nil, nil},
		"one base":      {[]int{0, 1, 2}, []bool{false, true, true}, []float64{1, 2, 3}},
		"infinite":      {[]int{0, 1, 2, 3}, []bool{false, true, true, false}, []float64{1, 2, math.Inf(1), 3}},
		"not a number":  {[]int{0, 1, 2, 3}, []bool{false, true, true, false}, []float64{1, 2, math.NaN(), 3}},
		"no slot moved": {[]int{5, 5, 5, 5}, []bool{false, true, true, false}, []float64{1, 2, 3, 4}},
	}
	for name, tt := range tests {
		if d, ok := stat.Drift(tt.slots, tt.head, tt.y); ok {
			t.Errorf("%s: drift %v", name, d)
		}
	}
}

// A penalty on the second round of a pair is found exactly, and does not move the mean of an even balanced session. In
// strict alternation it lands on head whole.
func TestSlotEffect(t *testing.T) {
	const penalty = 0.06
	for n := 2; n <= 12; n += 2 {
		head := stat.Order(n, 0)
		var d []float64
		var baseFirst []bool
		for k := range n {
			first := !head[2*k]
			baseFirst = append(baseFirst, first)
			if first {
				d = append(d, penalty)
			} else {
				d = append(d, -penalty)
			}
		}
		if w, ok := stat.SlotEffect(d, baseFirst); !ok || !near(w, penalty, 1e-12) {
			t.Errorf("%d pairs: slot effect %v, want %v", n, w, penalty)
		}
		if m := stat.EstimateOf(d).Mean; !near(m, 0, 1e-12) {
			t.Errorf("%d pairs: a slot penalty moved the mean by %v", n, m)
		}
	}
	if w, ok := stat.SlotEffect([]float64{1, 2}, []bool{true, true}); ok {
		t.Errorf("one order tells no slot effect, got %v", w)
	}
}
