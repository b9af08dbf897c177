package proc

import (
	"cmp"
	"slices"
	"strings"
)

// minSecret is the shortest value, in bytes, that is masked. Shorter ones would blacken ordinary text.
const minSecret = 6

// Secret reports whether a variable's name says that its value must not be shown: it holds TOKEN, KEY, SECRET or
// PASSWORD, in any case.
func Secret(name string) bool {
	name = strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "KEY", "SECRET", "PASSWORD"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// Mask replaces secret values by "***". A nil Mask changes nothing. It is immutable and safe for concurrent use.
type Mask struct {
	replacer *strings.Replacer
	// none says that there is nothing to mask.
	none bool
}

// NewMask masks the values of the [Secret] names in env (entries NAME=value) that are 6 bytes or longer. Of a value with
// several lines each line of that length is masked too, since logs are read line by line.
func NewMask(env []string) *Mask {
	var values []string
	for _, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		if !Secret(name) {
			continue
		}
		for _, v := range append([]string{value}, strings.FieldsFunc(value, isBreak)...) {
			if v = strings.TrimSpace(v); len(v) >= minSecret {
				values = append(values, v)
			}
		}
	}
	// The longest first: where one secret holds another, all of it must go.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, v := range slices.Compact(values) {
		pairs = append(pairs, v, "***")
	}
	return &Mask{replacer: strings.NewReplacer(pairs...), none: len(pairs) == 0}
}

func isBreak(r rune) bool { return r == '\n' || r == '\r' }

// String returns s with every secret value replaced.
func (m *Mask) String(s string) string {
	if m == nil {
		return s
	}
	return m.replacer.Replace(s)
}
