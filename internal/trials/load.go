package trials

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor times in /proc, which is 100 Hz on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// load is how much processor time the machine has spent, and how much of it these trials and their descendants, living and
// gone. The zero value knows nothing.
type load struct {
	at         time.Time
	busy, ours time.Duration
	known      bool
}

// readLoad reads /proc. Time in interrupts is left out: what loopback traffic costs there belongs to nobody.
func readLoad() load {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}
	}
	line, _, _ := strings.Cut(string(text), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(f) < 9 || f[0] != "cpu" {
		return load{}
	}
	ours, ok := descendants(os.Getpid())
	return load{at: time.Now(), busy: ticks(f[1]) + ticks(f[2]) + ticks(f[3]) + ticks(f[8]), ours: ours, known: ok}
}

// others is the share of all processor time since then that was neither idle nor ours; nil when unknown.
func (l load) others(now load) *float64 {
	all := now.at.Sub(l.at) * time.Duration(runtime.NumCPU())
	if !l.known || !now.known || all <= 0 {
		return nil
	}
	share := max(0, float64((now.busy-l.busy)-(now.ours-l.ours))/float64(all))
	return new(round3(min(share, 1)))
}

// descendants sums the processor time of a process and all it started, with that of children already waited for.
func descendants(root int) (time.Duration, bool) {
	type process struct {
		parent int
		spent  time.Duration
	}
	table := map[int]process{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // gone meanwhile
		}
		head, rest, ok := strings.Cut(string(text), "(")
		if !ok {
			continue
		}
		_, rest, ok = cutLast(rest, ")")
		f := strings.Fields(rest) // from field 3, the state
		if !ok || len(f) < 15 {
			continue
		}
		pid, _ := strconv.Atoi(strings.TrimSpace(head))
		parent, _ := strconv.Atoi(f[1])
		table[pid] = process{parent, ticks(f[11]) + ticks(f[12]) + ticks(f[13]) + ticks(f[14])}
	}
	if _, ok := table[root]; !ok {
		return 0, false
	}
	var sum time.Duration
	for pid, p := range table {
		for at := pid; at > 1; at = table[at].parent {
			if at == root {
				sum += p.spent
				break
			}
		}
	}
	return sum, true
}

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func ticks(s string) time.Duration {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Duration(n) * tick
}
