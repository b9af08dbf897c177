package report

import (
	"math"
	"strconv"
	"strings"
)

// maxDigits is how many decimals rounding may use to keep a value on its side of a limit.
const maxDigits = 6

// fixed prints x with d decimals and thousands separators.
func fixed(x float64, d int) string {
	s := strconv.FormatFloat(math.Abs(x), 'f', d, 64)
	whole, decimals, _ := strings.Cut(s, ".")
	var b strings.Builder
	if x < 0 {
		b.WriteByte('-')
	}
	for i, digit := range whole {
		if i > 0 && (len(whole)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	if decimals != "" {
		b.WriteString("." + decimals)
	}
	return b.String()
}

// count prints a whole number.
func count(n int) string { return fixed(float64(n), 0) }

// signed prints a change with its sign and d decimals. The sign of a change that rounds to zero is kept: -0.0 is "a little
// better", +0.0 "a little worse, or none".
func signed(x float64, d int) string {
	if x < 0 {
		return fixed(x, d)
	}
	return "+" + fixed(x, d)
}

// decimals3 is how many decimals show three significant digits of x; whole units are never rounded away.
func decimals3(x float64) int {
	x = math.Abs(x)
	if x == 0 {
		return 0
	}
	return min(maxDigits, max(0, 2-int(math.Floor(math.Log10(x)))))
}

// trimmed is the fewest decimals, at most limit, that print x exactly to limit decimals: 7.5 needs one, 800 none.
func trimmed(x float64, limit int) int {
	s := strconv.FormatFloat(math.Abs(x), 'f', limit, 64)
	_, decimals, _ := strings.Cut(s, ".")
	return len(strings.TrimRight(decimals, "0"))
}

// rounded is x as it reads with d decimals.
func rounded(x float64, d int) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', d, 64), 64)
	if err != nil {
		return x
	}
	return y
}

func order(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// beside finds decimals for values and a limit that are printed together, so that no value reads as lying on the other
// side of the limit, or on it, unless it does. It starts from the decimals given and adds up to [maxDigits].
func beside(limit float64, limitDigits int, digits int, values ...float64) (limitD int, valueD []int) {
	limitD = limitDigits
	for {
		valueD = valueD[:0]
		clear := true
		for _, x := range values {
			d := digits
			for d < maxDigits && order(rounded(x, d), rounded(limit, limitD)) != order(x, limit) {
				d++
			}
			clear = clear && order(rounded(x, d), rounded(limit, limitD)) == order(x, limit)
			valueD = append(valueD, d)
		}
		if clear || limitD >= maxDigits {
			return limitD, valueD
		}
		limitD++
	}
}

// share prints a fraction as a percentage: one decimal, two below 1 %, more where it would read as 0.
func share(x float64) string {
	d := 1
	if x != 0 && math.Abs(x) < 0.01 {
		for d = 2; d < maxDigits && rounded(x*100, d) == 0; {
			d++
		}
	}
	return fixed(x*100, d) + " %"
}

// limitShare prints a configured fraction as it was written.
func limitShare(x float64) string { return fixed(x*100, trimmed(x*100, maxDigits)) + " %" }

// plusMinus prints a width around a value.
func plusMinus(x float64) string { return "±" + fixed(math.Abs(x)*100, 1) + " %" }
