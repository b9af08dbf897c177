package runner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// The variables that say which GPUs a server sees, and how CUDA counts them.
const (
	cudaVisible, cudaOrder  = "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"
	rocrVisible, hipVisible = "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
	pciOrder                = "PCI_BUS_ID"
)

// The vendors whose variables are known.
const nvidia, amd = "nvidia", "amd"

// Devices says which GPUs the servers see and which of the machine's are watched. The zero value leaves the servers'
// environment as it is and watches all. It is not changed once made.
type Devices struct {
	// From is what named the devices: target.gpus or a variable; empty for nothing.
	From string
	// Visible are the UUIDs that both arms are given, in order, MIG slices as they were named; empty leaves their environment
	// alone.
	Visible []string
	// Watched are UUIDs of devices that the machine has, in order and each once; empty for all of them.
	Watched []string
	// Named is how many devices were named that cannot be told from others before a server runs: the Watched then hold them,
	// and shrink to those of which the first server takes memory. 0 where the Watched are the ones.
	Named int
	// Why says for people why Named is not 0; empty where it is.
	Why string
}

// ChooseDevices decides which of a machine's GPUs the servers see. gpus is what a sensor found; where that is nothing, nothing
// is watched, and what target.gpus names is passed on unseen. named is target.gpus; where it is empty the environment of the
// servers counts. The error is a sentence with the way out: a device was named that the machine does not have, or in a form
// by which none can be found.
func ChooseDevices(gpus []record.GPU, named, env []string) (Devices, error) {
	c := choice{from: "target.gpus", words: named, exact: true}
	if len(named) == 0 {
		c = chosenBy(env, vendorOf(gpus))
	}
	switch {
	case len(gpus) == 0:
		return Devices{Visible: slices.Clone(named)}, nil
	case len(c.words) == 0:
		return Devices{}, nil
	}
	return machine(gpus).find(c)
}

// SameDevices reports whether two environments say the same of the GPUs that a server sees.
func SameDevices(a, b []string) bool {
	return !slices.ContainsFunc([]string{cudaVisible, cudaOrder, rocrVisible, hipVisible}, func(name string) bool {
		x, inA := valueOf(a, name)
		y, inB := valueOf(b, name)
		return x != y || inA != inB
	})
}

// choice is what a user said of the GPUs to use.
type choice struct {
	// from is where; words are the names as they were written.
	from  string
	words []string
	// exact asks for whole UUIDs; ordered says that numbers count in PCI bus order; blind that they cannot be resolved at all.
	exact, ordered, blind bool
}

// chosenBy reads a server's environment: CUDA's variable, on AMD's devices ROCm's. Those that HIP reads there pick among the
// devices that ROCm shows, by numbers of their own.
func chosenBy(env []string, vendor string) choice {
	value := func(name string) string { v, _ := valueOf(env, name); return v }
	if vendor != amd {
		return choice{from: cudaVisible, words: wordsOf(value(cudaVisible)), ordered: value(cudaOrder) == pciOrder}
	}
	for _, name := range []string{hipVisible, cudaVisible} {
		if words := wordsOf(value(name)); len(words) > 0 {
			return choice{from: name, words: words, blind: true}
		}
	}
	return choice{from: rocrVisible, words: wordsOf(value(rocrVisible))}
}

// valueOf is the last value of a name, as in exec.
func valueOf(env []string, name string) (value string, set bool) {
	for _, entry := range slices.Backward(env) {
		if key, v, ok := strings.Cut(entry, "="); ok && key == name {
			return v, true
		}
	}
	return "", false
}

// wordsOf are the devices that a variable names; none where it hides all. As for CUDA -1 ends the list, and NoDevFiles is
// what schedulers write for none.
func wordsOf(text string) []string {
	var list []string
	for word := range strings.SplitSeq(text, ",") {
		switch word = strings.TrimSpace(word); word {
		case "-1", "NoDevFiles":
			return list
		case "":
		default:
			list = append(list, word)
		}
	}
	return list
}

// vendorOf is whose devices these are; empty where that is not known, or where they are of several.
func vendorOf(gpus []record.GPU) string {
	vendor := ""
	for i, g := range gpus {
		name := strings.ToLower(g.Vendor)
		own := ""
		switch {
		case strings.Contains(name, nvidia):
			own = nvidia
		case strings.Contains(name, amd), strings.Contains(name, "advanced micro"):
			own = amd
		}
		if i > 0 && own != vendor {
			return ""
		}
		vendor = own
	}
	return vendor
}

// machine is the devices that a sensor found.
type machine []record.GPU

// found is what one word stands for.
type found struct {
	// visible is how a server is told, the word itself for MIG slices; empty where it must be told in the user's own words.
	visible string
	// among holds the UUIDs of the devices it may be: one where that is known.
	among []string
	why   string
}

// find finds the devices of a choice that names some.
func (m machine) find(c choice) (Devices, error) {
	d := Devices{From: c.from}
	seen, untold, numbers := map[string]bool{}, false, 0
	for _, word := range c.words {
		f, err := m.device(word, c)
		if err != nil {
			return Devices{}, err
		}
		told := f.told(word)
		if seen[told] {
			return Devices{}, fmt.Errorf("%s names %.100q twice: leave one of them out", c.from, told)
		}
		seen[told] = true
		untold = untold || f.visible == ""
		if _, err := strconv.Atoi(word); err == nil {
			numbers++
		}
		d.Visible, d.Watched = append(d.Visible, f.visible), join(d.Watched, f.among)
		if f.why != "" {
			d.Named, d.Why = len(c.words), f.why
		}
	}
	if untold {
		d.Visible = nil
	}
	if numbers == len(m) {
		d.Named, d.Why = 0, "" // all of them are named: the order is for CUDA to know, the set is not in doubt
	}
	return d, nil
}

// told is a word as it is compared with others.
func (f found) told(word string) string {
	if n, err := strconv.Atoi(word); err == nil && f.visible == "" {
		return strconv.Itoa(n)
	}
	if f.visible == "" {
		return strings.Join(f.among, ",")
	}
	return f.visible
}

// join appends those that are not there yet.
func join(list, more []string) []string {
	for _, id := range more {
		if !slices.Contains(list, id) {
			list = append(list, id)
		}
	}
	return list
}

// device finds what a word stands for.
func (m machine) device(word string, c choice) (found, error) {
	n, err := strconv.Atoi(word)
	switch {
	case err == nil && !c.exact:
		return m.numbered(n, c)
	case strings.HasPrefix(word, "MIG-"):
		return m.slice(word, c)
	case strings.HasPrefix(word, "GPU-"):
		f, err := m.named(word, c)
		if c.blind {
			f.visible = "" // the variable that names it is not the one that a server is told by
		}
		return f, err
	default:
		return found{}, fmt.Errorf("%s names %.60q, which is neither a number nor the UUID of a GPU: name UUIDs under target.gpus; this machine has %s", c.from, word, m.has())
	}
}

// numbered finds a device by its number, which says which one only where it is known how they are counted.
func (m machine) numbered(n int, c choice) (found, error) {
	if n < 0 || n >= len(m) {
		return found{}, fmt.Errorf("%s names device %d, and this machine has %s: correct it, or name UUIDs under target.gpus", c.from, n, m.has())
	}
	switch order := m.onBus(); {
	case c.blind:
		return found{among: m.ids(), why: c.from + " counts among the devices that ROCm shows"}, nil
	case !c.ordered:
		return found{among: m.ids(), why: c.from + " holds numbers, and nothing says in which order they count"}, nil
	case order == nil:
		return found{among: m.ids(), why: c.from + " holds numbers, and the sensor does not give each device a place on the PCI bus"}, nil
	case slices.ContainsFunc(m, func(g record.GPU) bool { return g.MIG == "on" }):
		return found{among: m.ids(), why: c.from + " holds numbers, and CUDA counts otherwise where a device is split into MIG slices"}, nil
	default:
		return found{visible: order[n], among: order[n : n+1]}, nil
	}
}

// slice finds the device that a MIG slice is part of. Old drivers name it in the slice; else it is one in MIG mode, which a
// sensor's lines tell of a device, while they tell nothing of its slices.
func (m machine) slice(word string, c choice) (found, error) {
	if old, ok := strings.CutPrefix(word, "MIG-GPU-"); ok {
		parent, _, _ := strings.Cut(old, "/")
		f, err := m.named("GPU-"+parent, choice{from: c.from, exact: true})
		f.visible = word
		return f, err
	}
	f := found{visible: word}
	for _, mode := range []string{"on", ""} { // a device that does not tell may be in MIG mode; it counts where none is known to be
		for _, g := range m {
			if g.MIG == mode {
				f.among = append(f.among, g.UUID)
			}
		}
		if len(f.among) > 0 {
			break
		}
	}
	switch {
	case len(f.among) == 0:
		return found{}, fmt.Errorf("%s names the MIG slice %.60q, and no GPU of this machine is in MIG mode; it has %s: correct it", c.from, word, m.has())
	case len(f.among) > 1:
		f.why = "the sensor does not say which device a MIG slice is part of"
	}
	return f, nil
}

// named finds a device by its UUID. CUDA takes the beginning of one that fits a single device, target.gpus does not.
func (m machine) named(word string, c choice) (found, error) {
	var fits []string
	for _, g := range m {
		if g.UUID == word {
			fits = []string{word}
			break
		}
		if !c.exact && strings.HasPrefix(g.UUID, word) {
			fits = append(fits, g.UUID)
		}
	}
	switch len(fits) {
	case 0:
		return found{}, fmt.Errorf("%s names %.100q, which this machine does not have; it has %s: correct it, or run the job where that GPU is", c.from, word, m.has())
	case 1:
		return found{visible: fits[0], among: fits}, nil
	default:
		return found{}, fmt.Errorf("%s names %.60q, which may be %s: write the whole UUID", c.from, word, strings.Join(fits, " or "))
	}
}

func (m machine) ids() []string {
	list := make([]string, len(m))
	for i, g := range m {
		list[i] = g.UUID
	}
	return list
}

// has lists the devices for a message.
func (m machine) has() string {
	list := make([]string, len(m))
	for i, g := range m {
		list[i] = g.UUID
		if g.Name != "" {
			list[i] += " (" + g.Name + ")"
		}
	}
	return strings.Join(list, ", ")
}

// onBus are the UUIDs in PCI bus order; nil where the sensor does not give each device a place of its own.
func (m machine) onBus() []string {
	places := make(map[string]string, len(m))
	for _, g := range m {
		place, ok := busPlace(g.PCI)
		if _, taken := places[place]; taken || !ok {
			return nil
		}
		places[place] = g.UUID
	}
	var order []string
	for _, place := range slices.Sorted(maps.Keys(places)) {
		order = append(order, places[place])
	}
	return order
}

// busPlace makes addresses such as 0000:3b:00.0 comparable, of whatever width their domain is.
func busPlace(address string) (place string, ok bool) {
	fields := strings.FieldsFunc(address, func(r rune) bool { return r == ':' || r == '.' })
	for _, field := range fields {
		n, err := strconv.ParseUint(field, 16, 32)
		if err != nil {
			return "", false
		}
		place += fmt.Sprintf("%08x.", n)
	}
	return place, len(fields) == 4
}

// visible is an environment in which a server sees these GPUs alone, in the words of their vendor, of both where that is not
// known; env itself where none are named. What else would pick among them is left out.
func visible(env, gpus []string, vendor string) []string {
	if len(gpus) == 0 {
		return env
	}
	env = slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains([]string{cudaVisible, cudaOrder, rocrVisible, hipVisible}, name)
	})
	list := strings.Join(gpus, ",")
	if vendor != amd {
		env = append(env, cudaVisible+"="+list, cudaOrder+"="+pciOrder)
	}
	if vendor != nvidia {
		env = append(env, rocrVisible+"="+list)
	}
	return env
}
