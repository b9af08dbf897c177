package target

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// slackBytes and slackShare bound what a device may hold above its level at the session's start and still count as free;
	// the larger of them applies. Drivers keep a context's rest for a while.
	slackBytes, slackShare = 256 << 20, 0.01
	// grownBytes is the least that a server which uses a device takes of its memory: an empty context takes more.
	grownBytes = 64 << 20
	// useLimit is how long a reading of after the server's readiness is waited for.
	useLimit = 10 * time.Second
)

// Memory is what one watched device says of its memory at one instant.
type Memory struct {
	UUID string
	// T is when Used was read. A reading of before the server's end proves nothing of it.
	T record.Instant
	// Used and Total are bytes; n/a with a reason when the device does not say.
	Used, Total record.Value
	// PIDs are the processes on the device, as it listed them at Listed; Listed is 0 when it gives no list.
	PIDs   []int
	Listed record.Instant
}

// Ground is what the machine was before a session: which processes there were, and what each watched device held. Nothing
// that was there is ever signalled, and a server is gone when the devices are back at that level. It is immutable and safe for
// concurrent use.
type Ground struct {
	census proc.Census
	read   func() []Memory
	level  map[string]float64
	// names are the shared memory there was.
	names map[string]bool
}

// Survey takes the ground. read gives the newest reading of every watched device and is called again whenever a server is
// started or stopped; nil, or no device, means that no GPU is watched. The error is the process table's.
func Survey(read func() []Memory) (*Ground, error) {
	census, err := proc.Table{}.Census()
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	g := &Ground{census: census, read: read, names: sharedNames()}
	g.level = levels(g.memory())
	return g, nil
}

// memory reads the devices; a nil ground watches none.
func (g *Ground) memory() []Memory {
	if g == nil || g.read == nil {
		return nil
	}
	return g.read()
}

// before is who was there; nobody for a nil ground.
func (g *Ground) before() proc.Census {
	if g == nil {
		return proc.Census{}
	}
	return g.census
}

// levels are the bytes in use by device, of those that say so.
func levels(devices []Memory) map[string]float64 {
	level := map[string]float64{}
	for _, m := range devices {
		if used, ok := m.Used.Finite(); ok {
			level[m.UUID] = used
		}
	}
	return level
}

// freedom is whether the devices are back at their level.
type freedom struct {
	free bool
	// stale is true while a reading of after the server's end is missing.
	stale bool
	// unproven says why nothing can be proven, empty when it can.
	unproven string
	// text names what is in the way.
	text string
}

// freed looks at the devices after a server whose processes were ours has ended at since; they must be back at floor.
func (g *Ground) freed(floor map[string]float64, since record.Instant, ours []int) freedom {
	var held, unproven []string
	stale := false
	for _, m := range g.memory() {
		used, usedKnown := m.Used.Finite()
		level, levelKnown := floor[m.UUID]
		known, fresh := usedKnown && levelKnown, m.Listed >= since && m.Listed > 0
		pid := slices.IndexFunc(m.PIDs, func(pid int) bool { return slices.Contains(ours, pid) })
		switch {
		case fresh && pid >= 0:
			held = append(held, fmt.Sprintf("%s still lists process %d of the server", m.UUID, m.PIDs[pid]))
		case known && m.T < since, !known && m.Listed > 0 && !fresh:
			stale = true
		case known && used > level+slack(m):
			held = append(held, fmt.Sprintf("%s, %s more than before the server", m.holds(), gib(used-level)))
		case !known && m.Listed == 0:
			unproven = append(unproven, m.UUID+" tells neither its memory nor its processes")
		}
	}
	return freedom{
		free: len(held) == 0 && !stale && len(unproven) == 0, stale: stale && len(held) == 0, unproven: strings.Join(unproven, "; "),
		text: strings.Join(held, "; "),
	}
}

// slack is what a device may hold above its level.
func slack(m Memory) float64 {
	total, _ := m.Total.Finite()
	return max(slackBytes, total*slackShare)
}

// holds says what a device has in use: "GPU-1 holds 40.0 GiB of 80.0 GiB".
func (m Memory) holds() string {
	used, ok := m.Used.Finite()
	if !ok {
		return m.UUID + " holds an unknown amount (" + m.Used.Reason() + ")"
	}
	text := m.UUID + " holds " + gib(used)
	if total, ok := m.Total.Finite(); ok {
		text += " of " + gib(total)
	}
	return text
}

// gib prints bytes.
func gib(b float64) string { return fmt.Sprintf("%.1f GiB", b/(1<<30)) }

// occupied names what the devices hold above their level, for a message about processes that do not end; empty when no device
// does.
func (g *Ground) occupied(pids []int) string {
	var texts []string
	for _, m := range g.memory() {
		used, ok := m.Used.Finite()
		level, known := g.level[m.UUID]
		listed := slices.ContainsFunc(m.PIDs, func(pid int) bool { return slices.Contains(pids, pid) })
		if listed || ok && known && used > level+slack(m) {
			texts = append(texts, m.holds())
		}
	}
	return strings.Join(texts, "; ")
}

// summary is the memory in use of all devices, for a line of progress; empty where none is watched.
func (g *Ground) summary() string {
	var texts []string
	for _, m := range g.memory() {
		texts = append(texts, m.holds())
	}
	return strings.Join(texts, ", ")
}

// use is whether a started server was seen on a device.
type use int

const (
	// useUnknown: no reading of after ready yet, or a device that does not tell.
	useUnknown use = iota
	onDevice
	offDevice
)

// usage tells whether any device holds more than before the start, or lists a process of ours. ready is when the server was
// ready.
func (g *Ground) usage(before map[string]float64, ready record.Instant, ours []int) use {
	devices := g.memory()
	answer := offDevice
	if len(devices) == 0 {
		return useUnknown
	}
	for _, m := range devices {
		now, ok := m.Used.Finite()
		was, known := before[m.UUID]
		listed := slices.ContainsFunc(m.PIDs, func(pid int) bool { return slices.Contains(ours, pid) })
		switch {
		case listed, ok && known && now >= was+grownBytes:
			return onDevice
		case !ok || !known || m.T < ready:
			answer = useUnknown
		}
	}
	return answer
}

// seen are the devices that a started server is on, in their order. Where a device lists a process of ours since ready, memory
// that grew on another beside a list without one is somebody else's. doubt names a device that has not told since ready.
func (g *Ground) seen(before map[string]float64, ready record.Instant, ours []int) (on []string, doubt string) {
	var listed, grown []string
	strange := map[string]bool{}
	for _, m := range g.memory() {
		now, ok := m.Used.Finite()
		was, known := before[m.UUID]
		switch {
		case slices.ContainsFunc(m.PIDs, func(pid int) bool { return slices.Contains(ours, pid) }):
			listed, grown = append(listed, m.UUID), append(grown, m.UUID)
		case !ok || !known || m.T < ready:
			doubt = m.UUID + " told nothing of its memory after the server was ready"
		case now >= was+grownBytes:
			grown, strange[m.UUID] = append(grown, m.UUID), m.Listed >= ready
		}
	}
	if len(listed) > 0 {
		grown = slices.DeleteFunc(grown, func(id string) bool { return strange[id] })
	}
	return grown, doubt
}
