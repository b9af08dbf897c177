package simserver

import (
	"math/rand/v2"
	"testing"
)

func promptOf(block int, texts ...string) *prompt {
	p := newPrompt(block, 0)
	for _, s := range texts {
		p.text(s)
	}
	return p
}

func TestPrefixCache(t *testing.T) {
	const block = 4
	a, b, c := tokens(8, "a"), tokens(8, "b"), tokens(8, "c")
	tests := []struct {
		name     string
		capacity int
		insert   []string
		lookup   string
		want     int // cached tokens
	}{
		{"off", 0, []string{a}, a, 0},
		{"empty", 10, nil, a, 0},
		{"a longer prompt hits every block", 10, []string{a}, a + "x", 8},
		{"the same prompt computes its last block", 10, []string{a}, a, 4},
		{"another one misses", 10, []string{a}, b, 0},
		{"only a common start counts", 10, []string{a + b}, b + a, 0},
		{"a prefix that parts within a block", 10, []string{a}, "a0 a1 a2 a3 a4 a5 z z z", 4},
		{"white space is not part of the tokens", 10, []string{"a0  a1\na2\ta3"}, "a0 a1 a2 a3 b", 4},
		{"the least recently used chain leaves", 4, []string{a, b, a, c}, b + "x", 0},
		{"the one used since stays", 4, []string{a, b, a, c}, a + "x", 8},
		{"of a chain the tail leaves first", 3, []string{a, b}, a + "x", 4},
		{"of a prompt beyond the capacity the head is kept", 3, []string{a + b}, a + b + "x", 12},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cache := newPrefixCache(block, tt.capacity)
			for _, s := range tt.insert {
				cache.insert(promptOf(block, s))
			}
			if got := cache.lookup(promptOf(block, tt.lookup)); got != tt.want {
				t.Errorf("%d tokens cached, want %d", got, tt.want)
			}
			cache.reset()
			if got := cache.lookup(promptOf(block, tt.lookup)); got != 0 {
				t.Errorf("%d tokens cached after a reset", got)
			}
		})
	}
}

// A lookup counts as a use.
func TestLookupKeepsAlive(t *testing.T) {
	cache := newPrefixCache(1, 2)
	cache.insert(promptOf(1, "a"))
	cache.insert(promptOf(1, "b"))
	cache.lookup(promptOf(1, "a x"))
	cache.insert(promptOf(1, "c"))
	if got := cache.lookup(promptOf(1, "a x")); got != 1 {
		t.Error("the block just used was evicted")
	}
}

// Whatever comes, the cache stays within its capacity, its map and its list agree, and a hit is a true prefix.
func TestPrefixCacheInvariants(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	cache := newPrefixCache(2, 7)
	for range 3000 {
		n := 1 + r.IntN(20)
		p := promptOf(2, tokens(n, string(rune('a'+r.IntN(3)))))
		if got := cache.lookup(p); got%2 != 0 || got >= n || got > 14 {
			t.Fatalf("%d of %d tokens cached", got, n)
		}
		cache.insert(p)
		if cache.recent.Len() > 7 || cache.recent.Len() != len(cache.byHash) {
			t.Fatalf("%d in the list, %d in the map", cache.recent.Len(), len(cache.byHash))
		}
	}
}

func TestPromptIdentity(t *testing.T) {
	same := func(a, b *prompt) bool { return a.hash == b.hash }
	if same(promptOf(4, "ab c"), promptOf(4, "a bc")) {
		t.Error("word boundaries do not count")
	}
	one, two := newPrompt(4, 0), newPrompt(4, 0)
	one.role("user")
	two.role("system")
	one.text("a")
	two.text("a")
	if same(one, two) || one.tokens != 1 {
		t.Errorf("roles must tell prompts apart and cost nothing (%d tokens)", one.tokens)
	}
	ids := newPrompt(4, 0)
	ids.id(12)
	if ids.tokens != 1 || !same(ids, promptOf(4, "12")) {
		t.Error("a token number is one token")
	}
}
