package config

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// form describes how a kind of value is written, for errors, the schema and the manual.
type form struct {
	// name is "a duration"; write shows the way to write it; pattern is an ECMA regular expression.
	name, write, pattern string
}

var (
	durationForm = form{"a duration", "a number with a unit of ms, s, m or h, such as 250ms, 10s or 6m", `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`}
	percentForm  = form{"a percentage", "a number with a percent sign, such as 5% or 0.1%", `^[0-9]+(\.[0-9]+)?%$`}
	rateForm     = form{"a rate", "a number per second, such as 40/s", `^[0-9]+(\.[0-9]+)?/s$`}
)

// scalar is a leaf type that is written as one word with a unit.
type scalar interface {
	form() form
	// set takes the word; it reports whether the word is of its form.
	set(word string) bool
	String() string
}

// Duration is a length of time, never negative. It is written 250ms, 10s, 6m; a bare number is refused except 0.
type Duration time.Duration

func (d *Duration) form() form { return durationForm }

var durationWord = regexp.MustCompile(durationForm.pattern)

func (d *Duration) set(word string) bool {
	if !durationWord.MatchString(word) {
		return false
	}
	parsed, err := time.ParseDuration(word)
	*d = Duration(parsed)
	return err == nil
}

// String writes the duration as in the file: 6m, not 6m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Percent is a share kept as a fraction: 5% is 0.05. It is written with its sign; a bare number is refused.
type Percent float64

func (p *Percent) form() form { return percentForm }

var percentWord = regexp.MustCompile(percentForm.pattern)

func (p *Percent) set(word string) bool {
	if !percentWord.MatchString(word) {
		return false
	}
	// An exponent instead of a division: 0.7% must be the double nearest to 0.007.
	x, err := strconv.ParseFloat(strings.TrimSuffix(word, "%")+"e-2", 64)
	*p = Percent(x)
	return err == nil && !math.IsInf(x, 0)
}

// String writes the share as in the file: 0.075 is 7.5%.
func (p Percent) String() string {
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(float64(p), 'e', -1, 64), "e")
	shift, _ := strconv.Atoi(exponent)
	x, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(shift+2), 64)
	if err != nil {
		x = float64(p) * 100
	}
	return plain(x) + "%"
}

// Rate is a number per second, written 40/s.
type Rate float64

func (r *Rate) form() form { return rateForm }

var rateWord = regexp.MustCompile(rateForm.pattern)

func (r *Rate) set(word string) bool {
	if !rateWord.MatchString(word) {
		return false
	}
	x, err := strconv.ParseFloat(strings.TrimSuffix(word, "/s"), 64)
	*r = Rate(x)
	return err == nil && !math.IsInf(x, 0)
}

// String writes the rate as in the file.
func (r Rate) String() string { return plain(float64(r)) + "/s" }

func plain(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// quantity reads a limit in a metric's unit: a duration for ms, a percentage for fractions, a rate for throughput.
func quantity(unit, word string) (x float64, as form, ok bool) {
	switch unit {
	case unitMS:
		var d Duration
		ok = d.set(word)
		return float64(d) / float64(time.Millisecond), durationForm, ok
	case unitFraction:
		var p Percent
		ok = p.set(word)
		return float64(p), percentForm, ok
	default:
		var r Rate
		ok = r.set(word)
		return float64(r), rateForm, ok
	}
}

// written is the inverse of [quantity].
func written(unit string, x float64) string {
	switch unit {
	case unitMS:
		return Duration(math.Round(x * float64(time.Millisecond))).String()
	case unitFraction:
		return Percent(x).String()
	default:
		return Rate(x).String()
	}
}
