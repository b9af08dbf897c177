package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"

	"github.com/prometheus/procfs"
)

// tcpListen is the state number of a listening socket in /proc/net/tcp.
const tcpListen = 0x0A

// Listener is a listening TCP socket.
type Listener struct {
	Addr netip.AddrPort
	// Inode identifies the socket; /proc/PID/fd of its holders link to it.
	Inode uint64
}

// Reaches reports whether a connection to 127.0.0.1 could end at this listener: it is bound to a loopback or to the
// unspecified address, IPv4 or IPv6 (which may take IPv4 too).
func (l Listener) Reaches() bool {
	a := l.Addr.Addr().Unmap()
	return a.IsLoopback() || a.IsUnspecified()
}

// Listeners returns the sockets that listen on a port in any address family, as far as our network namespace shows them.
func (t Table) Listeners(port int) ([]Listener, error) {
	root, err := procfs.NewFS(t.path())
	if err != nil {
		return nil, fmt.Errorf("process table: %w", err)
	}
	four, err4 := root.NetTCP()          //nolint:staticcheck // netlink needs no /proc, but cannot be pointed at a fixture
	six, err6 := root.NetTCP6()          //nolint:staticcheck // as above
	if errors.Is(err6, fs.ErrNotExist) { // a kernel without IPv6
		err6 = nil
	}
	if err := errors.Join(err4, err6); err != nil {
		return nil, fmt.Errorf("listening sockets: %w", err)
	}
	var found []Listener
	for _, s := range append(four, six...) {
		addr, ok := netip.AddrFromSlice(s.LocalAddr)
		if !ok || s.St != tcpListen || s.LocalPort != uint64(port) {
			continue
		}
		found = append(found, Listener{Addr: netip.AddrPortFrom(addr, uint16(s.LocalPort)), Inode: s.Inode})
	}
	return found, nil
}

// Holds reports whether a process holds the socket with this inode. It returns an error when the process's files may not
// be read, as with another user's process, or when it has ended.
func (t Table) Holds(pid int, inode uint64) (bool, error) {
	root, err := procfs.NewFS(t.path())
	if err != nil {
		return false, fmt.Errorf("process table: %w", err)
	}
	p, err := root.Proc(pid)
	if err != nil {
		return false, err
	}
	targets, err := p.FileDescriptorTargets()
	if err != nil {
		return false, err
	}
	want := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	if slices.Contains(targets, want) {
		return true, nil
	}
	return false, nil
}

// Holder names the process that holds a listener, as "pid 4711 (nginx: master)", for messages. Without the right to see
// it, the text says so.
func (t Table) Holder(l Listener) string {
	list, err := t.List(nil)
	if err != nil {
		return "a process that cannot be seen"
	}
	for _, p := range list {
		if held, err := t.Holds(p.PID, l.Inode); err == nil && held {
			return fmt.Sprintf("pid %d (%s)", p.PID, t.Command(p.PID, nil))
		}
	}
	return "a process of another user, on " + l.Addr.String()
}
