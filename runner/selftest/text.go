package selftest

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteText prints the report for people: each target beside what was measured, and what the machine's own limit is.
func (r *Report) WriteText(w io.Writer) error {
	about := r.CPU
	if r.Governor != "" {
		about += ", governor " + r.Governor
	}
	if about != "" {
		about = " (" + strings.TrimPrefix(about, ", ") + ")"
	}
	fmt.Fprintf(w, "self-test on %d cores%s, which client and server share\n\n", r.Cores, about)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "offered\tfigure\tmeasured\ttarget\t")
	last := ""
	for _, c := range r.Checks {
		text := c.Text
		if text == last {
			text = ""
		}
		last = c.Text
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", text, c.Name, c.measured(), c.target(), c.verdict())
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, c := range r.Checks {
		if c.Reason != "" {
			fmt.Fprintf(w, "n/a: %s, %s: %s\n", c.Text, c.Name, c.Reason)
		}
	}
	r.writeRows(w)
	if x, ok := r.OtherCPU.Finite(); ok && x >= quietLimit {
		fmt.Fprintf(w, "\nNOT QUIET: other processes took %s cores in one of these rows; measure again when they are gone\n", number(x))
	}
	_, err := fmt.Fprintf(w, "\nsent %s, seen by the server %s, ok %s of %s measured\n", count(r.Sent), count(r.SeenByServer), count(r.OK), count(r.Measured))
	if err == nil && len(r.Failed) > 0 {
		_, err = fmt.Fprintf(w, "failed: %v; the first was %s\n", r.Failed, r.FirstFailure)
	}
	return err
}

// quietLimit is from how many cores in use by others on the figures are not those of a quiet machine.
const quietLimit = 0.1

// writeRows prints what each row gave, for those who ask why.
func (r *Report) writeRows(w io.Writer) {
	for _, row := range r.Rows {
		if row.Result == nil {
			continue // its targets have said why
		}
		x := row.Result
		var parts []string
		add := func(f Figure, format string) {
			if v, ok := f.Finite(); ok {
				parts = append(parts, fmt.Sprintf(format, number(v)))
			}
		}
		add(x.TTFTError.P50, "TTFT error p50 %s ms")
		add(x.GapError.P99, "gap error p99 %s ms")
		add(x.TruthGaps.P99, "the server's own gaps p99 %s ms")
		add(x.PacerLag.P99, "pacer lag p99 %s ms")
		add(x.EventsPerS, "%s events/s")
		add(x.EventsPerRead, "%s events a read")
		add(x.RequestsPerS, "%s requests/s")
		add(x.ClientCPU, "client %s cores")
		add(x.ServerCPU, "server %s cores")
		add(x.OtherCPU, "others %s")
		fmt.Fprintf(w, "%s: %s\n", row.Text, strings.Join(parts, ", "))
	}
	r.ServerAlone.write(w)
}

// write prints what was measured without our client.
func (a Alone) write(w io.Writer) {
	for _, line := range []struct {
		f    Figure
		text string
	}{
		{a.EventsPerS, "events/s written by the server alone, each with a write of its own"},
		{a.EventsReadPerS, "events/s when a reader that looks at nothing wakes for each"},
		{a.RequestsPerS, "small answers/s to a reader that looks at nothing"},
	} {
		if v, ok := line.f.Finite(); ok {
			fmt.Fprintf(w, "without our client: %s %s\n", number(v), line.text)
		}
	}
}

func (c Check) measured() string {
	x, ok := c.Value.Finite()
	if !ok {
		return "n/a"
	}
	return withUnit(x, c.Unit)
}

func (c Check) target() string {
	sign := "≤ "
	if c.AtLeast {
		sign = "≥ "
	}
	return sign + withUnit(c.Limit, c.Unit)
}

func (c Check) verdict() string {
	switch {
	case c.Met == nil:
		return "not measured"
	case *c.Met:
		return "met"
	case c.Asked:
		return "MISSED"
	default:
		return fmt.Sprintf("missed; asked of %d cores", c.Cores)
	}
}

func withUnit(x float64, unit string) string {
	switch unit {
	case "":
		return number(x)
	case "/s", "%":
		return number(x) + unit
	default:
		return number(x) + " " + unit
	}
}

// number writes three digits, what is less than 0.0005 as 0, and large numbers whole with their thousands apart.
func number(x float64) string {
	if x >= 999.5 {
		return count(int(x + 0.5))
	}
	if x > -0.0005 && x < 0.0005 {
		return "0"
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func count(n int) string {
	if n < 0 {
		return "not known"
	}
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
