package workload

import (
	_ "embed"
	"encoding/binary"
	"strconv"
	"strings"
	"sync"
)

//go:embed words.txt
var wordList string

// dictionary is the list of 4,096 words that prompts are made of: 12 bits spell one. Half of it is everyday English, half the
// vocabulary of Newton's Opticks (1730, public domain), so that most words are one or two tokens of any tokenizer. The list is
// part of the format: another word at one place changes every prompt.
var dictionary = sync.OnceValue(func() []string { return strings.Fields(wordList) })

// A block's first words spell bits of its hash, so that blocks of different ids differ at their start.
const spelled = 4

// appendBlock adds the first n words of a block, each with a space before it unless dst is empty. A shorter n gives a
// prefix of a longer one, so that a partial last block is a prefix of the full one.
func appendBlock(dst []byte, hash [32]byte, n int) []byte {
	words := dictionary()
	head := binary.BigEndian.Uint64(hash[16:24])
	filler := newRandom(hash)
	var bits uint64
	for i := range n {
		switch {
		case i < spelled:
			bits = head >> (12 * i)
		case (i-spelled)%5 == 0:
			bits = filler.pcg.Uint64()
		default:
			bits >>= 12
		}
		if len(dst) > 0 {
			dst = append(dst, ' ')
		}
		dst = append(dst, words[bits&4095]...)
	}
	return dst
}

// blockHash seeds the text of one block. Ids count with all their bits, and the number 7 is not the text "7".
func (w *Workload) blockHash(scope string, id BlockID, salt string) [32]byte {
	kind := "n"
	if id.Text != "" {
		kind = "s"
	}
	parts := []string{"tailgate-block/1", w.Manifest.Seed, scope, kind + id.String(), strconv.Itoa(w.Manifest.BlockSize)}
	if salt != "" {
		parts = append(parts, salt)
	}
	return derive(parts...)
}
