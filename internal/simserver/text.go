package simserver

import (
	"math"
	"strconv"
	"strings"
)

// maxOutput is the longest answer in tokens.
const maxOutput = 1 << 20

// words are what answers are made of: one word, one token. None needs escaping in JSON. Their number is a power of two.
var words = [64]string{
	"amber", "anchor", "april", "basin", "beacon", "birch", "bridge", "canyon", "cedar", "circle", "cloud", "copper",
	"coral", "delta", "drift", "ember", "falcon", "field", "forest", "garden", "glacier", "granite", "harbor", "hazel",
	"hollow", "island", "ivory", "jasper", "juniper", "lagoon", "lantern", "linen", "maple", "marble", "meadow", "mirror",
	"north", "ocean", "olive", "orchid", "pebble", "pine", "prairie", "quartz", "quiet", "raven", "ridge", "river",
	"saffron", "shore", "silver", "slate", "spruce", "stone", "summit", "thunder", "timber", "topaz", "valley", "velvet",
	"violet", "willow", "winter", "zephyr",
}

// appendToken adds the text of token i of the answer to a prompt, with the blank that parts it from the one before.
func appendToken(dst []byte, seed, prompt uint64, i int) []byte {
	if i > 0 {
		dst = append(dst, ' ')
	}
	return append(dst, words[mix(seed^prompt, uint64(i))%uint64(len(words))]...)
}

// mix is SplitMix64's finaliser over two words: a fixed, well-spread function, so that answers never change with the Go
// release. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
func mix(a, b uint64) uint64 {
	z := a + (b+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// unit maps a mixed word to [0, 1).
func unit(x uint64) float64 { return math.Ldexp(float64(x>>11), -53) }

// draw takes a value of the span by a mixed word.
func (s Span) draw(x uint64) int {
	return s.Min + int(unit(x)*float64(s.Max-s.Min+1))
}

// prompt is a tokenised prompt: how long it is, and the hash chain of its full blocks. Equal chains mean equal tokens
// from the start, so the chain is the key of the prefix cache.
type prompt struct {
	tokens int
	hash   uint64
	blocks []uint64
	block  int // tokens per block
}

// newPrompt begins a prompt with the constant template.
func newPrompt(blockTokens, template int) *prompt {
	p := &prompt{hash: fnvOffset, block: blockTokens}
	for range template {
		p.add("\x00")
	}
	return p
}

// role separates messages: it changes the hash and costs no token (TemplateTokens is the knob for that).
func (p *prompt) role(name string) { p.mixIn(name + "\x01") }

// text adds one token per word.
func (p *prompt) text(s string) {
	for word := range strings.FieldsSeq(s) {
		p.add(word)
	}
}

// id adds a token given by number.
func (p *prompt) id(n int64) { p.add(strconv.FormatInt(n, 10)) }

func (p *prompt) add(word string) {
	p.mixIn(word)
	p.tokens++
	if p.tokens%p.block == 0 {
		p.blocks = append(p.blocks, p.hash)
	}
}

// FNV-1a, 64 bits. A collision would be a false cache hit; at the sizes of a test it does not happen.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (p *prompt) mixIn(s string) {
	h := p.hash
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	p.hash = (h ^ 0xff) * fnvPrime // the separator: "ab" "c" is not "a" "bc"
}
