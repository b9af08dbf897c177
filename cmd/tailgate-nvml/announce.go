//go:build linux && cgo

package main

import (
	"maps"
	"slices"
)

// announce prints the device line and makes the probe ready. only holds the UUIDs to watch, empty means all; it is false for
// a device that is not to be watched, or that cannot even say its UUID.
func (p *probe) announce(index int, system line, only []string) bool {
	p.uuid = p.text("nvmlDeviceGetUUID")
	if p.uuid == "" || len(only) > 0 && !slices.Contains(only, p.uuid) {
		return false
	}
	l := line{
		"dev": p.uuid, "vendor": "NVIDIA", "index": index, "kind": "gpu",
		"name": p.text("nvmlDeviceGetName"), "pci": p.text("nvmlDeviceGetPciInfo"),
	}
	maps.Copy(l, system)
	fixed, switches := line{}, line{}
	for _, s := range limits() {
		p.measure(s, fixed)
	}
	for _, m := range modes() {
		if word := p.text(m[1]); word != "" {
			switches[m[0]] = word
		}
	}
	memory := line{}
	p.measure(signal{[]string{"used", "total"}, []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"}}, memory)
	if total, found := memory["total"].(int64); found {
		p.total, l["mem_total_b"] = total, total
	}
	l["limits"], l["modes"] = fixed, switches
	p.print.print("device", l)
	return true
}
