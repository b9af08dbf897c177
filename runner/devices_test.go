package runner

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	uuidA = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"
	uuidB = "GPU-8932aaaa-0000-4106-c12f-20bd9faed9f6"
	uuidC = "GPU-0c0c0c0c-1111-4106-c12f-20bd9faed9f6"
)

// three is a machine whose sensor lists the devices otherwise than the bus has them: b, a, c there.
func three() []record.GPU {
	return []record.GPU{
		{UUID: uuidA, Name: "Big", Vendor: "NVIDIA", PCI: "00000000:3b:00.0", MIG: "off"},
		{UUID: uuidB, Vendor: "NVIDIA", PCI: "0000:05:00.0", MIG: "off"},
		{UUID: uuidC, Vendor: "NVIDIA", PCI: "00000001:01:00.0", MIG: "off"},
	}
}

// with is three with a change.
func with(change func(gpus []record.GPU)) []record.GPU {
	gpus := three()
	change(gpus)
	return gpus
}

func amds() []record.GPU {
	return with(func(gpus []record.GPU) {
		for i := range gpus {
			gpus[i].Vendor, gpus[i].MIG = "AMD", ""
		}
	})
}

func TestChooseDevices(t *testing.T) {
	const unordered = "CUDA_VISIBLE_DEVICES holds numbers, and nothing says in which order they count"
	all := []string{uuidA, uuidB, uuidC}
	ordered := func(value string) []string { return []string{cudaOrder + "=PCI_BUS_ID", cudaVisible + "=" + value} }
	slice := with(func(gpus []record.GPU) { gpus[1].MIG = "on" })
	slices2 := with(func(gpus []record.GPU) { gpus[1].MIG, gpus[2].MIG = "on", "on" })
	tests := []struct {
		name       string
		gpus       []record.GPU
		named, env []string
		want       Devices
	}{
		{"nothing said", three(), nil, []string{"A=1"}, Devices{}},
		{"hidden", three(), nil, []string{cudaVisible + "="}, Devices{}},
		{"hidden by -1", three(), nil, []string{cudaVisible + "=-1"}, Devices{}},
		{"hidden by a scheduler", three(), nil, []string{cudaVisible + "=NoDevFiles"}, Devices{}},
		{"named, in their order", three(), []string{uuidC, uuidA}, ordered("1"), Devices{From: "target.gpus", Visible: []string{uuidC, uuidA}, Watched: []string{uuidC, uuidA}}},
		{"named, nothing observed", nil, []string{uuidC}, nil, Devices{Visible: []string{uuidC}}},
		{"a variable, nothing observed", nil, nil, ordered("1"), Devices{}},
		{"UUIDs of the job", three(), nil, []string{cudaVisible + "= " + uuidC + "," + uuidA}, Devices{From: cudaVisible, Visible: []string{uuidC, uuidA}, Watched: []string{uuidC, uuidA}}},
		{"the beginning of a UUID", three(), nil, []string{cudaVisible + "=GPU-0c"}, Devices{From: cudaVisible, Visible: []string{uuidC}, Watched: []string{uuidC}}},
		{"the last value counts", three(), nil, []string{cudaVisible + "=" + uuidA, cudaVisible + "=" + uuidC}, Devices{From: cudaVisible, Visible: []string{uuidC}, Watched: []string{uuidC}}},
		{"numbers on the bus", three(), nil, ordered("2,0"), Devices{From: cudaVisible, Visible: []string{uuidC, uuidB}, Watched: []string{uuidC, uuidB}}},
		{"numbers until -1", three(), nil, ordered("1,-1,0"), Devices{From: cudaVisible, Visible: []string{uuidA}, Watched: []string{uuidA}}},
		{"numbers without an order", three(), nil, []string{cudaVisible + "=1"}, Devices{From: cudaVisible, Watched: all, Named: 1, Why: unordered}},
		{"numbers by speed", three(), nil, []string{cudaVisible + "=1,0", cudaOrder + "=FASTEST_FIRST"}, Devices{From: cudaVisible, Watched: all, Named: 2, Why: unordered}},
		{"a number beside a UUID", three(), nil, []string{cudaVisible + "=" + uuidC + ",0"}, Devices{From: cudaVisible, Watched: []string{uuidC, uuidA, uuidB}, Named: 2, Why: unordered}},
		{"all of them, in whatever order", three(), nil, []string{cudaVisible + "=2,0,1"}, Devices{From: cudaVisible, Watched: all}},
		{"the only one", three()[:1], nil, []string{cudaVisible + "=0"}, Devices{From: cudaVisible, Watched: []string{uuidA}}},
		{
			"no place on the bus", with(func(gpus []record.GPU) { gpus[2].PCI = "" }), nil, ordered("1"),
			Devices{From: cudaVisible, Watched: all, Named: 1, Why: "CUDA_VISIBLE_DEVICES holds numbers, and the sensor does not give each device a place on the PCI bus"},
		},
		{
			"one place for two", with(func(gpus []record.GPU) { gpus[2].PCI = gpus[0].PCI }), nil, ordered("1"),
			Devices{From: cudaVisible, Watched: all, Named: 1, Why: "CUDA_VISIBLE_DEVICES holds numbers, and the sensor does not give each device a place on the PCI bus"},
		},
		{
			"numbers beside slices", slice, nil, ordered("1"),
			Devices{From: cudaVisible, Watched: all, Named: 1, Why: "CUDA_VISIBLE_DEVICES holds numbers, and CUDA counts otherwise where a device is split into MIG slices"},
		},
		{"a slice, one parent", slice, []string{"MIG-1"}, nil, Devices{From: "target.gpus", Visible: []string{"MIG-1"}, Watched: []string{uuidB}}},
		{"two slices of one parent", slice, []string{"MIG-1", "MIG-2"}, nil, Devices{From: "target.gpus", Visible: []string{"MIG-1", "MIG-2"}, Watched: []string{uuidB}}},
		{
			"a slice, two parents", slices2, nil,
			[]string{cudaVisible + "=MIG-1"},
			Devices{From: cudaVisible, Visible: []string{"MIG-1"}, Watched: []string{uuidB, uuidC}, Named: 1, Why: "the sensor does not say which device a MIG slice is part of"},
		},
		{
			"a slice that names its parent", slices2,
			[]string{"MIG-" + uuidC + "/1/2"},
			nil,
			Devices{From: "target.gpus", Visible: []string{"MIG-" + uuidC + "/1/2"}, Watched: []string{uuidC}},
		},
		{
			"a device that tells no mode", with(func(gpus []record.GPU) { gpus[0].MIG = "" }),
			[]string{"MIG-1"},
			nil,
			Devices{From: "target.gpus", Visible: []string{"MIG-1"}, Watched: []string{uuidA}},
		},
		{
			"a device that tells no mode beside one in it", with(func(gpus []record.GPU) { gpus[0].MIG, gpus[2].MIG = "", "on" }),
			[]string{"MIG-1"},
			nil,
			Devices{From: "target.gpus", Visible: []string{"MIG-1"}, Watched: []string{uuidC}},
		},
		{"AMD's own variable", amds(), nil, []string{rocrVisible + "=" + uuidC, cudaOrder + "=PCI_BUS_ID"}, Devices{From: rocrVisible, Visible: []string{uuidC}, Watched: []string{uuidC}}},
		{
			"AMD's numbers", amds(), nil,
			[]string{rocrVisible + "=1", cudaOrder + "=PCI_BUS_ID"},
			Devices{From: rocrVisible, Watched: all, Named: 1, Why: "ROCR_VISIBLE_DEVICES holds numbers, and nothing says in which order they count"},
		},
		{
			"HIP's names", amds(), nil,
			[]string{hipVisible + "=" + uuidC},
			Devices{From: hipVisible, Watched: []string{uuidC}},
		},
		{
			"HIP's numbers among ROCm's devices", amds(), nil,
			[]string{rocrVisible + "=" + uuidC, hipVisible + "=0"},
			Devices{From: hipVisible, Watched: all, Named: 1, Why: "HIP_VISIBLE_DEVICES counts among the devices that ROCm shows"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ChooseDevices(tt.gpus, tt.named, tt.env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRefusedDevices(t *testing.T) {
	has := uuidA + " (Big), " + uuidB + ", " + uuidC
	tests := []struct {
		name  string
		gpus  []record.GPU
		named []string
		value string
		want  string
	}{
		{"one that is not here", three(), []string{uuidA, "GPU-x"}, "", `target.gpus names "GPU-x", which this machine does not have; it has ` + has + ": correct it, or run the job where that GPU is"},
		{"the beginning of one", three(), []string{"GPU-0c"}, "", `target.gpus names "GPU-0c", which this machine does not have; it has ` + has + ": correct it, or run the job where that GPU is"},
		{"one of the job's", three(), nil, "GPU-x", `CUDA_VISIBLE_DEVICES names "GPU-x", which this machine does not have; it has ` + has + ": correct it, or run the job where that GPU is"},
		{"an ambiguous beginning", three(), nil, "GPU-8932", `CUDA_VISIBLE_DEVICES names "GPU-8932", which may be ` + uuidA + " or " + uuidB + ": write the whole UUID"},
		{"a number too large", three(), nil, "3", "CUDA_VISIBLE_DEVICES names device 3, and this machine has " + has + ": correct it, or name UUIDs under target.gpus"},
		{"a negative number", three(), nil, "0,-2", "CUDA_VISIBLE_DEVICES names device -2, and this machine has " + has + ": correct it, or name UUIDs under target.gpus"},
		{"a word", three(), nil, "all", `CUDA_VISIBLE_DEVICES names "all", which is neither a number nor the UUID of a GPU: name UUIDs under target.gpus; this machine has ` + has},
		{"a number twice", three(), nil, "0,00", `CUDA_VISIBLE_DEVICES names "0" twice: leave one of them out`},
		{"a device twice", three(), nil, uuidC + ",GPU-0c", `CUDA_VISIBLE_DEVICES names "` + uuidC + `" twice: leave one of them out`},
		{"a slice where none is", three(), []string{"MIG-1"}, "", `target.gpus names the MIG slice "MIG-1", and no GPU of this machine is in MIG mode; it has ` + has + ": correct it"},
		{"a slice of another GPU", three(), []string{"MIG-GPU-x/1/2"}, "", `target.gpus names "GPU-x", which this machine does not have; it has ` + has + ": correct it, or run the job where that GPU is"},
		{"HIP by another name", amds(), nil, "GPU-x", `CUDA_VISIBLE_DEVICES names "GPU-x", which this machine does not have; it has ` + has + ": correct it, or run the job where that GPU is"},
		{"HIP by one name twice", amds(), nil, uuidC + ",GPU-0c", `CUDA_VISIBLE_DEVICES names "` + uuidC + `" twice: leave one of them out`},
		{"hostile", three(), nil, "\x1b[2J" + strings.Repeat("x", 5000), `CUDA_VISIBLE_DEVICES names "\x1b[2J` + strings.Repeat("x", 56) + `", which is neither a number nor the UUID of a GPU: name UUIDs under target.gpus; this machine has ` + has},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ChooseDevices(tt.gpus, tt.named, []string{cudaVisible + "=" + tt.value})
			if err == nil || err.Error() != tt.want {
				t.Errorf("\n got %v\nwant %s", err, tt.want)
			}
			if diff := cmp.Diff(Devices{}, got); diff != "" {
				t.Errorf("beside an error: %s", diff)
			}
		})
	}
}

// Whatever is said, what is watched and what is told the servers are devices of the machine, each once.
func TestChosenDevicesAreThere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	vocabulary := []string{"0", "1", "2", "3", "7", "-1", "-2", "+1", "00", "", " 1 ", "GPU-0", "GPU-1", "GPU-2", "GPU-9", "GPU-", "MIG-1", "MIG-GPU-1/0/0", "MIG-GPU-9/0/0", "all", "NoDevFiles"}
	pick := func(from []string) string { return from[rnd.IntN(len(from))] }
	chosen, later := 0, 0
	for range 20000 {
		gpus := make([]record.GPU, rnd.IntN(5))
		for i := range gpus {
			gpus[i] = record.GPU{
				UUID: fmt.Sprintf("GPU-%d", i), Vendor: pick([]string{"NVIDIA", "AMD", ""}), MIG: pick([]string{"on", "off", "off", ""}),
				PCI: pick([]string{fmt.Sprintf("0000:%02x:00.0", 9-i), "", "odd"}),
			}
		}
		var said []string
		for range rnd.IntN(4) {
			said = append(said, pick(vocabulary))
		}
		env := []string{pick([]string{cudaVisible, rocrVisible, hipVisible}) + "=" + strings.Join(said, ","), cudaOrder + "=" + pick([]string{pciOrder, "FASTEST_FIRST", ""})}
		var named []string
		if rnd.IntN(3) == 0 {
			named = said
		}
		d, err := ChooseDevices(gpus, named, env)
		if err != nil || len(gpus) == 0 {
			continue
		}
		there := machine(gpus).ids()
		for _, id := range slices.Concat(d.Watched, slices.DeleteFunc(slices.Clone(d.Visible), func(id string) bool { return strings.HasPrefix(id, "MIG-") })) {
			if !slices.Contains(there, id) {
				t.Fatalf("%v, %q, %q: %q of %+v is not there", gpus, named, env, id, d)
			}
		}
		for _, list := range [][]string{d.Watched, d.Visible} {
			if len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
				t.Fatalf("%q, %q: one is twice in %q", named, env, list)
			}
		}
		if (d.Named > 0) != (d.Why != "") || d.From != "" && len(d.Watched) == 0 || d.Named > 0 && len(d.Watched) < 2 {
			t.Fatalf("%v, %q, %q: %+v", gpus, named, env, d)
		}
		if chosen++; d.Named > 0 {
			later++
		}
	}
	if chosen < 2000 || later < 100 {
		t.Errorf("%d chosen, %d of them later: too few to show anything", chosen, later)
	}
}

func TestSameDevices(t *testing.T) {
	for _, tt := range []struct {
		a, b []string
		want bool
	}{
		{[]string{"A=1"}, nil, true},
		{[]string{cudaVisible + "=0"}, []string{"A=1", cudaVisible + "=0"}, true},
		{[]string{cudaVisible + "=0"}, []string{cudaVisible + "=0,1"}, false},
		{[]string{cudaVisible + "="}, nil, false},
		{[]string{cudaVisible + "=0", cudaOrder + "=" + pciOrder}, []string{cudaVisible + "=0"}, false},
		{[]string{hipVisible + "=0"}, []string{hipVisible + "=1"}, false},
	} {
		if got := SameDevices(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: %t", tt.a, tt.b, got)
		}
	}
}

// A server is told in the words of its GPUs' vendor, and nothing else picks among them.
func TestVisibleByVendor(t *testing.T) {
	env := []string{"A=1", cudaVisible + "=7", cudaOrder + "=FASTEST_FIRST", hipVisible + "=3", rocrVisible + "=2"}
	for vendor, want := range map[string][]string{
		nvidia: {"A=1", cudaVisible + "=GPU-b,GPU-a", cudaOrder + "=PCI_BUS_ID"},
		amd:    {"A=1", rocrVisible + "=GPU-b,GPU-a"},
	} {
		if diff := cmp.Diff(want, visible(env, []string{"GPU-b", "GPU-a"}, vendor)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", vendor, diff)
		}
	}
	for want, gpus := range map[string][]record.GPU{
		nvidia: three(), amd: {{Vendor: "Advanced Micro Devices, Inc."}},
	} {
		if got := vendorOf(gpus); got != want {
			t.Errorf("vendor %q, want %q", got, want)
		}
	}
	for _, gpus := range [][]record.GPU{nil, {{}}, {{Vendor: "NVIDIA"}, {Vendor: "AMD"}}, {{Vendor: "NVIDIA"}, {}}} {
		if got := vendorOf(gpus); got != "" {
			t.Errorf("%v: vendor %q", gpus, got)
		}
	}
}
