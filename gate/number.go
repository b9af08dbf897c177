package gate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// count writes an integer with its thousands apart: 20,000.
func count(n int) string {
	s := strconv.Itoa(n)
	digits := strings.TrimPrefix(s, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return s[:len(s)-len(strings.TrimPrefix(s, "-"))] + digits
}

// plural writes a count with its noun: "1 round", "3 rounds".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// number keeps about three significant digits and never rounds whole ones away.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 1e15:
		return strconv.FormatFloat(x, 'g', 3, 64)
	case a >= 99.5:
		return count(int(math.Round(x)))
	case a >= 9.95:
		return strconv.FormatFloat(x, 'f', 1, 64)
	case a >= 0.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	default:
		return strconv.FormatFloat(x, 'g', 3, 64)
	}
}

// share writes a fraction in percent without a sign: "7.5 %".
func share(x float64) string {
	return strconv.FormatFloat(100*x, 'g', 3, 64) + " %"
}

// change writes a fraction in signed percent with one digit, and as many more (up to six) as it takes to fall on the right
// side of each limit it is read against.
func change(x float64, limits ...float64) string {
	for digits := 1; ; digits++ {
		s := fmt.Sprintf("%+.*f", digits, 100*x)
		shown, err := strconv.ParseFloat(s, 64)
		if digits == 6 || err != nil || sameSides(shown, 100*x, limits) {
			return s + " %"
		}
	}
}

func sameSides(shown, exact float64, limits []float64) bool {
	for _, l := range limits {
		if (shown > 100*l) != (exact > 100*l) || (shown < 100*l) != (exact < 100*l) {
			return false
		}
	}
	return true
}

// amount writes a value of a metric in its unit, or why there is none.
func amount(v record.Value, unit string) string {
	x, ok := v.Finite()
	switch {
	case v.IsFailed():
		return "failed"
	case !ok:
		return "n/a (" + v.Reason() + ")"
	case unit == "fraction":
		return share(x)
	default:
		return number(x) + " " + unit
	}
}
