package build

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// history is a random history: commit i has parents among those before it, and dates follow no order, as where clocks differ.
type history struct {
	parents [][]int
	dates   []int
	above   []map[int]bool // each commit with all its ancestors
}

func newHistory(r *rand.Rand, n int) history {
	h := history{parents: make([][]int, n), dates: make([]int, n)}
	for i := range n {
		h.dates[i] = r.IntN(n) // some are equal
		for range min(i, 1+r.IntN(2)) {
			if p := i - 1 - r.IntN(min(i, 4)); r.IntN(12) > 0 && !slices.Contains(h.parents[i], p) { // now and then a new root
				h.parents[i] = append(h.parents[i], p)
			}
		}
	}
	return h.walked()
}

// walked finds the ancestors of each commit.
func (h history) walked() history {
	h.above = make([]map[int]bool, len(h.parents))
	for i, parents := range h.parents {
		h.above[i] = map[int]bool{i: true}
		for _, p := range parents {
			maps.Copy(h.above[i], h.above[p])
		}
	}
	return h
}

// cutAt is the history as a clone shows it that was cut at some commits: they have no parents there.
func (h history) cutAt(boundary []int) history {
	h.parents = slices.Clone(h.parents)
	for _, c := range boundary {
		h.parents[c] = nil
	}
	return h.walked()
}

// mergeBase finds by comparing all commits what Resolve is to find, and how many commits base is ahead; -1 for none.
func (h history) mergeBase(base, head int, hashes []string) (best, ahead int) {
	best = -1
	var common []int
	for c := range h.parents {
		if h.above[base][c] && h.above[head][c] {
			common = append(common, c)
		}
	}
	for _, c := range common {
		covered := slices.ContainsFunc(common, func(other int) bool { return other != c && h.above[other][c] })
		if !covered && (best < 0 || h.dates[c] > h.dates[best] || (h.dates[c] == h.dates[best] && hashes[c] < hashes[best])) {
			best = c
		}
	}
	if best < 0 {
		return -1, 0
	}
	for c := range h.above[base] {
		if !h.above[best][c] {
			ahead++
		}
	}
	return best, ahead
}

// Over random histories, whole, cut with an origin to ask, and cut without one: the right pair or a refusal, never another pair.
func TestNeverAWrongPair(t *testing.T) {
	const commits = 14
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 14))
			h := newHistory(r, commits)
			base, head := commits-1-r.IntN(4), commits-1-r.IntN(4)
			f, hashes := imported(t, h.parents, h.dates, base, head)
			want, ahead := h.mergeBase(base, head, hashes)
			depth := fmt.Sprintf("--depth=%d", 1+r.IntN(4))
			cut := f.clone("--no-single-branch", depth, "--branch=head")
			cut.git("config", "--unset", "remote.origin.url")
			for _, at := range []struct {
				name, dir, prefix string
				sure              bool
			}{
				{"whole", f.dir, "", true},
				{"cut", f.clone("--no-single-branch", depth, "--branch=head").dir, "origin/", true},
				{"cut off", cut.dir, "origin/", false},
			} {
				got, _, err := Resolve(t.Context(), at.dir, ResolveOptions{Base: at.prefix + "base", Head: at.prefix + "head", AllowEqual: true})
				_, refused := errors.AsType[*UsageError](err)
				switch {
				case err != nil && !refused:
					t.Errorf("%s: %v", at.name, err)
				case refused && at.sure && want >= 0:
					t.Errorf("%s: %v; want commit %d", at.name, err, want)
				case !refused && want < 0:
					t.Errorf("%s: base %s, but the histories are unrelated", at.name, got.Base.Commit)
				case !refused && (got.Base.Commit != hashes[want] || got.Head.Commit != hashes[head] || got.Base.Ahead != ahead):
					t.Errorf("%s: base %s (commit %d), %d ahead; want commit %d, %d ahead\nparents %v, dates %v, base %d, head %d",
						at.name, got.Base.Commit, slices.Index(hashes, got.Base.Commit), got.Base.Ahead, want, ahead, h.parents, h.dates, base, head)
				}
			}
		})
	}
}

// A cut may lie anywhere, as where branches were fetched at different depths. Cuts are sought that make git find another merge
// base, or count otherwise: without an origin each of them is refused, or seen through.
func TestNoCutHidesTheRightBase(t *testing.T) {
	const commits, tries, most = 12, 300, 4
	misleading := 0
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 7))
		h := newHistory(r, commits)
		base, head := commits-2-r.IntN(3), commits-1
		f, hashes := imported(t, h.parents, h.dates, base, head)
		want, ahead := h.mergeBase(base, head, hashes)
		repo, err := open(f.dir)
		if err != nil {
			t.Fatal(err)
		}
		for try, misled := 0, 0; try < tries && misled < most; try++ {
			boundary := []int{r.IntN(commits), r.IntN(commits)}
			shown, count := h.cutAt(boundary).mergeBase(base, head, hashes)
			if shown < 0 || (shown == want && count == ahead) {
				continue
			}
			misled++
			misleading++
			f.write(".git/shallow", hashes[boundary[0]]+"\n"+hashes[boundary[1]]+"\n")
			s := &search{repository: repo, o: ResolveOptions{Base: hashes[base], Strategy: MergeBase}, left: fetchLimit}
			got, _, err := s.base(t.Context(), Revision{Commit: hashes[head]})
			if _, refused := errors.AsType[*UsageError](err); !refused {
				t.Errorf("seed %d, cut at %v: base %d, %d ahead, error %v; in truth %d, %d ahead\nparents %v, dates %v, base %d, head %d",
					seed, boundary, slices.Index(hashes, got.Commit), got.Ahead, err, want, ahead, h.parents, h.dates, base, head)
			}
		}
	}
	if misleading < 8 {
		t.Errorf("only %d cuts mislead: the test shows little", misleading)
	}
	t.Logf("%d cuts mislead git", misleading)
}
