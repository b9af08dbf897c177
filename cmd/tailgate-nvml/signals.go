//go:build linux && cgo

package main

// signal is a question that a device answers with numbers, one per field. Of several calls the first one that the driver
// supports is used.
type signal struct {
	fields []string
	calls  []string
}

// polled are the signals of a sample line. Units are in the names; reasons is a bit set.
func polled() []signal {
	return []signal{
		{[]string{"sm_mhz"}, []string{"nvmlDeviceGetClockInfo.sm"}},
		{[]string{"mem_mhz"}, []string{"nvmlDeviceGetClockInfo.mem"}},
		{[]string{"temp_c"}, []string{"nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"}},
		{[]string{"power_mw"}, []string{"nvmlDeviceGetPowerUsage"}},
		{[]string{"util_pct", "mem_util_pct"}, []string{"nvmlDeviceGetUtilizationRates"}},
		{[]string{"mem_used_b"}, []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"}},
		{[]string{"pstate"}, []string{"nvmlDeviceGetPerformanceState"}},
		{[]string{"reasons"}, []string{
			"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons",
		}},
	}
}

// counted are the signals of a counters line, read at edges.
func counted() []signal {
	return []signal{
		{[]string{"energy_mj"}, []string{"nvmlDeviceGetTotalEnergyConsumption"}},
		{[]string{"power_limit_mw"}, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
	}
}

// limits are the signals of the limits object of a device line, read once.
func limits() []signal {
	return []signal{
		{[]string{"power_mw"}, []string{"nvmlDeviceGetEnforcedPowerLimit"}},
		{[]string{"power_default_mw"}, []string{"nvmlDeviceGetPowerManagementDefaultLimit"}},
		{[]string{"sm_max_mhz"}, []string{"nvmlDeviceGetMaxClockInfo.sm"}},
		{[]string{"mem_max_mhz"}, []string{"nvmlDeviceGetMaxClockInfo.mem"}},
	}
}

// modes are the texts of the modes object of a device line: field, call.
func modes() [][2]string {
	return [][2]string{
		{"persistence", "nvmlDeviceGetPersistenceMode"},
		{"compute", "nvmlDeviceGetComputeMode"},
		{"mig", "nvmlDeviceGetMigMode"},
		{"ecc", "nvmlDeviceGetEccMode"},
	}
}

// processLists are the calls that list processes, with the kind each gives.
func processLists() [][2]string {
	return [][2]string{
		{"compute", "nvmlDeviceGetComputeRunningProcesses"},
		{"mps", "nvmlDeviceGetMPSComputeRunningProcesses"},
	}
}
