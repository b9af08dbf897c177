//go:build linux && cgo

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// defaultInterval holds when TAILGATE_INTERVAL_MS is not set.
const defaultInterval = time.Second

func main() {
	link, _ := os.Readlink("/proc/self/ns/pid") // unknown without it
	os.Exit(tailgateNVML(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr, namespaceOf(link)))
}

// tailgateNVML is main with its surroundings as parameters; it returns the exit code.
func tailgateNVML(
	args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer, namespace string,
) int {
	flags := flag.NewFlagSet("tailgate-nvml", flag.ContinueOnError)
	flags.SetOutput(stderr)
	show := flags.Bool("version", false, "print the version and exit")
	var skip []string
	flags.Func("skip", "never call this driver `symbol`; may be repeated", func(s string) error {
		skip = append(skip, s)
		return nil
	})
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if *show {
		_, _ = fmt.Fprintln(stdout, "tailgate-nvml", release())
		return 0
	}
	interval, only, err := settings(getenv)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return 2
	}
	p := &printer{out: stdout, now: monotonic}
	s := &sensor{
		driver: newLibrary(skip, stderr), print: p, busy: &meter{now: monotonic}, interval: interval, only: only,
		namespace: namespace,
	}
	return s.run(stdin)
}

// settings reads the environment that the protocol defines.
func settings(getenv func(string) string) (interval time.Duration, only []string, err error) {
	interval = defaultInterval
	if text := getenv("TAILGATE_INTERVAL_MS"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ms < 0 || ms > maxInterval.Milliseconds() {
			return 0, nil, fmt.Errorf("TAILGATE_INTERVAL_MS is %q, want milliseconds from 0 to %d", text, maxInterval.Milliseconds())
		}
		interval = time.Duration(ms) * time.Millisecond
	}
	for uuid := range strings.SplitSeq(getenv("TAILGATE_DEVICES"), ",") {
		if uuid = strings.TrimSpace(uuid); uuid != "" {
			only = append(only, uuid)
		}
	}
	return interval, only, nil
}

// monotonic reads CLOCK_MONOTONIC in ns, the clock that the parent has too.
func monotonic() int64 {
	var ts unix.Timespec
	// It cannot fail: the clock id is fixed and the pointer is valid.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
