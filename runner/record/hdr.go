package record

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// hdrHighest is an hour, ns: no limit of ours lets a request live longer.
const hdrHighest = 3_600_000_000_000

// hdrDigits quantise to 0.1 %.
const hdrDigits = 3

// hdrHalf is half of the sub-buckets that three digits take, as a power of two.
const hdrHalf = 10

// maxHDR bounds the text of a histogram that is read.
const maxHDR = 1 << 20

func newHDR() *hdrhistogram.Histogram { return hdrhistogram.New(1, hdrHighest, hdrDigits) }

func decodeHDR(text string) (*hdrhistogram.Histogram, error) {
	if len(text) > maxHDR {
		return nil, errors.New("histogram: text too long")
	}
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	return h, nil
}

// hdrEncoder writes HDR histograms in the V2 compressed format, byte for byte as the library does. The library sets up
// 300 kB of counts and 1.2 MB of compressor for each; a round of 400 s has 1,600 of them, nearly empty. This one goes from
// sorted values straight to the text and keeps its compressor. It is not safe for concurrent use.
type hdrEncoder struct {
	plain  []byte
	packed bytes.Buffer
	zip    *zlib.Writer
}

func newHDREncoder() *hdrEncoder {
	e := &hdrEncoder{}
	// The level is a constant within range; nothing else can fail.
	e.zip, _ = zlib.NewWriterLevel(&e.packed, zlib.BestCompression)
	return e
}

// encode gives the text of a histogram of values (ns, rising, none negative) with their weights, and how many values it
// holds. Values over [hdrHighest]'s bucket are left out, as the library would refuse them; the text of none is empty.
func (e *hdrEncoder) encode(values []point) (text string, held int) {
	e.plain = append(e.plain[:0], make([]byte, hdrHeader)...)
	next, open, count := 0, -1, 0
	for _, v := range values {
		i, ok := hdrIndex(v.value)
		if !ok {
			continue
		}
		if i != open {
			next = e.bucket(next, open, count)
			open, count = i, 0
		}
		count += v.weight
		held += v.weight
	}
	if held == 0 {
		return "", 0
	}
	e.bucket(next, open, count)
	return e.seal(), held
}

// hdrHeader is the length of the plain header: cookie, payload length, offset, digits, lowest, highest, ratio.
const hdrHeader = 40

// The cookies of the plain and of the compressed form; 0x10 says that counts are words of eight bytes.
const (
	hdrPlain      = uint32(hdrhistogram.V2EncodingCookieBase) | 0x10
	hdrCompressed = uint32(hdrhistogram.V2CompressedEncodingCookieBase) | 0x10
)

// hdrIndex is the bucket of a value: linear up to 2,048 ns, then 1,024 buckets for each power of two. False beyond the last
// one.
func hdrIndex(ns float64) (int, bool) {
	v := uint64(max(0, ns))
	exponent := bits.Len64(v|(2<<hdrHalf-1)) - (hdrHalf + 1)
	i := (exponent+1)<<hdrHalf + int(v>>exponent) - 1<<hdrHalf
	return i, i < hdrBuckets
}

// hdrBuckets is how many buckets reach from 0 to the power of two beyond an hour: 31 exponents more than the first.
const hdrBuckets = (31 + 2) << hdrHalf

// bucket appends the count of bucket i after the zeros that lie between next and it, and returns the bucket after it.
func (e *hdrEncoder) bucket(next, i, count int) int {
	if count == 0 {
		return next
	}
	switch zeros := i - next; {
	case zeros == 1:
		e.plain = append(e.plain, 0)
	case zeros > 1:
		e.plain = binary.AppendVarint(e.plain, -int64(zeros))
	}
	e.plain = binary.AppendVarint(e.plain, int64(count))
	return i + 1
}

// seal fills in the header, compresses and turns the result into text. Writing to memory cannot fail.
func (e *hdrEncoder) seal() string {
	head := e.plain[:0]
	head = binary.BigEndian.AppendUint32(head, hdrPlain)
	head = binary.BigEndian.AppendUint32(head, uint32(len(e.plain)-hdrHeader))
	head = binary.BigEndian.AppendUint32(head, 0)
	head = binary.BigEndian.AppendUint32(head, hdrDigits)
	head = binary.BigEndian.AppendUint64(head, 1)
	head = binary.BigEndian.AppendUint64(head, hdrHighest)
	binary.BigEndian.AppendUint64(head, math.Float64bits(1))

	e.packed.Reset()
	e.packed.Write(make([]byte, 8))
	e.zip.Reset(&e.packed)
	_, _ = e.zip.Write(e.plain)
	_ = e.zip.Close()
	out := e.packed.Bytes()
	binary.BigEndian.PutUint32(out, hdrCompressed)
	binary.BigEndian.PutUint32(out[4:], uint32(len(out)-8))
	return base64.StdEncoding.EncodeToString(out)
}
