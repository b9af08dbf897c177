package telemetry

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// Facts describes this machine. What cannot be read stays empty or n/a.
func Facts() record.Host { return hostFacts("", "") }

// hostFacts describes the machine. What cannot be read stays empty or n/a; "" stands for /proc and /sys.
func hostFacts(procRoot, sysRoot string) record.Host {
	procRoot, sysRoot = or(procRoot, "/proc"), or(sysRoot, "/sys")
	h := record.Host{
		Name:     firstLine(filepath.Join(procRoot, "sys/kernel/hostname")),
		Kernel:   firstLine(filepath.Join(procRoot, "sys/kernel/osrelease")),
		Governor: governor(sysRoot),
		OS:       osName("/etc/os-release"),
		Arch:     runtime.GOARCH,
		MemoryB:  record.NA("error"),
	}
	fs, err := procfs.NewFS(procRoot)
	if err != nil {
		return h
	}
	if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
		h.CPU, h.Cores = clean(cpus[0].ModelName), len(cpus)
	}
	if mem, err := fs.Meminfo(); err == nil && mem.MemTotalBytes != nil {
		h.MemoryB = record.Of(float64(*mem.MemTotalBytes))
	}
	return h
}

// governor is the CPU frequency governor: one word when all cores agree, else the words in order, joined by a comma.
func governor(sysRoot string) string {
	// The pattern is fixed, so Glob cannot fail.
	paths, _ := filepath.Glob(filepath.Join(sysRoot, "devices/system/cpu/cpufreq/policy*/scaling_governor"))
	var words []string
	for _, path := range paths {
		words = append(words, firstLine(path))
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), ",")
}

// osName is PRETTY_NAME of an os-release file, else the kernel's name.
func osName(path string) string {
	// Without the file there is no such line.
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if name, found := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); found {
			return clean(strings.Trim(name, `"`))
		}
	}
	return runtime.GOOS
}

func firstLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Scan()
	return clean(lines.Text())
}
