package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// row is one client in one scenario.
type row struct {
	name, version string
	said, truth   figures
	cpuSeconds    float64
	rssMiB        float64
	// seen is what the server counted in all.
	seen int64
	// missing says why there are no figures.
	missing string
}

// table prints a scenario: errors against the truth and ratios to tailgate, which comes first.
func table(out io.Writer, s scenario, rows []row) {
	fmt.Fprintf(out, "\n%s: %s\n", s.name, s.text)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if s.plain {
		fmt.Fprintln(tw, "client\tversion\tanswers/s\tratio\tCPU µs/answer\tpeak MiB\tfailed")
	} else {
		fmt.Fprintln(tw, "client\tversion\tTTFT error mean\tp99\tratio\tgap error mean\tp99\trequests\tfailed\tCPU ms/request\tpeak MiB")
	}
	for _, r := range rows {
		if r.missing != "" {
			continue
		}
		if s.plain {
			fmt.Fprintf(tw, "%s\t%s\t%.0f\t%s\t%.1f\t%.0f\t%d\n", r.name, r.version, r.said.rate, ratio(r.said.rate, rows[0].said.rate, rows[0]),
				1e6*r.cpuSeconds/float64(max(r.said.requests, 1)), r.rssMiB, r.said.failed)
			continue
		}
		ttft, gap := r.said.ttft.minus(r.truth.ttft), r.said.gap.minus(r.truth.gap)
		ours := rows[0].said.ttft.minus(rows[0].truth.ttft)
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.2f\t%.0f\n", r.name, r.version, signed(ttft.mean), signed(ttft.p99),
			ratio(math.Abs(ttft.mean), math.Abs(ours.mean), rows[0]), signed(gap.mean), signed(gap.p99), r.said.requests, r.said.failed,
			1e3*r.cpuSeconds/float64(max(r.said.requests, 1)), r.rssMiB)
	}
	_ = tw.Flush()
	for _, r := range rows {
		if r.missing != "" {
			fmt.Fprintf(out, "%s: not measured: %s\n", r.name, strings.Join(strings.Fields(r.missing), " "))
		}
	}
}

func signed(x float64) string {
	if math.IsNaN(x) {
		return "n/a"
	}
	return fmt.Sprintf("%+.2f ms", x)
}

func ratio(x, ours float64, first row) string {
	if first.missing != "" || math.IsNaN(x) || math.IsNaN(ours) || ours == 0 {
		return "n/a"
	}
	return fmt.Sprintf("%.2f×", x/ours)
}
