package config

import (
	"strings"
	"testing"
)

const policy = "version: 1\nworkload: w\nslo: {ttft_p99: 800ms, error_rate: 0.1%}\narms: {head: {args: [--fast], env: {A: b, C: d}}}\n"

func TestDigestIgnoresForm(t *testing.T) {
	want := parse(t, policy).Digest()
	if len(want) != 64 {
		t.Fatalf("digest %q is not 64 hex digits", want)
	}
	for name, text := range map[string]string{
		"comments":          "# ours\n" + policy + "# end\n",
		"block style":       "version: 1\nworkload: \"w\"\nslo:\n  error_rate: 0.10%\n  ttft_p99: 0.8s\narms:\n  head:\n    env:\n      C: d\n      A: b\n    args:\n    - --fast\n",
		"defaults written":  policy + "warmup: {window: 10s, windows: 5}\nrounds: {min: 4, max: 8, max_void: 2}\nload: {scale: 1, limits: {drain: 10m}}\n",
		"empty section":     policy + "drift:\n",
		"a target as well":  policy + "target: {start: ./server, env: {X: y}}\n",
		"a build cache":     policy + "baseline: {cache: /var/cache/tailgate}\n",
		"alpha as its name": policy + "verdict: {alpha: 5.0%}\n",
	} {
		if got := parse(t, text).Digest(); got != want {
			t.Errorf("%s: the digest changed", name)
		}
	}
}

func TestDigestSeesEveryPolicyKey(t *testing.T) {
	seen := map[string]string{parse(t, policy).Digest(): "the policy itself"}
	for _, change := range []string{
		"load: {measure: 5m}", "load: {self_test: 1s}", "load: {limits: {dial: 6s}}", "load: {limits: {no_progress: 6s}}", "warmup: {min: 1s}",
		"warmup: {trend: 4%}", "rounds: {max: 6}", "rounds: {max_void: 3}", "conditioning: {base: 0s}", "cooldown: {pause: 0s}",
		"tolerance: {ttft_p50: 5%}", "tolerance: {ttft_p50: 4%}", "tolerance: {ttft_p50: {absolute: 1ms}}",
		"tolerance: {ttft_p50: {force: true}}", "drift: {max_base: 5%}", "verdict: {alpha: 1%}", "verdict: {fail_margin: full}", "verdict: {multiplicity: holm}",
		"verdict: {slo_burden: proven}", "verdict: {slo_preexisting: fail}", "verdict: {calibration: c.json}", "telemetry: {gpu: off}", "telemetry: {interval: 2s}",
		"rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {path: /r}",
		"rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {path: /s}",
		"rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {path: /r, method: PUT}",
		"rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {path: /r, expect: {status: 204}}",
		"rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {path: /r, expect: {json: {success: true}}}",
		"rounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}",
		"telemetry: {nvml: x}", "telemetry: {expect_gpu: false}",
	} {
		digest := parse(t, policy+change+"\n").Digest()
		if other, twice := seen[digest]; twice {
			t.Errorf("%s has the digest of %s", change, other)
		}
		seen[digest] = change
	}
	for _, change := range [][2]string{{"workload: w", "workload: v"}, {"800ms", "801ms"}, {"--fast", "--slow"}, {"A: b", "A: c"}, {"head:", "base:"}} {
		digest := parse(t, strings.Replace(policy, change[0], change[1], 1)).Digest()
		if other, twice := seen[digest]; twice {
			t.Errorf("%v has the digest of %s", change, other)
		}
		seen[digest] = change[1]
	}
}

func TestMergeTakesTargetFromTheSecond(t *testing.T) {
	tip := parse(t, policy+"target: {start: ./old}\n")
	head, err := Parse("head.yaml", []byte("version: 1\ntarget:\n  build: make\nslo: {ttft_p99: 9s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	merged := Merge(tip, head)
	if merged.Target.Build != "make" || merged.Target.Start != "" || merged.SLO["ttft_p99"] != 800 {
		t.Errorf("merged %+v, slo %v", merged.Target, merged.SLO)
	}
	if merged.Digest() != tip.Digest() {
		t.Error("the target changed the policy digest")
	}
	// The error must point into the file that lacks the key.
	want := "head.yaml:3:3: target.start: missing; name the command that starts the server"
	if err := merged.Runnable(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if tip.Target.Start != "./old" {
		t.Error("Merge changed its argument")
	}
}
