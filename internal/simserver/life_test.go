package simserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cases of readiness, at a hundredth of their times: health, inference and the model list come in different orders.
func TestReadiness(t *testing.T) {
	in := start(t, quick(func(c *Config) {
		c.Start = Start{HealthAfter: Duration(700 * time.Millisecond), InferenceAfter: Duration(1200 * time.Millisecond)}
	}))
	if code, body := in.get(t, "/v1/models"); code != http.StatusOK || !strings.Contains(body, `"id":"sim"`) {
		t.Errorf("models: status %d, %s", code, body)
	}
	if code, _ := in.get(t, "/health"); code != http.StatusServiceUnavailable {
		t.Errorf("health at once: status %d", code)
	}
	if resp, _ := in.post(t, completionPath, plainBody); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("inference at once: status %d", resp.StatusCode)
	}
	in.until(t, "health", func() bool { code, _ := in.get(t, "/health"); return code == http.StatusOK })
	in.until(t, "inference", func() bool {
		resp, _ := in.post(t, completionPath, plainBody)
		return resp.StatusCode == http.StatusOK
	})
	c := in.counts(t)
	if c.ReadyNS-c.StartNS != 1200*ms || c.NowNS < c.ReadyNS {
		t.Errorf("ready %d ms after the start", (c.ReadyNS-c.StartNS)/ms)
	}
}

func (in *instance) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 400 {
		if ok() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s did not come", what)
}

func TestInferenceFailureKind(t *testing.T) {
	in := start(t, quick(func(c *Config) {
		c.Start = Start{InferenceAfter: Duration(time.Hour), InferenceFailure: FaultEmpty}
	}))
	if resp, body := in.post(t, completionPath, plainBody); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"text":""`) {
		t.Errorf("status %d, %s", resp.StatusCode, body)
	}
}

func TestStopsWhenTold(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.Revision = "r1" }))
	in.get(t, "/health")
	in.stop()
	if err := in.wait(t); err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if log := in.log.String(); log != "listening on "+in.url+" model=sim revision=r1\nstopping\n" {
		t.Errorf("log %q", log)
	}
}

// A running answer may end within Drain; one that is longer is cut off.
func TestDrain(t *testing.T) {
	for name, drain := range map[string]time.Duration{"enough": 10 * time.Second, "none": 0} {
		t.Run(name, func(t *testing.T) {
			in := start(t, quick(func(c *Config) {
				c.DecodeBase, c.Drain = Duration(50*time.Millisecond), Duration(drain)
			}))
			failed := make(chan error, 1)
			go func() {
				_, _, err := in.do(t, http.MethodPost, completionPath, `{"prompt":"a","stream":true,"max_tokens":5}`)
				failed <- err
			}()
			in.until(t, "request", func() bool { return in.counts(t).InFlight == 1 })
			in.stop()
			if err := <-failed; (err == nil) != (drain > 0) {
				t.Errorf("the request ended with %v", err)
			}
			if err := in.wait(t); err != nil {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
}

func TestStopAfterHoldsThePort(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.StopAfter = Duration(500 * time.Millisecond) }))
	in.get(t, "/health")
	in.stop()
	if code, _ := in.get(t, "/health"); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	if err := in.wait(t); err != nil {
		t.Error(err)
	}
	if _, _, err := in.do(t, http.MethodGet, "/health", ""); err == nil {
		t.Error("the port is still open")
	}
}

func TestIgnoreSIGTERM(t *testing.T) {
	in := start(t, quick(func(c *Config) { c.IgnoreSIGTERM = true }))
	in.stop()
	time.Sleep(50 * time.Millisecond)
	if code, _ := in.get(t, "/health"); code != http.StatusOK {
		t.Errorf("status %d", code)
	}
	_ = in.l.Close()
	if err := in.wait(t); err != nil {
		t.Error(err)
	}
}

func TestCrashes(t *testing.T) {
	t.Run("after requests", func(t *testing.T) {
		in := start(t, quick(func(c *Config) { c.Exit = &Crash{AfterRequests: 2, Code: 7, Log: []string{"out of memory"}} }))
		in.post(t, completionPath, plainBody)
		in.post(t, completionPath, plainBody)
		in.exits(t, 7)
		if !strings.HasSuffix(in.log.String(), "out of memory\n") {
			t.Errorf("log %q", in.log)
		}
	})
	t.Run("after a time, with a stream open", func(t *testing.T) {
		cfg := Default()
		cfg.Exit = &Crash{After: Duration(300 * time.Millisecond), Code: 137}
		in := start(t, cfg)
		_, _, err := in.do(t, http.MethodPost, completionPath, `{"prompt":"a","stream":true,"max_tokens":10000}`)
		if err == nil {
			t.Error("the stream survived the crash")
		}
		in.exits(t, 137)
	})
}

func (in *instance) exits(t *testing.T, code int) {
	t.Helper()
	err := in.wait(t)
	if exit, ok := errors.AsType[*ExitError](err); !ok || exit.Code != code || exit.Error() == "" {
		t.Errorf("Serve returned %v, want exit code %d", err, code)
	}
}

func TestRefusesToStart(t *testing.T) {
	in := start(t, quick(func(c *Config) {
		c.RefuseStart = &Refusal{After: Duration(time.Millisecond), Log: []string{"no GPU found", "giving up"}, Code: 3}
	}))
	in.exits(t, 3)
	if log := in.log.String(); log != "no GPU found\ngiving up\n" {
		t.Errorf("log %q", log)
	}
}

func TestServeRefusesNonsense(t *testing.T) {
	bad := Default()
	bad.Lanes = 0
	speeds, children := quick(), quick()
	speeds.SpeedByStart = []float64{1}
	children.Children.Count = 1
	unwritable := quick()
	unwritable.TruthLog = filepath.Join(t.TempDir(), "no", "such", "folder")
	for want, cfg := range map[string]Config{
		"lanes: must be":     bad,
		"SIM_STATE names no": speeds,
		"children: ":         children,
		"truth log: ":        unwritable,
	} {
		err := Serve(t.Context(), cfg, Options{Addr: "127.0.0.1:0"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if err := Serve(t.Context(), quick(), Options{Addr: "nowhere:-1"}); err == nil {
		t.Error("an impossible address was taken")
	}
}

// Starts are counted across instances, and the list begins again after its end.
func TestSpeedByStart(t *testing.T) {
	dir := t.TempDir()
	cfg := quick(func(c *Config) { c.SpeedByStart = []float64{1, 1.5, 2} })
	for i, want := range []string{
		"start 1: every duration times 1\n", "start 2: every duration times 1.5\n",
		"start 3: every duration times 2\n", "start 4: every duration times 1\n",
	} {
		in := start(t, cfg, func(o *Options) {
			o.Getenv = func(name string) string { return map[string]string{"SIM_STATE": dir}[name] }
		})
		in.get(t, "/health")
		if log := in.log.String(); !strings.HasPrefix(log, want) {
			t.Errorf("start %d says %q, want %q", i+1, log, want)
		}
	}
}

// Many processes that start at once each get a number of their own.
func TestStartsAcrossProcesses(t *testing.T) {
	const n = 6
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for range n {
		wg.Go(func() {
			cmd := exec.CommandContext(ctx, exe)
			cmd.Env = append(os.Environ(), childEnv+"=server", "SIM_STATE="+dir,
				serveCfg+`={"speed_by_start":[1,2,3,4,5,6],"exit":{"after":"1ms","code":9}}`)
			out, err := cmd.Output()
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 9 {
				t.Errorf("server process: %v", err)
			}
			first, _, _ := strings.Cut(string(out), "\n")
			mu.Lock()
			defer mu.Unlock()
			seen[first]++
		})
	}
	wg.Wait()
	for i := range n {
		line := fmt.Sprintf("start %d: every duration times %d", i+1, i+1)
		if seen[line] != 1 {
			t.Errorf("%q was said %d times: %v", line, seen[line], seen)
		}
	}
}
