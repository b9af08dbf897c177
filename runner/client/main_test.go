package client

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// serverEnv makes the test binary a server of its own process, so that a benchmark can tell the client's CPU time from
// the server's.
const serverEnv = "TAILGATE_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(serverEnv); kind != "" {
		if err := serveRaw(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startServer runs a raw server in its own process and returns its address; see serveRaw for the kinds.
func startServer(tb testing.TB, kind string) (address string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+kind)
	cmd.Stderr = os.Stderr
	life, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = life.Close()
		_ = cmd.Wait()
	})
	line := make([]byte, 64)
	n, err := io.ReadAtLeast(out, line, 1)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(line[:n]))
}
