package workload

import (
	"container/list"
	"slices"
)

// prompt is what a prefix cache sees of a request: its blocks and its length in tokens.
type prompt struct {
	conv   string
	ids    []BlockID
	tokens int
}

// hits says how much of some prompts a prefix cache could serve. All are fractions.
type hits struct {
	// block and token weigh by blocks and by tokens. request is the share of prompts with any hit, which one block common
	// to all makes worthless.
	block, token, request float64
}

// prefixHits replays prompts in order against a cache of n blocks that evicts the least recently used one; 0 is a cache
// without bound. A hit is the longest leading run of ids that are in the cache. Lookup comes first, then the prompt's
// blocks are touched last to first.
func prefixHits(prompts []prompt, scope Scope, blockSize, n int) hits {
	cache := newLRU(n)
	var blocks, blockHits, tokens, tokenHits, withHit int
	for _, p := range prompts {
		k := 0
		for k < len(p.ids) && cache.has(key(p, scope, k)) {
			k++
		}
		for i := range slices.Backward(p.ids) {
			cache.touch(key(p, scope, i))
		}
		blocks += len(p.ids)
		blockHits += k
		tokens += p.tokens
		tokenHits += min(k*blockSize, p.tokens)
		if k > 0 {
			withHit++
		}
	}
	if blocks == 0 || tokens == 0 {
		return hits{}
	}
	return hits{
		block: float64(blockHits) / float64(blocks), token: float64(tokenHits) / float64(tokens),
		request: float64(withHit) / float64(len(prompts)),
	}
}

// cacheKey is a block where it means the same text.
type cacheKey struct {
	conv string
	id   BlockID
}

func key(p prompt, scope Scope, i int) cacheKey {
	if scope == ScopeConversation {
		return cacheKey{p.conv, p.ids[i]}
	}
	return cacheKey{id: p.ids[i]}
}

// lru is a set that forgets; see container/list for its order.
type lru struct {
	size  int
	order *list.List
	at    map[cacheKey]*list.Element
}

func newLRU(size int) *lru {
	return &lru{size: size, order: list.New(), at: map[cacheKey]*list.Element{}}
}

func (c *lru) has(k cacheKey) bool {
	_, ok := c.at[k]
	return ok
}

func (c *lru) touch(k cacheKey) {
	if c.size == 0 {
		c.at[k] = nil // a cache without bound needs no order
		return
	}
	if e := c.at[k]; e != nil {
		c.order.MoveToFront(e)
		return
	}
	c.at[k] = c.order.PushFront(k)
	if c.order.Len() > c.size {
		oldest := c.order.Back()
		c.order.Remove(oldest)
		delete(c.at, oldest.Value.(cacheKey)) //nolint:forcetypeassert // touch alone fills the list
	}
}
