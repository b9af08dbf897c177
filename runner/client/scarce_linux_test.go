package client

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// What this machine runs out of is ours, wherever it shows: class client_limit, never the server's failure.
func TestScarcityIsOurs(t *testing.T) {
	for _, code := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL, syscall.ENOBUFS, syscall.ENOMEM} {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", code)}
		for where, got := range map[string]outcome{
			"dialling": dialOutcome(err),
			"reading":  breach{err, true, true}.outcome(),
		} {
			if got.class != record.ClientLimit || !strings.Contains(got.detail, code.Error()) {
				t.Errorf("%v while %s: %s: %s", code, where, got.class, got.detail)
			}
		}
	}
	for _, code := range []syscall.Errno{syscall.ECONNREFUSED, syscall.ETIMEDOUT, syscall.EHOSTUNREACH} {
		if got := dialOutcome(os.NewSyscallError("connect", code)); got.class != record.Dial {
			t.Errorf("%v: %s", code, got.class)
		}
	}
}

// K-01a for whoever ignores the preflight: descriptors run out while requests go on, and come back.
func TestDescriptorsRunOut(t *testing.T) {
	const address = "TAILGATE_TEST_ADDRESS"
	if os.Getenv(childEnv) == "" {
		s := newServer(t, serveOK)
		inChild(t, "TestDescriptorsRunOut", []string{address + "=" + s.Addr().String()})
		return
	}
	c, err := New(Options{URL: "http://" + os.Getenv(address), Model: "m", Clock: record.NewClock()})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		t.Fatal(err)
	}
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	got := send(t, c, 0)
	if got.Class != record.ClientLimit || !strings.Contains(got.Detail, "too many open files") || got.Attempts != 0 {
		t.Errorf("%s: %s", got.Class, got.Detail)
	}
	for _, f := range held {
		_ = f.Close()
	}
	if got := send(t, c, 0); got.Class != record.OK {
		t.Errorf("afterwards: %s: %s", got.Class, got.Detail)
	}
}

// K-01b: 200 local ports, 1,500 requests a second for 2 s. A server that ends each connection makes them run out, and
// nothing but that fails; with connections kept alive 3,000 requests of 30 workers need at most 30.
func TestPortsRunOut(t *testing.T) {
	if inChild(t, "TestPortsRunOut", nil, ownNetwork) {
		return
	}
	if err := fewPorts(40000, 40199); err != nil {
		t.Skipf("no network of our own: %v", err)
	}
	if err := CheckPorts(1500); err == nil || !strings.Contains(err.Error(), "the range has 200") {
		t.Errorf("the preflight says %v", err)
	}
	closing := strings.Replace(okAnswer, "\r\n", "\r\nConnection: close\r\n", 1) + okChunks()
	ends := atPort(t, 50000, func(s *server, c net.Conn, br *bufio.Reader) {
		if s.next(br) {
			_, _ = io.WriteString(c, closing)
			// It waits for us to close, so that the port rests on our side.
			_, _ = io.Copy(io.Discard, br)
		}
	})
	by := offer(t, ends.client(t, nil), 3000, 1500)
	if by[record.ClientLimit] == 0 || by[record.OK] == 0 || by[record.ClientLimit]+by[record.OK] != 3000 || ends.seen.Load() != int64(by[record.OK]) {
		t.Errorf("without keep-alive: %v, seen %d", by, ends.seen.Load())
	}
	const workers, each = 30, 100
	keeps := atPort(t, 50001, serveOK)
	c := keeps.client(t, nil)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				if got := send(t, c, 0); got.Class != record.OK {
					t.Errorf("with keep-alive: %s: %s", got.Class, got.Detail)
				}
			}
		})
	}
	wg.Wait()
	if keeps.seen.Load() != workers*each || keeps.conns.Load() > workers {
		t.Errorf("with keep-alive: seen %d over %d connections", keeps.seen.Load(), keeps.conns.Load())
	}
}

// offer sends n requests at a rate and counts how they ended.
func offer(t *testing.T, c *Client, n int, perSecond float64) map[record.Outcome]int {
	t.Helper()
	var mu sync.Mutex
	var flying sync.WaitGroup
	by := map[record.Outcome]int{}
	start := time.Now()
	for i := range n {
		time.Sleep(time.Until(start.Add(time.Duration(float64(i) / perSecond * 1e9))))
		flying.Go(func() {
			got := send(t, c, 0)
			if got.Class == record.ClientLimit && !strings.Contains(got.Detail, "cannot assign requested address") {
				t.Errorf("detail %q", got.Detail)
			}
			mu.Lock()
			defer mu.Unlock()
			by[got.Class]++
		})
	}
	flying.Wait()
	return by
}

// ownNetwork starts a command in a network namespace of its own, in which it is root.
func ownNetwork(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
}

// fewPorts brings the loopback of a new network up and narrows its local ports.
func fewPorts(low, high int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return err
	}
	return os.WriteFile(portFile, fmt.Appendf(nil, "%d %d", low, high), 0o600)
}

// atPort serves at a port outside the range of local ones.
func atPort(t *testing.T, port int, serve func(s *server, c net.Conn, br *bufio.Reader)) *server {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return serveOn(l, serve)
}
