package workload

import "crypto/sha256"

// index is what a workload knows of itself beyond its turns. It is built once and only read afterwards.
type index struct {
	// resolved are the turns with the manifest's defaults filled in, in the order of Workload.Turns.
	resolved []Turn
	byID     map[string]int
	// conversations lists the turns of each by position.
	conversations map[string][]int
	// blocks holds ids of global scope, and openings the first messages of a prompt, with the group that uses them, or
	// shared.
	blocks   map[BlockID]int
	openings map[[sha256.Size]byte]int
}

const shared = -1

// newIndex needs turns that are checked: ids unique, references sound.
func newIndex(w *Workload) *index {
	x := &index{
		resolved: make([]Turn, len(w.Turns)), byID: make(map[string]int, len(w.Turns)),
		conversations: map[string][]int{}, blocks: map[BlockID]int{}, openings: map[[sha256.Size]byte]int{},
	}
	groups := map[string]int{}
	for i, t := range w.Turns {
		t = w.resolve(t)
		x.resolved[i] = t
		x.byID[t.ID] = i
		x.conversations[t.Conv] = append(x.conversations[t.Conv], i)
		g, ok := groups[t.Group]
		if !ok {
			g = len(groups)
			groups[t.Group] = g
		}
		if w.Manifest.HashScope == ScopeGlobal {
			for _, id := range t.HashIDs {
				own(x.blocks, id, g)
			}
		}
		if len(t.After) > 0 {
			continue
		}
		for _, sum := range openings(w.appendMessages(nil, &t)) {
			own(x.openings, sum, g)
		}
	}
	return x
}

// own notes that group g uses key.
func own[K comparable](m map[K]int, key K, g int) {
	if was, ok := m[key]; ok && was != g {
		g = shared
	}
	m[key] = g
}

// resolve fills in the manifest's defaults.
func (w *Workload) resolve(t Turn) Turn {
	if t.Group == "" {
		t.Group = t.Conv
	}
	if t.Out.Mode == "" {
		t.Out.Mode = w.Manifest.Output.Mode
	}
	if t.Out.Tokens == 0 {
		t.Out.Tokens = w.Manifest.Output.DefaultTokens
	}
	t.Params = t.Params.over(w.Manifest.Params)
	if len(t.Assertions) == 0 {
		t.Assertions = w.Manifest.Assertions
	}
	return t
}

// private reports whether one group alone uses the block.
func (x *index) private(scope Scope, id BlockID) bool {
	return scope == ScopeConversation || x.blocks[id] != shared
}

// firstPrivate is the first message with which no other group's prompt goes on; len(m) when all are shared.
func (x *index) firstPrivate(m []Message) int {
	for i, sum := range openings(m) {
		if g, ok := x.openings[sum]; !ok || g != shared {
			return i
		}
	}
	return len(m)
}

// openings hashes each leading run of messages.
func openings(m []Message) [][sha256.Size]byte {
	out := make([][sha256.Size]byte, len(m))
	var last string
	for i, x := range m {
		out[i] = derive(last, x.Role, x.Content)
		last = string(out[i][:])
	}
	return out
}
