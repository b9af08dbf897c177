package record

import (
	"cmp"
	"slices"
)

// blockCount is how many contiguous blocks a round's arrivals are cut into.
const blockCount = 10

// inBlocks numbers the tenth of the arrivals that each request belongs to, in order of schedule.
func inBlocks(reqs []request) {
	order := make([]int, len(reqs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(reqs[a].Sched, reqs[b].Sched), reqs[a].Seq-reqs[b].Seq)
	})
	for place, i := range order {
		reqs[i].block = uint8(place * blockCount / len(reqs))
	}
}

// blocks takes, for each latency that may be gated and each of its percentiles, the ten values without one block.
func blocks(d map[string]*distribution) map[string][]float64 {
	out := map[string][]float64{}
	for _, latency := range []string{"ttft", "ttfo", "e2e", "tpot", "itl", "icl"} {
		var qs []quantile
		for _, q := range quantiles() {
			if _, finite := d[latency].at(q).Finite(); finite {
				qs = append(qs, q)
			}
		}
		for i, values := range d[latency].leavingOut(qs) {
			if values != nil {
				out[latency+"_"+qs[i].name] = values
			}
		}
	}
	return out
}

// leavingOut gives, per quantile (rising), its value without each block; nil where one of them does not exist. It goes
// through the sorted points once.
func (d *distribution) leavingOut(qs []quantile) [][]float64 {
	var in [blockCount]int
	before := 0
	for _, p := range d.points {
		in[p.block] += p.weight - before
		before = p.weight
	}
	out := make([][]float64, len(qs))
	ranks := make([][blockCount]int, len(qs))
	for i, q := range qs {
		out[i] = make([]float64, blockCount)
		for b := range blockCount {
			n := d.total - in[b] + d.failed - d.failedIn[b]
			ranks[i][b] = rank(q.q, n)
			if ranks[i][b] > d.total-in[b] {
				out[i] = nil
				break
			}
		}
	}
	// next is the first quantile not found yet without a block, seen how much of the block has been passed.
	var next, seen [blockCount]int
	before = 0
	for _, p := range d.points {
		seen[p.block] += p.weight - before
		before = p.weight
		for b := range blockCount {
			for next[b] < len(qs) && p.weight-seen[b] >= ranks[next[b]][b] {
				if out[next[b]] != nil {
					out[next[b]][b] = p.value
				}
				next[b]++
			}
		}
	}
	return out
}
