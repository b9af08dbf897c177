package config

import (
	"strings"
	"testing"
)

const metricsWithTolerance = "e2e_p50, e2e_p90, e2e_p95, e2e_p99, goodput, icl_p50, icl_p90, icl_p95, icl_p99, input_tps, " +
	"itl_p50, itl_p90, itl_p95, itl_p99, output_tps, request_tps, stall_p50, stall_p90, stall_p95, stall_p99, tpot_p50, tpot_p90, tpot_p95, tpot_p99, " +
	"ttfo_p50, ttfo_p90, ttfo_p95, ttfo_p99, ttft_p50, ttft_p90, ttft_p95, ttft_p99"

// residentFile asks for servers that stay up on one host, but for their reset; urlFile for two that already run.
const residentFile = "rounds: {mode: resident}\nresident: {share_gpu: true}\n"

func urlFile(base, head string) string {
	return "target:\n  url: {base: \"" + base + "\", head: \"" + head + "\"}\n"
}

// badFiles are the mistakes people make, with the exact answer. A text without a version gets one as its first line.
var badFiles = []struct{ name, text, want string }{
	{"empty", "\n", "1:1: the file is empty; begin with: version: 1"},
	{"only comments", "# nothing\n", "1:1: the file is empty; begin with: version: 1"},
	{"no version", "workload: w\n", "1:1: version: missing; begin with: version: 1"},
	{"newer version", "version: 2\n", "1:10: version: 2 is not known; this tailgate reads version 1"},
	{"version as text", "version: one\n", "1:10: version: \"one\" is not a whole number"},
	{"a list", "- version: 1\n", "1:1: the file is a list, not a section; write a section with: version, gate, target, arms, workload, load, warmup, rounds, reset, resident, conditioning, cooldown, slo, tolerance, drift, verdict, telemetry, baseline"},
	{"two documents", "version: 1\n---\nversion: 1\n", "2:1: the file has more than one document; remove what follows the line ---"},
	{"broken flow", "version: 1\nload: {measure: 6m\n", "2:7: not YAML: could not find flow mapping end token '}'"},
	{"brackets", strings.Repeat("[", 60_000), "1:33: more than 32 brackets within each other; the format needs four"},
	{"tab", "version: 1\nload:\n\tmeasure: 6m\n", "3:1: not YAML: found character '\\t' that cannot start any token"},

	{"unknown section", "loads: {}\n", "2:1: unknown key \"loads\"; did you mean \"load\"? allowed here: version, gate, target, arms, workload, load, warmup, rounds, reset, resident, conditioning, cooldown, slo, tolerance, drift, verdict, telemetry, baseline"},
	{"unknown key", "load: {mesure: 6m}\n", "2:8: load: unknown key \"mesure\"; did you mean \"measure\"? allowed here: scale, measure, concurrency, think, max_in_flight, http2, self_test, limits"},
	{"key far from any", "rounds: {quantity: 4}\n", "2:10: rounds: unknown key \"quantity\"; allowed here: min, max, max_void, mode"},
	{"deep unknown key", "target:\n  ready:\n    route: /health\n", "4:5: target.ready: unknown key \"route\"; allowed here: path, timeout"},
	{"key of a later version", "telemetry: {sensors: []}\n", "2:13: telemetry: unknown key \"sensors\"; allowed here: gpu, interval, nvml, expect_gpu"},
	{"hostile key", "\"a\\u001b[31m\\nb\": 1\n", "2:1: unknown key \"a\\x1b[31m\\nb\"; allowed here: version, gate, target, arms, workload, load, warmup, rounds, reset, resident, conditioning, cooldown, slo, tolerance, drift, verdict, telemetry, baseline"},
	{"twice", "workload: a\nload: {}\nworkload: b\n", "4:1: key \"workload\" is given twice; the first is in line 2"},
	{"twice in flow", "rounds: {min: 4, min: 5}\n", "2:18: rounds: key \"min\" is given twice; the first is in line 2"},
	{"merge key", "load:\n  <<: {measure: 6m}\n", "3:3: load: unknown key \"<<\"; allowed here: scale, measure, concurrency, think, max_in_flight, http2, self_test, limits"},
	{"anchor", "load: &l {measure: 6m}\n", "2:7: load: anchors, aliases and tags are not read; write the value out"},

	{"duration without unit", "load: {measure: 6}\n", "2:17: load.measure: 6 has no unit; write a number with a unit of ms, s, m or h, such as 250ms, 10s or 6m"},
	{"duration in days", "load: {measure: 1d}\n", "2:17: load.measure: \"1d\" is not a duration; write a number with a unit of ms, s, m or h, such as 250ms, 10s or 6m"},
	{"duration as list", "load: {measure: [6m]}\n", "2:17: load.measure is a list, not a duration; write a number with a unit of ms, s, m or h, such as 250ms, 10s or 6m"},
	{"percentage without sign", "warmup: {band: 0.05}\n", "2:16: warmup.band: 0.05 has no unit; write a number with a percent sign, such as 5% or 0.1%"},
	{"slo without unit", "slo: {ttft_p99: 800}\n", "2:17: slo.ttft_p99: 800 has no unit; write a number with a unit of ms, s, m or h, such as 250ms, 10s or 6m"},
	{"slo in the wrong unit", "slo: {error_rate: 10ms}\n", "2:19: slo.error_rate: \"10ms\" is not a percentage; write a number with a percent sign, such as 5% or 0.1%"},
	{"slo of throughput", "slo: {output_tps: 1800}\n", "2:19: slo.output_tps: 1800 has no unit; write a number per second, such as 40/s"},
	{"absolute in the wrong unit", "tolerance: {output_tps: {absolute: 5ms}}\n", "2:36: tolerance.output_tps.absolute: \"5ms\" is not a rate; write a number per second, such as 40/s"},

	{"text for a section", "load: fast\n", "2:7: load is a single value, not a section; write a section with: scale, measure, concurrency, think, max_in_flight, http2, self_test, limits"},
	{"section for text", "workload: {path: w}\n", "2:11: workload is a section, not text"},
	{"text for a list", "target: {outputs: bin}\n", "2:19: target.outputs is a single value, not a list; write [one, two]"},
	{"section in a list", "target: {outputs: [{a: b}]}\n", "2:20: target.outputs[0] is a section, not text; put it in quotes"},
	{"text for a number", "rounds: {min: four}\n", "2:15: rounds.min: \"four\" is not a whole number"},
	{"fraction for a number", "rounds: {min: 4.5}\n", "2:15: rounds.min: \"4.5\" is not a whole number"},
	{"unknown key of git", "target: {git: {submodule: true}}\n", "2:16: target.git: unknown key \"submodule\"; did you mean \"submodules\"? allowed here: lfs, submodules"},
	{"text for a boolean", "telemetry: {expect_gpu: maybe}\n", "2:25: telemetry.expect_gpu: \"maybe\" is neither true nor false"},
	{"not a choice", "telemetry: {gpu: auto}\n", "2:18: telemetry.gpu: \"auto\" is not a choice; write required, optional or off"},
	{"empty variable", "target:\n  env:\n    MODEL:\n", "4:5: target.env.MODEL is empty, not text; put it in quotes; \"\" is an empty value"},

	{"scaled load", "load: {scale: 2}\n", "2:15: load.scale: 2 would not be the workload its digest names; build a workload at that scale with tailgate workload build, and leave 1 here"},
	{"scale nan", "load: {scale: .nan}\n", "2:15: load.scale: \".nan\" is not a number"},
	{"short measure", "load: {measure: 500ms}\n", "2:17: load.measure: 500ms is too short; the shortest is 1s"},
	{"short self-test", "load: {self_test: 100ms}\n", "2:19: load.self_test: 100ms is too short to measure anything; write 200ms or more, or 0s to skip it"},
	{"negative concurrency", "load: {concurrency: -1}\n", "2:21: load.concurrency: -1 is out of range; write 0 to 60000"},
	{"closed loop with a cap", "load: {concurrency: 8, max_in_flight: 4}\n", "2:39: load.max_in_flight: a closed loop of 8 slots never has more requests in flight; leave out one of load.concurrency and load.max_in_flight"},
	{"closed loop at a scale", "load: {concurrency: 8, scale: 1.0}\n", "2:31: load.scale: a closed loop has no arrival rate to scale: its slots send as fast as the service answers; leave out one of load.concurrency and load.scale"},
	{"thinking open loop", "load: {think: 1s}\n", "2:15: load.think: an open loop has no slots that rest; set load.concurrency, or leave load.think out"},
	{"endless thought", "load: {concurrency: 8, think: 6m}\n", "2:31: load.think: 6m is not shorter than load.measure 6m: each slot would send once; shorten it or lengthen load.measure"},
	{"no drain", "load: {limits: {drain: 0s}}\n", "2:24: load.limits.drain: 0s would cut every request that is open when the interval ends; write how long the last ones may take, or leave it out"},
	{"drain at the slo", "load: {limits: {drain: 20s}}\nslo: {e2e_p95: 20s}\n", "3:16: slo.e2e_p95: 20s is not below load.limits.drain 20s, which cuts the requests it is about; raise load.limits.drain above it"},
	{"progress limit at the slo", "slo: {ttft_p99: 61s}\n", "2:17: slo.ttft_p99: 1m1s is not below load.limits.no_progress 1m, which cuts the requests it is about; raise load.limits.no_progress above it"},
	{"short window", "warmup: {window: 99ms}\n", "2:18: warmup.window: 99ms is too short; the shortest is 100ms"},
	{"one window", "warmup: {windows: 1}\n", "2:19: warmup.windows: 1 is out of range; write 2 to 1000"},
	{"short trend", "warmup: {windows: 12}\n", "2:9: warmup.trend_windows: 10 is less than warmup.windows 12; the trend is taken over at least as many windows"},
	{"wide band", "warmup: {band: 60%}\n", "2:16: warmup.band: 60% is out of range; write above 0% and at most 50%"},
	{"unreachable cap", "warmup: {cap: 90s}\n", "2:15: warmup.cap: 1m30s ends before steady state can be confirmed; 10 windows of 10s are needed"},
	{"overflowing window", "warmup: {window: 2000000h}\n", "2:9: warmup.cap: 10m ends before steady state can be confirmed; 10 windows of 2000000h are needed"},
	{"two pairs", "rounds: {min: 2}\n", "2:15: rounds.min: 2 is out of range; write 3 to 12"},
	{"max below min", "rounds: {min: 6, max: 4}\n", "2:23: rounds.max: 4 is less than rounds.min 6; write 6 to 12"},
	{"too many pairs", "rounds: {max: 14}\n", "2:15: rounds.max: 14 is out of range; write 4 to 12"},
	{"negative void", "rounds: {max_void: -1}\n", "2:20: rounds.max_void: -1 is out of range; write 0 to 100"},
	{"zero slo", "slo: {ttft_p99: 0s}\n", "2:17: slo.ttft_p99: 0s is not a limit; write more than 0"},
	{"slo over 100 %", "slo: {error_rate: 101%}\n", "2:19: slo.error_rate: 101% is out of range; write at most 100%"},
	{"limit at the slo", "load: {limits: {first_event: 800ms}}\nslo: {ttft_p99: 800ms}\n", "3:17: slo.ttft_p99: 800ms is not below load.limits.first_event 800ms, which cuts the requests it is about; raise load.limits.first_event above it"},
	{"unknown slo", "slo: {ttft_p98: 1s}\n", "2:7: slo: unknown key \"ttft_p98\"; did you mean \"ttft_p90\"? allowed here: e2e_p50, e2e_p90, e2e_p95, e2e_p99, error_rate, goodput, " + metricsWithTolerance[len("e2e_p50, e2e_p90, e2e_p95, e2e_p99, goodput, "):]},
	{"unknown metric", "tolerance: {throughput: 5%}\n", "2:13: tolerance: unknown key \"throughput\"; allowed here: " + metricsWithTolerance},
	{"tolerance of errors", "tolerance: {error_rate: 5%}\n", "2:13: tolerance: error_rate takes no tolerance: failures are always judged; set an absolute limit as slo.error_rate"},
	{"nothing gated", "tolerance: {}\n", "2:12: tolerance: no metric is gated; name at least one, or leave the section out for the default list"},
	{"zero tolerance", "tolerance: {ttft_p50: 0%}\n", "2:23: tolerance.ttft_p50: 0% is out of range; write above 0% and below 100%"},
	{"tolerance of 100 %", "tolerance: {ttft_p50: {relative: 100%}}\n", "2:23: tolerance.ttft_p50: 100% is out of range; write above 0% and below 100%"},
	{"tolerance as a list", "tolerance: {ttft_p50: [5%]}\n", "2:23: tolerance.ttft_p50 is a list, not a percentage; write a number with a percent sign, such as 5% or 0.1%"},
	{"wide drift", "drift: {max_base: 51%}\n", "2:19: drift.max_base: 51% is out of range; write above 0% and at most 50%"},
	{"lax alpha", "verdict: {alpha: 20%}\n", "2:18: verdict.alpha: 20% is out of range; write above 0% and at most 10%"},
	{"calibration without a name", "verdict: {calibration: \"\"}\n", "2:24: verdict.calibration: names no file; write the path of a calibration.json, or off"},
	{"fast telemetry", "telemetry: {interval: 100ms}\n", "2:23: telemetry.interval: 100ms is too short; the shortest is 200ms"},
	{"variable name", "target: {env: {MY-VAR: x}}\n", "2:16: target.env.MY-VAR: not the name of a variable; use letters, digits and _"},
	{"port variable", "arms: {head: {env: {PORT: 80}}}\n", "2:21: arms.head.env.PORT: is set by tailgate; use $PORT in target.start, or fix it with target.port"},
	{"hasty arm", "arms: {head: {ready: {timeout: 10ms}}}\n", "2:32: arms.head.ready.timeout: 10ms is too short; write 1s or more"},
	{"value in pass_env", "target: {pass_env: [\"A=b\"]}\n", "2:21: target.pass_env[0]: \"A=b\" is not the name of a variable; list names only; values come from the caller's environment"},
	{"relative health path", "target: {ready: {path: health}}\n", "2:24: target.ready.path: \"health\" is not a path; begin it with /"},
	{"reset beside restarts", "reset: none\n", "2:8: reset: each round has a fresh server, which forgets more than a reset; leave reset out, or set rounds.mode: resident or target.url"},
	{"reset in another word", "reset: never\n", "2:8: reset: \"never\" is not a choice; write none, or a section with: method, path, expect"},
	{"reset without a path", "rounds: {mode: resident}\nresident: {share_gpu: true}\nreset: {method: POST}\n", "4:8: reset: names no path; write path: /reset_prefix_cache, or reset: none"},
	{"reset at no path", residentFile + "reset: {path: reset}\n", "4:15: reset.path: \"reset\" is not a path; begin it with /"},
	{"reset with a failure", residentFile + "reset: {path: /r, expect: {status: 404}}\n", "4:36: reset.expect.status: 404 is out of range; write 200 to 299"},
	{"resident nowhere", "rounds: {mode: resident}\nreset: {path: /r}\n", "2:16: rounds.mode: resident servers live side by side, and nothing says where; write resident: {share_gpu: true} for one GPU or host, or a set of GPUs for each under resident.gpus"},
	{"resident without its mode", "resident: {share_gpu: true}\n", "2:11: resident: says where servers live that do not stay up; set rounds.mode: resident, or leave resident out"},
	{"resident on two kinds of places", "rounds: {mode: resident}\nresident: {share_gpu: true, gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}\n", "3:23: resident.share_gpu: true, and resident.gpus names a set for each; leave one of them out"},
	{"uneven sets", "rounds: {mode: resident}\nresident: {gpus: {base: [GPU-a]}}\nreset: {path: /r}\n", "3:18: resident.gpus: base has 1, head 0; name as many for each"},
	{"one GPU twice", "rounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-a]}}\nreset: {path: /r}\n", "3:18: resident.gpus: one GPU is in both sets; write resident: {share_gpu: true} if the servers share it"},
	{"sets and a variable", "target: {env: {CUDA_VISIBLE_DEVICES: 0}}\nrounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}\n", "4:18: resident.gpus: CUDA_VISIBLE_DEVICES is set in target.env too; leave it out there: it is set from these"},
	{"sets and a variable of an arm", "arms: {head: {env: {HIP_VISIBLE_DEVICES: 0}}}\nrounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}\n", "4:18: resident.gpus: HIP_VISIBLE_DEVICES is set in arms.head.env too; leave it out there: it is set from these"},
	{"three resident pairs", "rounds: {mode: resident, min: 3}\nresident: {share_gpu: true}\nreset: {path: /r}\n", "2:31: rounds.min: 3 is too few for resident servers; write 4 or more"},
	{"resident without a reset", "version: 1\n" + residentFile, "1:1: reset: resident servers keep their caches from round to round; name the call that empties them, as in reset: {method: POST, path: /reset_prefix_cache, expect: {json: {success: true}}}"},
	{"resident with no reset", residentFile + "reset: none\n", "4:8: reset: resident servers keep their caches from round to round; name the call that empties them, as in reset: {method: POST, path: /reset_prefix_cache, expect: {json: {success: true}}}"},
	{"two servers on one port", residentFile + "reset: {path: /r}\ntarget: {port: 8000}\n", "5:16: target.port: two servers that are up at once cannot have one port; leave it out and use $PORT"},
	{"long resident warm-up", residentFile + "reset: {path: /r}\nwarmup: {window: 13s, cap: 10m}\n", "5:18: warmup.window: 10 windows of 13s are longer than the 2m that a server which stays up may warm up; shorten the windows"},
	{"one URL", "target: {url: {base: \"http://a\"}}\nreset: none\n", "2:15: target.url.head: missing; give the addresses of both servers"},
	{"no URL", urlFile("a:8000", "http://b") + "reset: none\n", "3:15: target.url.base: is no http or https URL with a host; write one such as http://127.0.0.1:8000"},
	{"URL with a secret", urlFile("http://a", "http://user:hunter2@b") + "reset: none\n", "3:33: target.url.head: holds credentials, which do not belong into a file; leave out what stands before the @"},
	{"URL of a file", urlFile("file:///etc/passwd", "http://b") + "reset: none\n", "3:15: target.url.base: is no http or https URL with a host; write one such as http://127.0.0.1:8000"},
	{"one server", urlFile("http://localhost:8000/", "http://127.0.0.1:8000?k=v") + "reset: none\n", "3:8: target.url: base and head are the same server: nothing to compare; name two, or measure one with tailgate load"},
	{"URL without a reset", urlFile("http://a", "http://b"), "3:8: target.url: servers that stay up keep their caches from round to round, and nothing says how they forget; name the call as reset: {path: /reset_prefix_cache, expect: {json: {success: true}}}, or write reset: none"},
	{"URL and a stop command", urlFile("http://a", "http://b") + "  stop_command: docker stop x\nreset: none\n", "4:17: target.stop_command: servers that already run are not built, started or stopped; leave it out beside target.url"},
	{"URL and a toolchain", urlFile("http://a", "http://b") + "  toolchain: [gcc --version]\nreset: none\n", "4:14: target.toolchain: servers that already run are not built, started or stopped; leave it out beside target.url"},
	{"URL and a start", urlFile("http://a", "http://b") + "  start: ./server\nreset: none\n", "4:10: target.start: servers that already run are not built, started or stopped; leave it out beside target.url"},
	{"URL and a mode", urlFile("http://a", "http://b") + "reset: none\nrounds: {mode: restart}\n", "5:16: rounds.mode: servers that already run stay up; leave it out beside target.url"},
	{"URL and arms", urlFile("http://a", "http://b") + "reset: none\narms: {head: {args: [-x]}}\n", "5:7: arms: servers that already run take no arguments; leave it out beside target.url"},
	{"runner's variable in pass_env", "target: {pass_env: [HF_HOME, GITHUB_TOKEN]}\n", "2:30: target.pass_env[1]: GITHUB_TOKEN never reaches a build or a server; give the service a variable of another name"},
	{"compile cache with a value", "target: {cache_env: [\"A=/tmp\"]}\n", "2:22: target.cache_env[0]: \"A=/tmp\" is not the name of a variable; list names only; tailgate makes the folders"},
	{"compile cache of ours", "target: {cache_env: [TMPDIR]}\n", "2:22: target.cache_env[0]: TMPDIR is set otherwise; name the variable of a compile cache"},
	{"compile cache twice", "target: {cache_env: [A, A]}\n", "2:25: target.cache_env[1]: A is listed twice; leave one of them out"},
	{"compile cache set elsewhere", "target: {cache_env: [A], env: {A: /tmp}}\n", "2:22: target.cache_env[0]: A is set by target.env too; leave it out of one of them"},
	{"compile cache set by an arm", "target: {cache_env: [A]}\narms: {head: {env: {A: /tmp}}}\n", "2:22: target.cache_env[0]: A is set by arms.head.env too; leave it out of one of them"},
	{"relative build cache", "baseline: {cache: ~/builds}\n", "2:19: baseline.cache: \"~/builds\" is not an absolute path: it would be another folder in each checkout; begin it with /; ~ and variables are not expanded"},
	{"protected without a cache", "baseline: {protected: [main]}\n", "2:23: baseline.protected: there is no cache to protect; set baseline.cache, or leave it out"},
	{"protected ref", "baseline: {cache: /c, protected: [refs/heads/main]}\n", "2:35: baseline.protected[0]: \"refs/heads/main\" is not the name of a branch; write it without refs/heads/, as in main"},
	{"hasty memory", "target: {stop: {memory_timeout: 500ms}}\n", "2:33: target.stop.memory_timeout: 500ms is too short; the shortest is 1s"},
	{"stop that is not clean", "target: {stop: {required: tidy}}\n", "2:27: target.stop.required: \"tidy\" is not a choice; write any or clean"},
	{"container without an end", "target: {start: docker run --rm image}\n", "2:17: target.start: starts a container, which outlives its client; add target.stop_command, such as: docker stop tailgate-$PORT; see targets.md"},
	{"pids without an end", "target: {start: ./server, pids: pgrep server}\n", "2:33: target.pids: names processes that tailgate did not start and cannot stop; add target.stop_command, which ends them"},
	{"no GPU at all", "target: {gpus: []}\n", "2:16: target.gpus: names no GPU; list UUIDs, or leave it out for those of CUDA_VISIBLE_DEVICES, else all"},
	{"GPUs by number", "target: {gpus: [GPU-a, 1]}\n", "2:24: target.gpus[1]: 1 is a number, and which GPU has it depends on who counts; write its UUID, as nvidia-smi -L prints it: GPU-…"},
	{"quoted number", "target: {gpus: [\"0\"]}\n", "2:17: target.gpus[0]: 0 is a number, and which GPU has it depends on who counts; write its UUID, as nvidia-smi -L prints it: GPU-…"},
	{"numbers in one word", "target: {gpus: [\"0,1\"]}\n", "2:17: target.gpus[0]: \"0,1\" is not the UUID of a GPU; write one per entry, as nvidia-smi -L prints it: GPU-… or MIG-…"},
	{"GPU of another form", "target: {gpus: [all]}\n", "2:17: target.gpus[0]: \"all\" is not the UUID of a GPU; write one per entry, as nvidia-smi -L prints it: GPU-… or MIG-…"},
	{"GPU with a space", "target: {gpus: [GPU-a b]}\n", "2:17: target.gpus[0]: \"GPU-a b\" is not the UUID of a GPU; write one per entry, as nvidia-smi -L prints it: GPU-… or MIG-…"},
	{"a GPU named twice", "target: {gpus: [GPU-a, GPU-b, GPU-a]}\n", "2:31: target.gpus[2]: GPU-a is listed twice; leave one of them out"},
	{"GPUs as a word", "target: {gpus: GPU-a}\n", "2:16: target.gpus is a single value, not a list; write [one, two]"},
	{"GPUs and sets of them", "target: {gpus: [GPU-a]}\nrounds: {mode: resident}\nresident: {gpus: {base: [GPU-a], head: [GPU-b]}}\nreset: {path: /r}\n", "2:16: target.gpus: resident.gpus names a set for each server; leave one of them out"},
	{"GPUs and a variable", "target: {gpus: [GPU-a], env: {CUDA_VISIBLE_DEVICES: 0}}\n", "2:16: target.gpus: CUDA_VISIBLE_DEVICES is set in target.env too; leave it out there: it is set from these"},
	{"GPUs and an arm's variable", "target: {gpus: [GPU-a]}\narms: {head: {env: {ROCR_VISIBLE_DEVICES: \"\"}}}\n", "2:16: target.gpus: ROCR_VISIBLE_DEVICES is set in arms.head.env too; leave it out there: it is set from these"},
	{"GPUs and running servers", urlFile("http://a", "http://b") + "  gpus: [GPU-a]\nreset: none\n", "4:9: target.gpus: servers that already run are not built, started or stopped; leave it out beside target.url"},
	{"port", "target: {port: 70000}\n", "2:16: target.port: 70000 is out of range; write 0 to 65535"},
}

func TestBadFiles(t *testing.T) {
	for _, c := range badFiles {
		t.Run(c.name, func(t *testing.T) {
			text := c.text
			if !strings.HasPrefix(c.want, "1:") && !strings.HasPrefix(text, "version") {
				text = "version: 1\n" + text
			}
			f, err := Parse("f", []byte(text))
			if err == nil {
				t.Fatalf("accepted as %+v", f)
			}
			if got := err.Error(); got != "f:"+c.want {
				t.Errorf("\n got %s\nwant f:%s", got, c.want)
			}
		})
	}
}

func TestBigFileIsRefused(t *testing.T) {
	_, err := Parse("f", []byte(strings.Repeat("#", maxBytes+1)))
	if want := "f:1:1: the file has 65537 bytes; at most 65536 are read"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNearest(t *testing.T) {
	allowed := []string{"measure", "limits", "scale"}
	for word, want := range map[string]string{"measured": "measure", "limit": "limits", "scal": "scale", "xyz": "", "": "", "a": ""} {
		if got := nearest(word, allowed); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
	if got := edits("kitten", "sitting"); got != 3 {
		t.Errorf("edits = %d, want 3", got)
	}
}
