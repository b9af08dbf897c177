package workload

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
)

// derive hashes parts, each with its length before it, so that no two lists of parts share a hash by gluing.
func derive(parts ...string) [sha256.Size]byte {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// position is a key's place in [0, 2^64), fixed by seed and purpose.
func position(parts ...string) uint64 {
	sum := derive(parts...)
	return binary.BigEndian.Uint64(sum[:8])
}

// random gives integers from PCG-DXSM. Only Uint64 of math/rand/v2 is used: its sequence is promised to stay, that of the
// convenience functions is not.
type random struct{ pcg *rand.PCG }

func newRandom(seed [sha256.Size]byte) random {
	return random{rand.NewPCG(binary.BigEndian.Uint64(seed[:8]), binary.BigEndian.Uint64(seed[8:16]))}
}

// below is an integer in [0, n), without bias (D. Lemire, Fast Random Integer Generation in an Interval, 2019). n > 0.
func (r random) below(n uint64) uint64 {
	hi, lo := bits.Mul64(r.pcg.Uint64(), n)
	if lo < n {
		for threshold := -n % n; lo < threshold; {
			hi, lo = bits.Mul64(r.pcg.Uint64(), n)
		}
	}
	return hi
}

// unit is a float in (0, 1], for draws at build time only.
func (r random) unit() float64 { return float64(r.pcg.Uint64()>>11+1) / (1 << 53) }

// exponential has mean 1; normal has mean 0 and standard deviation 1 (Box and Muller, 1958). Build time only.
func (r random) exponential() float64 { return -math.Log(r.unit()) }

func (r random) normal() float64 {
	return math.Sqrt(-2*math.Log(r.unit())) * math.Cos(2*math.Pi*r.unit())
}
