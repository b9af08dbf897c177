package target

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/internal/proc"
	"github.com/tailgate-ci/tailgate/runner/record"
)

const (
	// Ports are always five digits long, so that both arms' environments and command lines have one size.
	lowestPort, highestPort = 10000, 65535
	// portTries is how many ports are tried before giving up.
	portTries = 100
)

// span is a closed range of ports.
type span struct{ low, high int }

// forbidden returns the ports that our own outgoing connections may take, and those the administrator has reserved. sys is
// "/proc/sys" on a live system.
func forbidden(sys string) ([]span, error) {
	dir := filepath.Join(sys, "net", "ipv4")
	spans := []span{{32768, 60999}} // the kernel's default
	text, err := os.ReadFile(filepath.Join(dir, "ip_local_port_range"))
	if err == nil {
		fields := strings.Fields(string(text))
		if len(fields) != 2 {
			return nil, fmt.Errorf("ip_local_port_range: %q: %w", text, errRange)
		}
		local, err := parseSpan(fields[0] + "-" + fields[1])
		if err != nil {
			return nil, err
		}
		spans[0] = local
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text, err = os.ReadFile(filepath.Join(dir, "ip_local_reserved_ports"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for item := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		if item == "" {
			continue
		}
		reserved, err := parseSpan(item)
		if err != nil {
			return nil, err
		}
		spans = append(spans, reserved)
	}
	return spans, nil
}

var errRange = errors.New("not a range of ports")

// parseSpan reads "8080" or "8080-8090".
func parseSpan(text string) (span, error) {
	first, last, ranged := strings.Cut(strings.TrimSpace(text), "-")
	if !ranged {
		last = first
	}
	low, errLow := strconv.Atoi(first)
	high, errHigh := strconv.Atoi(last)
	if errLow != nil || errHigh != nil || low < 0 || low > high || high > highestPort {
		return span{}, fmt.Errorf("%q: %w", text, errRange)
	}
	return span{low, high}, nil
}

// candidates lists the ports a server may be given.
func candidates(spans []span) []int {
	var ports []int
	for port := lowestPort; port <= highestPort; port++ {
		if !slices.ContainsFunc(spans, func(s span) bool { return s.low <= port && port <= s.high }) {
			ports = append(ports, port)
		}
	}
	return ports
}

// choosePort returns a port that is free now. pick returns a number in [0, n).
func choosePort(sys string, pick func(n int) int) (int, error) {
	spans, err := forbidden(sys)
	if err != nil {
		return 0, err
	}
	ports := candidates(spans)
	for range min(portTries, len(ports)) {
		port := ports[pick(len(ports))]
		// Without reuse, and on every address: also a connection that lingers there would disturb a server.
		if bind(port, [4]byte{}, false) == nil {
			return port, nil
		}
	}
	return 0, &Error{ID: record.PortTaken, Text: fmt.Sprintf(
		"no free port was found between %d and %d outside ip_local_port_range; narrow that range, or set target.port", lowestPort, highestPort)}
}

// takePort checks a port that the configuration fixes. Connections of the last round may still linger on it, which no
// server minds; a listener is refused.
func takePort(port int) error {
	err := bind(port, [4]byte{127, 0, 0, 1}, true)
	listeners, listErr := reachable(port)
	if err == nil && listErr == nil && len(listeners) == 0 {
		return nil
	}
	holder := "by a process that cannot be seen"
	if len(listeners) > 0 {
		holder = "by " + proc.Table{}.Holder(listeners[0])
	} else if err != nil && !errors.Is(err, unix.EADDRINUSE) {
		holder = "or not allowed: " + err.Error()
	}
	return &Error{ID: record.PortTaken, Text: fmt.Sprintf("port %d is taken %s; free it, or leave target.port out", port, holder)}
}

// reachable lists the listeners that a connection to 127.0.0.1 could end at.
func reachable(port int) ([]proc.Listener, error) {
	all, err := proc.Table{}.Listeners(port)
	return slices.DeleteFunc(all, func(l proc.Listener) bool { return !l.Reaches() }), err
}

// bind tries to take a port for a moment. It never listens, so nobody can connect meanwhile.
func bind(port int, addr [4]byte, reuse bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if reuse {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
			return err
		}
	}
	return unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: addr})
}

// pickRandom spreads ports so that two runs on one machine seldom meet.
func pickRandom(n int) int { return rand.IntN(n) } //nolint:gosec // not a secret
