package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mark is carried by every process these tests start, so that the end of the run can prove that none is left.
var mark = "PROC_TEST_RUN=" + strconv.Itoa(os.Getpid())

func TestMain(m *testing.M) {
	code := m.Run()
	if left := marked(); len(left) > 0 {
		fmt.Fprintln(os.Stderr, "processes left behind:", strings.Join(left, "; "))
		code = 1
	}
	os.Exit(code)
}

// marked lists the living processes of this test run.
func marked() []string {
	var table Table
	list, err := table.List(nil)
	if err != nil {
		return []string{err.Error()}
	}
	var left []string
	for _, p := range list {
		if !p.Dead() && table.hasVariable(p.PID, mark) {
			left = append(left, fmt.Sprint(p.PID, " ", table.Command(p.PID, nil)))
		}
	}
	return left
}

func testEnv(extra ...string) []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), mark}, extra...)
}

// start runs a bash script and ends it with the test, whatever happens.
func start(t *testing.T, script string, edit func(*Command)) *Group {
	t.Helper()
	c := Command{Path: "/bin/bash", Args: []string{"-c", script}, Dir: t.TempDir(), Env: testEnv()}
	if edit != nil {
		edit(&c)
	}
	g, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Kill)
	return g
}

// eventually fails the test unless ok holds within two seconds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 200 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within 2 s: %s", what)
}

// waitSleepers waits until n processes of the group have become sleep, and so have set up whatever they ignore.
func waitSleepers(t *testing.T, g *Group, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " sleeping processes"), func() bool {
		sleepers := 0
		for _, p := range g.Living() {
			if p.Comm == "sleep" {
				sleepers++
			}
		}
		return sleepers == n
	})
}
