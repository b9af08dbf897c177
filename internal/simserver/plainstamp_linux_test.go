package simserver

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// What lies in the socket while nobody reads has arrived when it was sent.
func TestArrivalIsNotTheRead(t *testing.T) {
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	stampArrivals(l)
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	clk := newClock()
	r := newReceiver(s, clk)
	const unread = 30 * time.Millisecond
	buf := make([]byte, 64)
	// The kernel begins to stamp a moment after it was asked to; in that moment the read counts.
	for range 20 {
		before := clk.now()
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		after := clk.now()
		time.Sleep(unread)
		n, at, err := r.read(buf)
		if n != 1 || err != nil {
			t.Fatalf("read %d bytes, %v", n, err)
		}
		const join = int64(time.Millisecond) // of two clocks
		if at >= before-join && at <= after+join {
			_ = c.Close()
			if n, _, err = r.read(buf); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("after the end: %d bytes, %v", n, err)
			}
			return
		}
	}
	t.Error("20 bytes that waited in the socket count from the read")
}

func TestStampOfWhatIsNone(t *testing.T) {
	for _, oob := range [][]byte{nil, make([]byte, 8), make([]byte, 32)} {
		if at := stampOf(oob); at != 0 {
			t.Errorf("%d bytes of no message make the instant %d", len(oob), at)
		}
	}
}
