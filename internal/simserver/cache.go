package simserver

import (
	"container/list"
	"slices"
)

// prefixCache remembers blocks of prompts by their hash chain, the least recently used leaving first. Not safe for
// concurrent use: the engine owns it.
type prefixCache struct {
	block    int // tokens per block
	capacity int // blocks; 0 means off
	byHash   map[uint64]*list.Element
	recent   *list.List // of uint64, most recently used first
}

func newPrefixCache(blockTokens, capacity int) *prefixCache {
	return &prefixCache{block: blockTokens, capacity: capacity, byHash: make(map[uint64]*list.Element), recent: list.New()}
}

// lookup counts the tokens at the prompt's start that are held, and marks them used. At least one token is always
// computed, as in real engines: the last one's result is the first token of the answer.
func (c *prefixCache) lookup(p *prompt) int {
	if c.capacity == 0 {
		return 0
	}
	usable := p.blocks[:min(len(p.blocks), max(p.tokens-1, 0)/c.block)]
	held := 0
	for held < len(usable) && c.byHash[usable[held]] != nil {
		held++
	}
	c.touch(usable[:held])
	return held * c.block
}

// insert takes up all full blocks of a computed prompt.
func (c *prefixCache) insert(p *prompt) {
	if c.capacity == 0 {
		return
	}
	// A block without those before it can never be hit, so of an over-long prompt the head is what is worth keeping.
	blocks := p.blocks[:min(len(p.blocks), c.capacity)]
	for _, h := range blocks {
		if c.byHash[h] == nil {
			c.byHash[h] = c.recent.PushFront(h)
		}
	}
	c.touch(blocks)
	for c.recent.Len() > c.capacity {
		h, _ := c.recent.Remove(c.recent.Back()).(uint64)
		delete(c.byHash, h)
	}
}

// touch marks blocks used, the chain's head last: its tail, useless without the head, is evicted before it.
func (c *prefixCache) touch(blocks []uint64) {
	for _, h := range slices.Backward(blocks) {
		c.recent.MoveToFront(c.byHash[h])
	}
}

// reset forgets everything.
func (c *prefixCache) reset() {
	clear(c.byHash)
	c.recent.Init()
}
