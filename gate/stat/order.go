package stat

import "math/bits"

// maxPairs is the largest number of pairs that the levels below were computed for.
const maxPairs = 12

// Order says for each slot of a session of that many pairs whether head is measured in it. Slot i belongs to arm
// popcount(i) mod 2 XOR coin, the balanced Thue-Morse sequence ABBA BAAB …: pair k is slots 2k and 2k+1. Unlike strict
// ABAB it leaks no linear drift into the difference of the arms at an even number of pairs, and gives each arm the second
// place of a pair equally often. Only the lowest bit of coin counts.
func Order(pairs, coin int) []bool {
	head := make([]bool, 2*max(pairs, 0))
	for i := range head {
		head[i] = (bits.OnesCount(uint(i))+coin)&1 == 1
	}
	return head
}

// Looks lists the numbers of pairs at which a session is judged: first, then every even number up to
// last. An odd
// last look above the first is raised by one, so that both orders of a pair are used equally often. It is nil when the
// arguments are outside 3 <= first <= last <= 12.
func Looks(first, last int) []int {
	if first < 3 || last < first || last > maxPairs {
		return nil
	}
	looks := []int{first}
	for n := first; n < last; {
		n += 2 - n%2
		looks = append(looks, n)
	}
	return looks
}

// levels holds the one-sided error level of each look by the number of looks, for sessions that may be judged at three
// pairs and for those that start later. They hold the chance of passing a slowdown exactly at the tolerance to 5 % over
// all looks together.
var (
	levelsFromThree = [...]float64{0.050, 0.031, 0.023, 0.018, 0.0155, 0.014}
	levelsFromFour  = [...]float64{0.050, 0.030, 0.023, 0.0195, 0.017}
)

// Level is the one-sided error level a of each look, a fraction, for a session whose first look is at first pairs. More
// looks than the schedule can have get the strictest level known.
func Level(first, looks int) float64 {
	table := levelsFromFour[:]
	if first <= 3 {
		table = levelsFromThree[:]
	}
	return table[min(max(looks, 1), len(table))-1]
}

// Leak is the share of a linear drift over the session that shows as a difference head - base, as a fraction of the drift
// between the first and the last slot. 0 is balanced; it is 0 too when an arm has no slot or all slots are one.
func Leak(slots []int, head []bool) float64 {
	var sum, count [2]float64
	for i, slot := range slots {
		arm := index(head[i])
		sum[arm] += float64(slot)
		count[arm]++
	}
	span := spanOf(slots)
	if count[0] == 0 || count[1] == 0 || span == 0 {
		return 0
	}
	leak := (sum[1]/count[1] - sum[0]/count[0]) / span
	return max(leak, -leak)
}

func index(head bool) int {
	if head {
		return 1
	}
	return 0
}

// spanOf is the distance between the first and the last slot.
func spanOf(slots []int) float64 {
	if len(slots) == 0 {
		return 0
	}
	first, last := slots[0], slots[0]
	for _, s := range slots {
		first, last = min(first, s), max(last, s)
	}
	return float64(last - first)
}
