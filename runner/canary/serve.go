package canary

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Every is the time between two events: 20 a second.
const Every = 50 * time.Millisecond

// Serve writes the stream to whoever asks l for it, each from its own first event on, until ctx ends. It closes l.
func Serve(ctx context.Context, l net.Listener) error {
	hs := &http.Server{
		Handler: http.HandlerFunc(stream), ReadHeaderTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = hs.Close() })()
	if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stream answers as an inference server would: one token an event, the token being its time.
func stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for buf := make([]byte, 0, 128); ; {
		buf = append(buf[:0], `data: {"choices":[{"index":0,"delta":{"content":"`...)
		now, err := monotonic()
		if err != nil {
			return
		}
		buf = strconv.AppendInt(buf, now, 10)
		buf = append(buf, ` "}}]}`+"\n\n"...)
		if _, err := w.Write(buf); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// monotonic reads CLOCK_MONOTONIC, ns: the same numbers in every process of the machine.
func monotonic() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}
