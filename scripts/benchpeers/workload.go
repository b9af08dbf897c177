package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// workloadFor builds the scenario's workload for tailgate: prompts of 8 tokens, answers of one length, constant gaps. It
// holds more requests than the scenario sends, for the warm-up and for a closed loop that is faster than planned.
func workloadFor(b *bench, s scenario) string {
	dir := b.path("workload-" + s.name)
	if exists(dir) {
		return dir
	}
	gap := 10 * time.Millisecond
	if s.rate > 0 {
		gap = time.Second / time.Duration(s.rate)
	}
	var csv strings.Builder
	csv.WriteString("TIMESTAMP,ContextTokens,GeneratedTokens\n")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 4 * max(s.requests, 1000) {
		fmt.Fprintf(&csv, "%s,8,%d\n", at.Format("2006-01-02 15:04:05.0000000"), s.tokens)
		at = at.Add(gap)
	}
	trace := b.path(s.name + ".csv")
	if err := os.WriteFile(trace, []byte(csv.String()), 0o600); err != nil {
		return dir // the load says that the workload is not there
	}
	if _, err := b.sh(context.Background(), b.tailgate(), "workload", "build", trace, "--from", "azure-csv", "--out", dir,
		"--accept-fidelity", "all", "--name", s.name); err != nil {
		fmt.Fprintln(b.log, err)
	}
	return dir
}
