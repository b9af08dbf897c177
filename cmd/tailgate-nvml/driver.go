//go:build linux && cgo

package main

import "strconv"

// driver is all the sensor needs of NVML. Questions to a device are named by their C symbol, with a dot and a word where one
// symbol answers several ("nvmlDeviceGetClockInfo.sm"). The real one is [library]; tests bring a scripted one.
type driver interface {
	// Open loads and initialises the library. Nothing else may be called before it returned ok.
	Open() code
	// Close gives the library back. It must not run while another call does.
	Close()
	// System answers a question about the whole system with a text.
	System(call string) (string, code)
	Count() (int, code)
	Device(index int) (device, code)
}

// device is one GPU.
type device interface {
	// Text answers with a word or a name.
	Text(call string) (string, code)
	// Numbers answers with as many numbers as the call has; see [signals].
	Numbers(call string) ([]int64, code)
	// Processes answers a call that lists processes.
	Processes(call string) ([]process, code)
}

// process is a process that uses a device. mem is in bytes, negative when the driver does not say.
type process struct {
	pid uint32
	mem int64
}

// code is an nvmlReturn_t, or symbolMissing.
type code int

// The codes the sensor tells apart. Source: nvml.h, nvmlReturn_t.
const (
	ok               code = 0
	notSupported     code = 3
	noPermission     code = 4
	driverNotLoaded  code = 9
	libraryNotFound  code = 12
	functionNotFound code = 13
	gpuLost          code = 15
	resetRequired    code = 16
	versionMismatch  code = 18
	unknownError     code = 999
	// symbolMissing is ours: the library has no such function, or --skip named it.
	symbolMissing code = -1
)

// String is the code as error lines show it.
func (c code) String() string {
	if c == symbolMissing {
		return "symbol_missing"
	}
	return "nvml:" + strconv.Itoa(int(c))
}

// capability is what the code says about a field: "ok" or the reason why it is n/a.
func (c code) capability() string {
	switch c {
	case ok:
		return "ok"
	case notSupported:
		return "unsupported"
	case noPermission:
		return "no_permission"
	case functionNotFound, symbolMissing:
		return "symbol_missing"
	default:
		return "error"
	}
}

// settled is true when asking again is pointless: the answer is not a matter of luck.
func (c code) settled() bool {
	return c == notSupported || c == noPermission || c == functionNotFound || c == symbolMissing
}

// fatal is true when the device is gone until somebody resets it.
func (c code) fatal() bool { return c == gpuLost || c == resetRequired }

// whyNot turns a failed Open into what the user should know.
func whyNot(c code) *unavailable {
	switch c {
	case libraryNotFound:
		return &unavailable{
			"library_not_found", "no driver: NVML library absent",
			"install the NVIDIA driver; in a container mount its libraries or run with the NVIDIA runtime",
		}
	case driverNotLoaded:
		return &unavailable{"driver_not_loaded", "NVIDIA kernel module not loaded", "load it with: modprobe nvidia"}
	case versionMismatch:
		return &unavailable{
			"version_mismatch", "driver updated under a running kernel module", "reboot the runner",
		}
	case noPermission:
		return &unavailable{
			"no_permission", "no permission to use the NVIDIA driver", "give the runner's user access to /dev/nvidia*",
		}
	case symbolMissing:
		return &unavailable{"symbol_missing", "the NVML library has no nvmlInit", "install a newer NVIDIA driver"}
	default:
		return &unavailable{
			"init_failed", "NVML does not initialise (" + c.String() + ")", "see if nvidia-smi works on this machine",
		}
	}
}
