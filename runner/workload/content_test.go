package workload

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// The first 16 outputs of PCG-DXSM for one seed: if they move, every prompt does.
func TestRandomIsPinned(t *testing.T) {
	r := newRandom(derive("golden"))
	want := []uint64{
		0x6132fa505dcf4834, 0xb7b9808401ff0fc9, 0x829a1ba7e4e4434, 0x6a81e49c8b72d3cc,
		0x94cf8aa2f523f487, 0xae9af11ac2f113d4, 0x78b4a96a40eab8c9, 0xff1fc206efc41b5e,
		0xf1ae53d54bbee33, 0x9daea2c0c11cd7b1, 0x8b8fea5c8d750ac4, 0x5a9be435532c40a3,
		0x61988fd5912cdba6, 0x3fe9590924366491, 0x2b05f906112653c9, 0x1f7768ce8a09de56,
	}
	for i, w := range want {
		if got := r.pcg.Uint64(); got != w {
			t.Errorf("output %d is %#x, want %#x", i, got, w)
		}
	}
}

func TestBelowIsFair(t *testing.T) {
	r := newRandom(derive("fair"))
	var counts [7]int
	for range 70_000 {
		counts[r.below(7)]++
	}
	for k, n := range counts {
		if n < 9_600 || n > 10_400 {
			t.Errorf("%d drawn %d times of 70,000", k, n)
		}
	}
	for range 1000 {
		if x := r.below(1<<63 + 1); x > 1<<63 {
			t.Fatalf("%d is not below 2^63+1", x)
		}
	}
}

func TestDictionary(t *testing.T) {
	words := dictionary()
	if len(words) != 4096 {
		t.Fatalf("%d words", len(words))
	}
	if !slices.IsSorted(words) || len(slices.Compact(slices.Clone(words))) != 4096 {
		t.Error("words are not sorted or not distinct")
	}
	for _, w := range words {
		if len(w) < 2 || len(w) > 11 || strings.Trim(w, "abcdefghijklmnopqrstuvwxyz") != "" {
			t.Errorf("%q is no short lower-case word", w)
		}
	}
}

func block(w *Workload, id BlockID, n int) []string {
	return strings.Fields(string(appendBlock(nil, w.blockHash("", id, ""), n)))
}

func TestBlocks(t *testing.T) {
	w := hundred(t)
	full := block(w, BlockID{Number: 7}, 32)
	if len(full) != 32 {
		t.Fatalf("%d words, want 32", len(full))
	}
	for n := range 33 {
		if !slices.Equal(block(w, BlockID{Number: 7}, n), full[:n]) {
			t.Errorf("a block of %d words is no prefix of the full one", n)
		}
	}
	// Ids count with all 64 bits, and differ within their first four words.
	seen := map[string]BlockID{}
	for _, id := range []BlockID{
		{Number: 7},
		{Number: 7 + 1<<32},
		{Number: 7 + 1<<63},
		{Text: "7"},
		{Text: "n7"},
		{Number: 8},
		{Text: strings.Repeat("x", 99)},
		{Text: strings.Repeat("x", 98) + "y"},
	} {
		start := strings.Join(block(w, id, 4), " ")
		if other, ok := seen[start]; ok {
			t.Errorf("blocks %s and %s start alike", id, other)
		}
		seen[start] = id
	}
}

func TestPromptsHaveTheirPlannedLength(t *testing.T) {
	w := hundred(t)
	for i := range w.index.resolved {
		turn := &w.index.resolved[i]
		if n := len(strings.Fields(said(t, w, Request{Turn: turn}))); n != turn.InTokens {
			t.Errorf("%s: %d words, want %d", turn.ID, n, turn.InTokens)
		}
	}
}

// Two prompts that share k ids share exactly k blocks.
func TestSharedBlocks(t *testing.T) {
	w := hundred(t)
	a := strings.Fields(said(t, w, Request{Turn: &w.index.resolved[w.index.byID["s030"]]}))
	b := strings.Fields(said(t, w, Request{Turn: &w.index.resolved[w.index.byID["s031"]]}))
	c := strings.Fields(said(t, w, Request{Turn: &w.index.resolved[w.index.byID["s020"]]}))
	if got := common(a, b); got != 32 {
		t.Errorf("one shared block: %d words in common, want 32", got)
	}
	if got := common(a, c); got != len(c) && got != 60 {
		t.Errorf("two shared blocks: %d words in common, want 60", got)
	}
}

func common(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// A salt changes what one group alone uses, the same way in every round, and leaves what groups share.
func TestSaltKeepsSharedBlocks(t *testing.T) {
	w := hundred(t)
	turn := &w.index.resolved[w.index.byID["s005"]]
	plain := strings.Fields(said(t, w, Request{Turn: turn}))
	salted := strings.Fields(said(t, w, Request{Turn: turn, Salt: "w1"}))
	other := strings.Fields(said(t, w, Request{Turn: turn, Salt: "w2"}))
	for _, x := range [][]string{salted, other} {
		if len(x) != len(plain) {
			t.Errorf("salt changed the length from %d to %d", len(plain), len(x))
		}
		if got := common(plain, x); got < 32 || got > 34 {
			t.Errorf("%d words in common with the unsalted prompt, want the 32 of the shared block", got)
		}
	}
	if got := common(salted, other); got > 34 {
		t.Errorf("two windows share %d words", got)
	}
	if again := said(t, w, Request{Turn: turn, Salt: "w1"}); again != strings.Join(salted, " ") {
		t.Error("one window, two texts")
	}
}

// Conversation scope: equal ids in two conversations are different text from the first words on.
func TestConversationScope(t *testing.T) {
	var turns []Turn
	for _, id := range []string{"a", "b"} {
		turns = append(turns, Turn{ID: id, Conv: id, N: 1, InTokens: 10, HashIDs: blocks(10, 16, 0), Out: Output{Tokens: 1}})
	}
	w, err := New(Manifest{Name: "scope", BlockSize: 16, HashScope: ScopeConversation}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := strings.Fields(said(t, w, Request{Turn: &w.index.resolved[0]}))
	b := strings.Fields(said(t, w, Request{Turn: &w.index.resolved[1]}))
	if slices.Equal(a[:4], b[:4]) {
		t.Errorf("two conversations start alike: %v", a[:4])
	}
}

// dialogue is W-04: three turns of real text with think times of 1 s and 0.5 s, and a second conversation with the same
// first message.
func dialogue(t *testing.T, m Manifest) *Workload {
	t.Helper()
	say := func(s string) []TurnMessage { return []TurnMessage{{Role: "user", Content: Text{Inline: s}}} }
	first := []TurnMessage{{Role: "system", Content: Text{Ref: "sys"}}, {Role: "user", Content: Text{Inline: "hello"}}}
	turns := []Turn{
		{ID: "1", Conv: "c", N: 1, Messages: first, Reply: &Reply{Text: &Text{Ref: "r1"}}},
		{ID: "2", Conv: "c", N: 2, After: []string{"1"}, Delay: time.Second, Messages: say("and?"), Reply: &Reply{Tokens: 6}},
		{ID: "3", Conv: "c", N: 3, After: []string{"2"}, Delay: 500 * time.Millisecond, Messages: say("thanks")},
		{ID: "4", Conv: "d", N: 1, Messages: []TurnMessage{first[0], {Role: "user", Content: Text{Inline: "good day"}}}},
	}
	m.Name, m.Output = "dialogue", OutputPolicy{Mode: Cap, DefaultTokens: 20}
	w, err := New(m, turns, map[string]string{"sys": "Be brief.", "r1": "Hello, \"you\"."})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func spoken(t *testing.T, w *Workload, id, salt string) []Message {
	t.Helper()
	c, err := w.Content(Request{Turn: &w.index.resolved[w.index.byID[id]], Salt: salt})
	if err != nil {
		t.Fatal(err)
	}
	return c.Messages
}

// W-04: prompt n+1 begins with the exact bytes of prompt n and its recorded reply.
func TestHistory(t *testing.T) {
	w := dialogue(t, Manifest{})
	for _, salt := range []string{"", "w3"} {
		one, two, three := spoken(t, w, "1", salt), spoken(t, w, "2", salt), spoken(t, w, "3", salt)
		if len(one) != 2 || len(two) != 4 || len(three) != 6 {
			t.Fatalf("salt %q: %d, %d, %d messages; want 2, 4, 6", salt, len(one), len(two), len(three))
		}
		if !slices.Equal(two[:2], one) || !slices.Equal(three[:4], two) {
			t.Errorf("salt %q: a later prompt does not begin with the one before", salt)
		}
		if two[2] != (Message{"assistant", `Hello, "you".`}) || len(strings.Fields(three[4].Content)) != 6 {
			t.Errorf("salt %q: replies %+v, %+v", salt, two[2], three[4])
		}
		if one[0] != (Message{"system", "Be brief."}) {
			t.Errorf("salt %q: the message both conversations share became %+v", salt, one[0])
		}
	}
	if a, b := spoken(t, w, "1", ""), spoken(t, w, "1", "w3"); a[1] == b[1] || !strings.HasSuffix(b[1].Content, " hello") {
		t.Errorf("salted %+v, plain %+v", b[1], a[1])
	}
}

func TestContentByDialect(t *testing.T) {
	turn := Turn{ID: "a", Conv: "a", N: 1, InTokens: 3, HashIDs: blocks(3, 16, 0), Out: Output{Tokens: 1}}
	for _, c := range []struct {
		dialect, system string
		messages        int
		start           string
	}{
		{"", "", 1, ""},
		{"openai-chat", "be brief", 2, ""},
		{"openai-completions", "be brief", 0, "be brief\n\n"},
	} {
		w, err := New(Manifest{Name: "d", Dialect: c.dialect, System: c.system, BlockSize: 16, HashScope: ScopeGlobal}, []Turn{turn}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := w.Content(Request{Turn: &w.index.resolved[0]})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) != c.messages || (c.messages == 0) != (got.Prompt != "") || !strings.HasPrefix(got.Prompt, c.start) {
			t.Errorf("%q: %+v", c.dialect, got)
		}
	}
}

func TestPromptsAndBodies(t *testing.T) {
	turns := []Turn{
		{ID: "1", Conv: "c", N: 1, Prompt: &Text{Inline: "a "}, Reply: &Reply{Text: &Text{Inline: "b "}}},
		{ID: "2", Conv: "c", N: 2, After: []string{"1"}, Prompt: &Text{Inline: "c"}},
		{ID: "3", Conv: "e", N: 1, Body: &Text{Inline: `{"x": 1.50}`}},
	}
	w, err := New(Manifest{Name: "p", Output: OutputPolicy{Mode: Cap, DefaultTokens: 4}}, turns, nil)
	if err != nil {
		t.Fatal(err)
	}
	two, err := w.Content(Request{Turn: &w.index.resolved[1]})
	if err != nil || two.Prompt != "a b c" {
		t.Errorf("prompt %q, %v; want the history's exact bytes", two.Prompt, err)
	}
	body, err := w.Content(Request{Turn: &w.index.resolved[2], Salt: "w1"})
	if err != nil || string(body.Body) != `{"x": 1.50}` {
		t.Errorf("body %s, %v; want it as it stands", body.Body, err)
	}
	if _, err := w.Content(Request{}); err == nil {
		t.Error("a request without a turn has content")
	}
}

func BenchmarkContent(b *testing.B) {
	w := hundred(b)
	r := Request{Turn: &w.index.resolved[39], Salt: "w1"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := w.Content(r); err != nil {
			b.Fatal(err)
		}
	}
}
