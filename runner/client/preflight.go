package client

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// spareDescriptors is kept for everything that is no connection: files of the run, sensors, the runtime's own.
	spareDescriptors = 256
	// portRest is how long a local port stays taken after its connection was closed (TIME_WAIT).
	portRest = 60 * time.Second
	portFile = "/proc/sys/net/ipv4/ip_local_port_range"
	keptFile = "/proc/sys/net/ipv4/ip_local_reserved_ports"
)

// Descriptors raises the soft limit of open files to the hard one and returns the ceiling: how many connections fit beside
// what else this process keeps open, which is the limit less 256, never below 0. On a system without such a limit it is
// [math.MaxInt]. It may be called more than once and concurrently.
func Descriptors() (ceiling int, err error) {
	limit, err := raiseDescriptors()
	if err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	return connections(limit), nil
}

// raiseDescriptors lifts the soft limit of open files to the hard one and returns what is in force then. Go's runtime does
// the same as it starts, and gives child processes the limit they would have had; so there is only something left to do
// where somebody lowered it since.
func raiseDescriptors() (uint64, error) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 0, err
	}
	if l.Cur < l.Max {
		raised := l
		raised.Cur = l.Max
		// Some systems refuse the hard limit as a soft one; then the soft one holds.
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			l = raised
		}
	}
	return l.Cur, nil
}

// connections is the ceiling under a limit of open files.
func connections(limit uint64) int {
	if limit >= math.MaxInt {
		return math.MaxInt
	}
	return max(int(limit)-spareDescriptors, 0)
}

// CheckStreams refuses a load whose planned peak of streams in flight needs more descriptors than this process may open:
// the ceiling of [Descriptors] must be at least twice the peak. A stream is over with its end marker, and whatever waited for
// it goes on at once, while its connection waits for the end of the body for up to 100 ms: a server that is slow to end its bodies
// makes each stream hold two. That a server which ends them in time needs one shows only once it is measured, when it
// is too late to refuse. It raises the soft limit first. The error holds the numbers and the fix; it is a
// configuration error, nothing was measured yet.
func CheckStreams(peak int) error {
	limit, err := raiseDescriptors()
	if err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return streamsFit(limit, peak)
}

func streamsFit(limit uint64, peak int) error {
	ceiling := connections(limit)
	if peak <= ceiling/2 {
		return nil
	}
	need := 2*uint64(peak) + spareDescriptors
	return fmt.Errorf("more streams than descriptors: a peak of %d streams in flight needs %d open files (2 for each and %d spare), the limit is %d, "+
		"which allows %d streams; raise it (ulimit -Hn %d, LimitNOFILE=, docker --ulimit nofile=%d) or lower the load",
		peak, need, spareDescriptors, limit, ceiling/2, need, need)
}

// CheckPorts refuses a load that opens new connections faster than this machine gets its local ports back: each port rests
// for 60 s after its connection closed, so newPerSecond x 60 must fit into the range of local ports. newPerSecond is the
// planned rate of connections that are not reused, per second and per server address; 0 is always fine. Where the range
// cannot be read (other systems than Linux) nothing is refused. The error holds the numbers and the fix; it is a
// configuration error, nothing was measured yet.
func CheckPorts(newPerSecond float64) error {
	text, err := os.ReadFile(portFile)
	if err != nil {
		return nil //nolint:nilerr // no range to compare with: running out has its own class, client_limit
	}
	kept, err := os.ReadFile(keptFile)
	if err != nil {
		kept = nil
	}
	ports, err := localPorts(string(text), string(kept))
	if err != nil {
		return err
	}
	return portsFit(ports, newPerSecond)
}

func portsFit(ports int, newPerSecond float64) error {
	need := math.Ceil(newPerSecond * portRest.Seconds())
	if need <= float64(ports) {
		return nil
	}
	return fmt.Errorf("more connections than local ports: %.4g new connections/s hold %.0f ports (each rests %.0f s after its connection), the range has %d, "+
		"which allows %.4g/s; let the server keep connections alive, widen the range (sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\") or lower the load",
		newPerSecond, need, portRest.Seconds(), ports, float64(ports)/portRest.Seconds())
}

// localPorts counts the ports of a range such as "32768 60999" that are not reserved; reserved is a list such as
// "8080,9000-9010".
func localPorts(span, reserved string) (int, error) {
	f := strings.Fields(span)
	if len(f) != 2 {
		return 0, fmt.Errorf("%s: want two numbers, got %q", portFile, clean(span, 64))
	}
	low, err1 := strconv.ParseUint(f[0], 10, 16)
	high, err2 := strconv.ParseUint(f[1], 10, 16)
	if err1 != nil || err2 != nil || high < low {
		return 0, fmt.Errorf("%s: want a range of ports, got %q", portFile, clean(span, 64))
	}
	n := int(high-low) + 1
	for part := range strings.SplitSeq(strings.TrimSpace(reserved), ",") {
		from, to, ranged := strings.Cut(part, "-")
		if !ranged {
			to = from
		}
		a, err1 := strconv.ParseUint(from, 10, 16)
		b, err2 := strconv.ParseUint(to, 10, 16)
		if err1 != nil || err2 != nil {
			continue
		}
		if a, b = max(a, low), min(b, high); a <= b {
			n -= int(b-a) + 1
		}
	}
	return max(n, 0), nil
}
