package record

import (
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is the latencies of one second: two percentiles to plot, and all of them as an HDR histogram so that seconds
// can be joined. Its percentiles are of that second only and are never judged.
type Histogram struct {
	// N counts the values in HDR; failed requests have no latency and stand in [Window.Failed].
	N int `json:"n"`
	// P50 and P99 are nearest-rank percentiles of the values themselves, ms; n/a without a value.
	P50 Value `json:"p50_ms"`
	P99 Value `json:"p99_ms"`
	// HDR is a base64 HDR histogram (V2, compressed) of nanoseconds at three significant digits; empty without a value.
	HDR string `json:"hdr,omitempty"`
	// Dropped counts values over an hour, which HDR does not hold.
	Dropped int `json:"dropped,omitempty"`
}

// histogram turns values (ns, any order) into a Histogram. The values are sorted in place.
func histogram(values []point, encoder *hdrEncoder) Histogram {
	if len(values) == 0 {
		return Histogram{P50: NA("no value"), P99: NA("no value")}
	}
	sortPoints(values)
	var h Histogram
	h.HDR, h.N = encoder.encode(values)
	d := distribution{points: values}
	d.sum()
	h.Dropped = d.total - h.N
	h.P50, h.P99 = Of(d.nth(rank(0.50, d.total))/1e6), Of(d.nth(rank(0.99, d.total))/1e6)
	return h
}

// encodeHDR gives the text of a histogram, empty for an empty one. Encoding writes to memory; an error of it would be a
// fault of the library, and shows as a histogram without values.
func encodeHDR(h *hdrhistogram.Histogram) string {
	if h.TotalCount() == 0 {
		return ""
	}
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return ""
	}
	return string(text)
}

// Join adds histograms up. P50 and P99 of the result come from the joined histogram and are exact to 0.1 %. It fails on a
// text that is no HDR histogram and when a value would be lost.
func Join(parts []Histogram) (Histogram, error) {
	sum := newHDR()
	out := Histogram{P50: NA("no value"), P99: NA("no value")}
	for _, p := range parts {
		out.Dropped += p.Dropped
		if p.HDR == "" {
			continue
		}
		h, err := decodeHDR(p.HDR)
		if err != nil {
			return Histogram{}, err
		}
		if lost := sum.Merge(h); lost > 0 {
			return Histogram{}, fmt.Errorf("join histograms: %d value(s) lie outside the range of an hour", lost)
		}
	}
	out.N = int(sum.TotalCount())
	if out.N == 0 {
		return out, nil
	}
	out.P50, out.P99 = Of(float64(sum.ValueAtQuantile(50))/1e6), Of(float64(sum.ValueAtQuantile(99))/1e6)
	out.HDR = encodeHDR(sum)
	return out, nil
}

// positive drops what a histogram cannot hold: an instant that was reached before the one it counts from.
func positive(values []point) []point {
	return slices.DeleteFunc(values, func(p point) bool { return p.value < 0 })
}
