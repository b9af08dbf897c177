package record

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever the values: the text is the library's, byte for byte, and so is what it refuses.
func TestHDREncoderAgreesWithTheLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	encoder := newHDREncoder()
	for n := range 300 {
		library, dropped := newHDR(), 0
		values := make([]point, 1+r.IntN(200))
		for i := range values {
			v := math.Floor(math.Exp(r.Float64() * math.Log(3*hdrHighest)))
			switch r.IntN(20) {
			case 0:
				v = 0
			case 1:
				v = float64(2046 + r.IntN(4))
			case 2:
				v = float64(hdrHighest + r.IntN(3) - 1)
			}
			// Every third histogram is dense: all within one part of the range.
			if n%3 == 0 {
				v = 5e6 + float64(r.IntN(40))*4096
			}
			values[i] = point{value: v, weight: 1 + r.IntN(3)}
			if err := library.RecordValues(int64(v), int64(values[i].weight)); err != nil {
				dropped += values[i].weight
			}
		}
		checkEncoded(t, encoder, values, encodeHDR(library), dropped)
	}
	checkEncoded(t, encoder, []point{{value: 2 * hdrHighest, weight: 4}}, "", 4)
}

func checkEncoded(t *testing.T, encoder *hdrEncoder, values []point, want string, dropped int) {
	t.Helper()
	total := 0
	for _, v := range values {
		total += v.weight
	}
	sortPoints(values)
	text, held := encoder.encode(slices.Clone(values))
	if text != want || held != total-dropped {
		t.Fatalf("%d values held of %d, library %d\n got %s\nwant %s", held, total, total-dropped, text, want)
	}
}
