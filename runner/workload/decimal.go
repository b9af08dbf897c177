package workload

import (
	"fmt"
	"math/big"
	"math/bits"
	"regexp"
	"strings"
	"time"
)

var decimalForm = regexp.MustCompile(`^(0|[1-9][0-9]{0,9})(\.[0-9]{1,6})?$`)

// parseDecimal reads a share or factor as people write it ("0.25", "72"), in millionths. Floats would not survive a round
// trip on every machine.
func parseDecimal(s string) (uint64, error) {
	if !decimalForm.MatchString(s) {
		return 0, fmt.Errorf("%q is not a decimal such as 0.25 (no sign, at most 6 places)", clip(s, 40))
	}
	whole, fraction, _ := strings.Cut(s, ".")
	var n uint64
	for _, c := range whole + fraction + strings.Repeat("0", 6-len(fraction)) {
		n = n*10 + uint64(c-'0')
	}
	return n, nil
}

// inShare reports whether position u of [0, 2^64) lies in the first share, given in millionths.
func inShare(u, millionths uint64) bool {
	if millionths >= 1_000_000 {
		return true
	}
	hi, _ := bits.Mul64(u, 1_000_000)
	return hi < millionths
}

// divide gives d / factor (in millionths, not 0), rounded down.
func divide(d time.Duration, millionths uint64) time.Duration {
	x := new(big.Int).Mul(big.NewInt(int64(d)), big.NewInt(1_000_000))
	return time.Duration(x.Quo(x, new(big.Int).SetUint64(millionths)).Int64())
}
