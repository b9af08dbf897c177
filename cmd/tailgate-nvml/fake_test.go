//go:build linux && cgo

package main

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// defaults is what a stub device answers without a scenario. The fake shares it, so that the two cannot drift apart.
//
//go:embed testdata/stub/defaults.h
var defaults string

// scenario is the stub's scenario language in Go; testdata/stub/stub.c defines it.
type scenario struct {
	mu   sync.Mutex
	now  int64
	rows []scenarioRow
	// hung is what a hanging call waits for; nil hangs for good.
	hung chan struct{}
}

type scenarioRow struct {
	t               int64
	gpu, key, value string
}

func parseScenario(text string, now int64) *scenario {
	s := &scenario{now: now}
	for _, m := range regexp.MustCompile(`ROW\("(.*)", "(.*)"\)`).FindAllStringSubmatch(defaults, -1) {
		s.rows = append(s.rows, scenarioRow{0, "*", m[1], m[2]})
	}
	row := regexp.MustCompile(`(?m)^(\d+) +(\S+) +(\S+) +(.*)$`)
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		t, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			panic(err)
		}
		s.rows = append(s.rows, scenarioRow{t, m[2], m[3], m[4]})
	}
	return s
}

// answer is the value that holds for a key now, or the code with which the call fails.
func (s *scenario) answer(gpu, key string) (string, code) {
	s.mu.Lock()
	best, value := int64(-1), ""
	for _, r := range s.rows {
		if r.key == key && (r.gpu == "*" || r.gpu == gpu) && r.t <= s.now && r.t >= best {
			best, value = r.t, r.value
		}
	}
	s.mu.Unlock()
	if value == "hang" {
		<-s.hung
		return "", unknownError
	}
	if number, failed := strings.CutPrefix(value, "nvml:"); failed {
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(err)
		}
		return "", code(n)
	}
	return value, ok
}

func (s *scenario) number(gpu, key string) (int64, code) {
	text, c := s.answer(gpu, key)
	if c != ok {
		return 0, c
	}
	n, err := strconv.ParseInt(text, 0, 64)
	if err != nil {
		panic(err)
	}
	return n, ok
}

// fakeDriver is a [driver] without a driver. missing are calls that the library does not have.
type fakeDriver struct {
	*scenario
	missing map[string]bool
	closed  bool
}

func (f *fakeDriver) Open() code { _, c := f.answer("*", "nvmlInit"); return c }
func (f *fakeDriver) Close()     { f.closed = true }

func (f *fakeDriver) System(call string) (string, code) {
	text, c := f.answer("*", call)
	if call == "nvmlSystemGetCudaDriverVersion" && c == ok {
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		text = fmt.Sprintf("%d.%d", n/1000, n%1000/10)
	}
	return text, c
}

func (f *fakeDriver) Count() (int, code) {
	n, c := f.number("*", "nvmlDeviceGetCount")
	return int(n), c
}

func (f *fakeDriver) Device(index int) (device, code) {
	gpu := strconv.Itoa(index)
	_, c := f.answer(gpu, "nvmlDeviceGetHandleByIndex")
	return &fakeDevice{f, gpu}, c
}

type fakeDevice struct {
	*fakeDriver
	gpu string
}

func (d *fakeDevice) Text(call string) (string, code) {
	if d.missing[call] {
		return "", symbolMissing
	}
	words := []string{"off", "on"}
	switch call {
	case "nvmlDeviceGetUUID":
		return fmt.Sprintf("GPU-00000000-0000-4000-8000-%012s", d.gpu), ok
	case "nvmlDeviceGetName", "nvmlDeviceGetPciInfo":
		return d.answer(d.gpu, call)
	case "nvmlDeviceGetComputeMode":
		words = []string{"default", "other", "prohibited", "exclusive_process"}
	}
	n, c := d.number(d.gpu, call)
	return words[n], c
}

func (d *fakeDevice) Numbers(call string) ([]int64, code) {
	if d.missing[call] {
		return nil, symbolMissing
	}
	keys := map[string][]string{
		"nvmlDeviceGetUtilizationRates":             {"nvmlDeviceGetUtilizationRates.gpu", "nvmlDeviceGetUtilizationRates.memory"},
		"nvmlDeviceGetMemoryInfo_v2":                {"nvmlDeviceGetMemoryInfo.used", "nvmlDeviceGetMemoryInfo.total"},
		"nvmlDeviceGetMemoryInfo":                   {"nvmlDeviceGetMemoryInfo.used", "nvmlDeviceGetMemoryInfo.total"},
		"nvmlDeviceGetTemperatureV":                 {"nvmlDeviceGetTemperature"},
		"nvmlDeviceGetCurrentClocksThrottleReasons": {"nvmlDeviceGetCurrentClocksEventReasons"},
	}[call]
	if keys == nil {
		keys = []string{call}
	}
	var numbers []int64
	for _, key := range keys {
		n, c := d.number(d.gpu, key)
		if c != ok {
			return nil, c
		}
		numbers = append(numbers, n)
	}
	return numbers, ok
}

func (d *fakeDevice) Processes(call string) ([]process, code) {
	text, c := d.answer(d.gpu, call)
	if c != ok || text == "none" {
		return nil, c
	}
	var ps []process
	for one := range strings.SplitSeq(text, ",") {
		var p process
		if _, err := fmt.Sscanf(one, "%d:%d", &p.pid, &p.mem); err != nil {
			panic(err)
		}
		ps = append(ps, p)
	}
	return ps, ok
}
