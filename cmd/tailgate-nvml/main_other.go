//go:build !(linux && cgo)

package main

import (
	"fmt"
	"os"
	"slices"
	"time"
)

func main() {
	if slices.Contains(os.Args[1:], "--version") {
		fmt.Println("tailgate-nvml", release())
		return
	}
	// Without golang.org/x/sys on every system there is no portable CLOCK_MONOTONIC; the parent stamps what is 0.
	start := time.Now()
	p := &printer{out: os.Stdout, now: func() int64 { return int64(time.Since(start)) }}
	p.hello(0, &unavailable{
		Reason: "built_without_nvml", Text: "this tailgate-nvml was built without NVML",
		Fix: "build it on Linux with CGO_ENABLED=1, or install the release",
	})
	os.Exit(exitUnavailable)
}
