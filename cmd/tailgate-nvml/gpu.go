//go:build linux && cgo

package main

import (
	"bytes"
	"math"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// gpu is one device of a [library]. Each call it answers is a row of a table: the C symbols, of which one must be present,
// and the Go function that calls it.
type gpu struct {
	device  nvml.Device
	symbols *symbols
}

type row[T any] struct {
	symbols []string
	do      func(nvml.Device) (T, nvml.Return)
}

// answer makes the call of a row if the driver has it. What a failed call left in its result is no answer.
func answer[T any](g *gpu, rows map[string]row[T], call string) (T, code) {
	r, known := rows[call]
	var none T
	if !known || !g.symbols.pick(r.symbols...) {
		return none, symbolMissing
	}
	result, ret := r.do(g.device)
	if ret != nvml.SUCCESS {
		return none, code(ret)
	}
	return result, ok
}

// Text implements [device].
func (g *gpu) Text(call string) (string, code) { return answer(g, texts(), call) }

// Numbers implements [device].
func (g *gpu) Numbers(call string) ([]int64, code) { return answer(g, numbers(), call) }

// Processes implements [device].
func (g *gpu) Processes(call string) ([]process, code) { return answer(g, lists(), call) }

func one(name string) []string { return []string{name} }

func onOff(state nvml.EnableState) string {
	if state == nvml.FEATURE_ENABLED {
		return "on"
	}
	return "off"
}

func texts() map[string]row[string] {
	return map[string]row[string]{
		"nvmlDeviceGetUUID": {one("nvmlDeviceGetUUID"), nvml.Device.GetUUID},
		"nvmlDeviceGetName": {one("nvmlDeviceGetName"), nvml.Device.GetName},
		"nvmlDeviceGetPciInfo": {
			[]string{"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
			func(d nvml.Device) (string, nvml.Return) { info, ret := d.GetPciInfo(); return busID(info), ret },
		},
		"nvmlDeviceGetPersistenceMode": {
			one("nvmlDeviceGetPersistenceMode"),
			func(d nvml.Device) (string, nvml.Return) {
				state, ret := d.GetPersistenceMode()
				return onOff(state), ret
			},
		},
		"nvmlDeviceGetComputeMode": {
			one("nvmlDeviceGetComputeMode"),
			func(d nvml.Device) (string, nvml.Return) {
				mode, ret := d.GetComputeMode()
				return computeMode(mode), ret
			},
		},
		"nvmlDeviceGetMigMode": {
			one("nvmlDeviceGetMigMode"),
			func(d nvml.Device) (string, nvml.Return) {
				mode, _, ret := d.GetMigMode()
				return onOff(nvml.EnableState(mode)), ret
			},
		},
		"nvmlDeviceGetEccMode": {
			one("nvmlDeviceGetEccMode"),
			func(d nvml.Device) (string, nvml.Return) { state, _, ret := d.GetEccMode(); return onOff(state), ret },
		},
	}
}

func computeMode(mode nvml.ComputeMode) string {
	switch mode {
	case nvml.COMPUTEMODE_DEFAULT:
		return "default"
	case nvml.COMPUTEMODE_PROHIBITED:
		return "prohibited"
	case nvml.COMPUTEMODE_EXCLUSIVE_PROCESS:
		return "exclusive_process"
	default:
		return "other"
	}
}

// busID is the C string in a fixed buffer.
func busID(info nvml.PciInfo) string {
	b := make([]byte, len(info.BusId))
	for i, c := range info.BusId {
		b[i] = byte(c)
	}
	id, _, _ := bytes.Cut(b, []byte{0})
	return strings.ToLower(string(id))
}

func numbers() map[string]row[[]int64] {
	rows := map[string]row[[]int64]{
		"nvmlDeviceGetClockInfo.sm":    clock("nvmlDeviceGetClockInfo", nvml.Device.GetClockInfo, nvml.CLOCK_SM),
		"nvmlDeviceGetClockInfo.mem":   clock("nvmlDeviceGetClockInfo", nvml.Device.GetClockInfo, nvml.CLOCK_MEM),
		"nvmlDeviceGetMaxClockInfo.sm": clock("nvmlDeviceGetMaxClockInfo", nvml.Device.GetMaxClockInfo, nvml.CLOCK_SM),
		"nvmlDeviceGetMaxClockInfo.mem": clock(
			"nvmlDeviceGetMaxClockInfo", nvml.Device.GetMaxClockInfo, nvml.CLOCK_MEM),
		"nvmlDeviceGetTemperatureV": {one("nvmlDeviceGetTemperatureV"), func(d nvml.Device) ([]int64, nvml.Return) {
			// The wrapper leaves the sensor at 0, which is NVML_TEMPERATURE_GPU.
			t, ret := d.GetTemperatureV().V1()
			return []int64{int64(t.Temperature)}, ret
		}},
		"nvmlDeviceGetTemperature": {one("nvmlDeviceGetTemperature"), func(d nvml.Device) ([]int64, nvml.Return) {
			t, ret := d.GetTemperature(nvml.TEMPERATURE_GPU)
			return []int64{int64(t)}, ret
		}},
		"nvmlDeviceGetUtilizationRates": {
			one("nvmlDeviceGetUtilizationRates"),
			func(d nvml.Device) ([]int64, nvml.Return) {
				u, ret := d.GetUtilizationRates()
				return []int64{int64(u.Gpu), int64(u.Memory)}, ret
			},
		},
		"nvmlDeviceGetMemoryInfo_v2": {one("nvmlDeviceGetMemoryInfo_v2"), func(d nvml.Device) ([]int64, nvml.Return) {
			m, ret := d.GetMemoryInfo_v2()
			return []int64{int64(m.Used), int64(m.Total)}, ret
		}},
		"nvmlDeviceGetMemoryInfo": {one("nvmlDeviceGetMemoryInfo"), func(d nvml.Device) ([]int64, nvml.Return) {
			m, ret := d.GetMemoryInfo()
			return []int64{int64(m.Used), int64(m.Total)}, ret
		}},
		"nvmlDeviceGetPerformanceState": {one("nvmlDeviceGetPerformanceState"), performanceState},
	}
	addSingles(rows)
	return rows
}

// addSingles adds the calls that answer with one number as it is.
func addSingles(rows map[string]row[[]int64]) {
	for name, do := range map[string]func(nvml.Device) (uint64, nvml.Return){
		"nvmlDeviceGetCurrentClocksEventReasons":    nvml.Device.GetCurrentClocksEventReasons,
		"nvmlDeviceGetCurrentClocksThrottleReasons": nvml.Device.GetCurrentClocksThrottleReasons,
		"nvmlDeviceGetTotalEnergyConsumption":       nvml.Device.GetTotalEnergyConsumption,
	} {
		rows[name] = single(name, do)
	}
	for name, do := range map[string]func(nvml.Device) (uint32, nvml.Return){
		"nvmlDeviceGetPowerUsage":                  nvml.Device.GetPowerUsage,
		"nvmlDeviceGetEnforcedPowerLimit":          nvml.Device.GetEnforcedPowerLimit,
		"nvmlDeviceGetPowerManagementDefaultLimit": nvml.Device.GetPowerManagementDefaultLimit,
	} {
		rows[name] = single(name, do)
	}
}

func single[T uint32 | uint64](name string, do func(nvml.Device) (T, nvml.Return)) row[[]int64] {
	return row[[]int64]{one(name), func(d nvml.Device) ([]int64, nvml.Return) {
		x, ret := do(d)
		return []int64{int64(x)}, ret
	}}
}

func clock(
	name string, do func(nvml.Device, nvml.ClockType) (uint32, nvml.Return), domain nvml.ClockType,
) row[[]int64] {
	return single(name, func(d nvml.Device) (uint32, nvml.Return) { return do(d, domain) })
}

// performanceState is 0 (fastest) to 15. The driver's "unknown" is no state.
func performanceState(d nvml.Device) ([]int64, nvml.Return) {
	state, ret := d.GetPerformanceState()
	if ret == nvml.SUCCESS && state == nvml.PSTATE_UNKNOWN {
		ret = nvml.ERROR_NOT_SUPPORTED
	}
	return []int64{int64(state)}, ret
}

// lists are the process lists. go-nvml calls the newest version that the library has, in this order.
func lists() map[string]row[[]process] {
	rows := map[string]row[[]process]{}
	for name, do := range map[string]func(nvml.Device) ([]nvml.ProcessInfo, nvml.Return){
		"nvmlDeviceGetComputeRunningProcesses":    nvml.Device.GetComputeRunningProcesses,
		"nvmlDeviceGetMPSComputeRunningProcesses": nvml.Device.GetMPSComputeRunningProcesses,
	} {
		rows[name] = row[[]process]{
			[]string{name + "_v3", name + "_v2", name},
			func(d nvml.Device) ([]process, nvml.Return) { infos, ret := do(d); return fromInfos(infos), ret },
		}
	}
	return rows
}

// notAvailable is how the driver says that it does not know a process's memory. Source: nvml.h, NVML_VALUE_NOT_AVAILABLE.
const notAvailable = math.MaxUint64

func fromInfos(infos []nvml.ProcessInfo) []process {
	ps := make([]process, len(infos))
	for i, info := range infos {
		ps[i] = process{pid: info.Pid, mem: -1}
		if info.UsedGpuMemory != notAvailable {
			ps[i].mem = int64(info.UsedGpuMemory)
		}
	}
	return ps
}
