package stat_test

import (
	"math"
	"slices"
	"testing"

	"github.com/tailgate-ci/tailgate/gate/stat"
)

func letters(head []bool) string {
	s := ""
	for _, h := range head {
		if h {
			s += "B"
		} else {
			s += "A"
		}
	}
	return s
}

func slotsOf(head []bool) []int {
	slots := make([]int, len(head))
	for i := range slots {
		slots[i] = i
	}
	return slots
}

func TestOrder(t *testing.T) {
	tests := []struct {
		pairs, coin int
		want        string
	}{
		{0, 0, ""},
		{3, 0, "ABBABA"},
		{4, 0, "ABBABAAB"},
		{4, 1, "BAABABBA"},
		{4, 3, "BAABABBA"},
		{8, 0, "ABBABAABBAABABBA"},
	}
	for _, tt := range tests {
		if got := letters(stat.Order(tt.pairs, tt.coin)); got != tt.want {
			t.Errorf("Order(%d, %d) = %s, want %s", tt.pairs, tt.coin, got, tt.want)
		}
	}
}

// Every pair holds both arms, the coin only swaps them, and a shorter session is a prefix of a longer one.
func TestOrderIsBalanced(t *testing.T) {
	longest := stat.Order(12, 0)
	for n := 1; n <= 12; n++ {
		a, b := stat.Order(n, 0), stat.Order(n, 1)
		if !slices.Equal(a, longest[:2*n]) {
			t.Errorf("%d pairs are no prefix of 12", n)
		}
		headFirst := 0
		for k := range n {
			if a[2*k] == a[2*k+1] {
				t.Errorf("%d pairs: pair %d has one arm twice", n, k)
			}
			if a[2*k] {
				headFirst++
			}
		}
		if n%2 == 0 && 2*headFirst != n {
			t.Errorf("%d pairs: head leads %d of them", n, headFirst)
		}
		for i := range a {
			if a[i] == b[i] {
				t.Errorf("%d pairs: the coin does not swap slot %d", n, i)
			}
		}
	}
}

func TestLooks(t *testing.T) {
	tests := []struct {
		first, last int
		want        []int
	}{
		{4, 8, []int{4, 6, 8}},
		{4, 7, []int{4, 6, 8}},
		{4, 4, []int{4}},
		{5, 5, []int{5}},
		{5, 12, []int{5, 6, 8, 10, 12}},
		{3, 3, []int{3}},
		{3, 12, []int{3, 4, 6, 8, 10, 12}},
		{3, 4, []int{3, 4}},
		{4, 5, []int{4, 6}},
		{4, 12, []int{4, 6, 8, 10, 12}},
		{11, 12, []int{11, 12}},
		{12, 12, []int{12}},
		{2, 8, nil},
		{8, 4, nil},
		{4, 13, nil},
	}
	for _, tt := range tests {
		if got := stat.Looks(tt.first, tt.last); !slices.Equal(got, tt.want) {
			t.Errorf("Looks(%d, %d) = %v, want %v", tt.first, tt.last, got, tt.want)
		}
	}
}

func TestLevel(t *testing.T) {
	tests := []struct {
		first int
		want  []float64
	}{
		{3, []float64{0.050, 0.031, 0.023, 0.018, 0.0155, 0.014}},
		{4, []float64{0.050, 0.030, 0.023, 0.0195, 0.017}},
	}
	for _, tt := range tests {
		for i, want := range tt.want {
			if got := stat.Level(tt.first, i+1); got != want {
				t.Errorf("Level(%d, %d) = %v, want %v", tt.first, i+1, got, want)
			}
		}
	}
	if stat.Level(4, 0) != 0.05 || stat.Level(4, 99) != 0.017 {
		t.Error("a number of looks that no schedule has must clamp")
	}
}

// leakOf is the leak of a drift that grows with the given power of time, by its definition.
func leakOf(head []bool, power float64) float64 {
	var sum, n [2]float64
	for i, h := range head {
		arm := 0
		if h {
			arm = 1
		}
		sum[arm] += math.Pow(float64(i)/float64(len(head)-1), power)
		n[arm]++
	}
	return math.Abs(sum[1]/n[1] - sum[0]/n[0])
}

// The leaks that the order was chosen by, in percent of the drift.
func TestLeakOfTheOrder(t *testing.T) {
	tests := []struct {
		pairs             int
		linear, quadratic float64
	}{
		{3, 6.67, 17.3}, {4, 0, 0}, {5, 2.22, 4.20}, {6, 0, 0.55}, {7, 1.10, 2.45}, {8, 0, 0}, {10, 0, 0.11}, {12, 0, 0},
	}
	for _, tt := range tests {
		head := stat.Order(tt.pairs, 0)
		linear := 100 * stat.Leak(slotsOf(head), head)
		if math.Abs(linear-tt.linear) > 0.005 || math.Abs(linear-100*leakOf(head, 1)) > 1e-9 {
			t.Errorf("%d pairs: linear leak %.3f %%, want %.2f", tt.pairs, linear, tt.linear)
		}
		if got := 100 * leakOf(head, 2); math.Abs(got-tt.quadratic) > 0.05 {
			t.Errorf("%d pairs: quadratic leak %.3f %%, want %.2f", tt.pairs, got, tt.quadratic)
		}
	}
}

// Strict alternation, which we do not use, leaks at every length.
func TestLeakOfStrictAlternation(t *testing.T) {
	for n := 3; n <= 12; n++ {
		head := make([]bool, 2*n)
		for i := range head {
			head[i] = i%2 == 1
		}
		if got, want := stat.Leak(slotsOf(head), head), 1/float64(2*n-1); math.Abs(got-want) > 1e-12 {
			t.Errorf("ABAB with %d pairs leaks %v, want %v", n, got, want)
		}
	}
}

func TestLeakWithoutBothArms(t *testing.T) {
	if got := stat.Leak([]int{0, 1}, []bool{true, true}); got != 0 {
		t.Errorf("one arm leaks %v", got)
	}
	if got := stat.Leak(nil, nil); got != 0 {
		t.Errorf("no slot leaks %v", got)
	}
}
