//go:build linux && cgo

package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is the real [driver]: go-nvml over libnvidia-ml.so.1.
type library struct {
	nvml    nvml.Interface
	symbols symbols
}

func newLibrary(skip []string, announce io.Writer) *library {
	n := nvml.New()
	l := &library{nvml: n, symbols: symbols{
		lookup: n.Extensions().LookupSymbol, skip: map[string]bool{}, found: map[string]bool{}, announce: announce,
	}}
	for _, name := range skip {
		l.symbols.skip[name] = true
	}
	return l
}

// symbols knows which functions the driver has. A call to one that it lacks would end the process, so that each name is
// looked up once and announced on stderr before its first use: should it end the process all the same, the parent knows
// what to skip.
type symbols struct {
	lookup   func(string) error
	skip     map[string]bool
	found    map[string]bool
	announce io.Writer
}

// pick is the first of the names that may be called.
func (s *symbols) pick(names ...string) bool {
	for _, name := range names {
		found, asked := s.found[name]
		if !asked {
			found = !s.skip[name] && s.lookup(name) == nil
			s.found[name] = found
			if found {
				s.first(name)
			}
		}
		if found {
			return true
		}
	}
	return false
}

func (s *symbols) first(name string) { _, _ = fmt.Fprintln(s.announce, "first", name) }

// Open implements [driver]. The library cannot be asked for symbols before it is initialised.
func (l *library) Open() code {
	const name = "nvmlInit_v2"
	if l.symbols.skip[name] {
		return symbolMissing
	}
	l.symbols.first(name)
	return code(l.nvml.Init())
}

// Close implements [driver].
func (l *library) Close() { _ = l.nvml.Shutdown() } // there is nothing to do about it

// Count implements [driver].
func (l *library) Count() (int, code) {
	if !l.symbols.pick("nvmlDeviceGetCount_v2", "nvmlDeviceGetCount") {
		return 0, symbolMissing
	}
	n, ret := l.nvml.DeviceGetCount()
	return n, code(ret)
}

// Device implements [driver].
func (l *library) Device(index int) (device, code) {
	if !l.symbols.pick("nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex") {
		return nil, symbolMissing
	}
	d, ret := l.nvml.DeviceGetHandleByIndex(index)
	return &gpu{device: d, symbols: &l.symbols}, code(ret)
}

// System implements [driver].
func (l *library) System(call string) (string, code) {
	if !l.symbols.pick(call) {
		return "", symbolMissing
	}
	switch call {
	case "nvmlSystemGetDriverVersion":
		s, ret := l.nvml.SystemGetDriverVersion()
		return s, code(ret)
	case "nvmlSystemGetNVMLVersion":
		s, ret := l.nvml.SystemGetNVMLVersion()
		return s, code(ret)
	case "nvmlSystemGetCudaDriverVersion":
		v, ret := l.nvml.SystemGetCudaDriverVersion()
		return strconv.Itoa(v/1000) + "." + strconv.Itoa(v%1000/10), code(ret)
	default:
		return "", symbolMissing
	}
}
