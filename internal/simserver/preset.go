package simserver

import "time"

// Default is a healthy server: 48 prefill lanes at 0.2 ms a token, decode steps of 5 ms plus 0.02 ms a sequence, at most
// 256 requests at once, no prefix cache, answers exactly as long as their limit.
func Default() Config {
	return Config{
		Model: "sim",
		Engine: Engine{
			Lanes:           48,
			PrefillPerToken: Duration(200 * time.Microsecond),
			DecodeBase:      Duration(5 * time.Millisecond),
			DecodePerSeq:    Duration(20 * time.Microsecond),
			BatchLimit:      256,
			BlockTokens:     16,
			KVTokens:        1 << 20,
			StateEnv:        "SIM_STATE",
		},
		Output: Output{DefaultTokens: 16, TokensPerEvent: 1, EventsPerWrite: 1},
		Life:   Life{Drain: Duration(2 * time.Second)},
	}
}

// Demo is the server that `tailgate demo` measures. Under its workload (Poisson arrivals at 400/s, prompts lognormal
// with mean 300 tokens and sigma 0.4, answers of 4 to 12 tokens) about 24 lanes are busy and nothing queues, so the time
// to the first token is prefill plus half a decode step: median near 59 ms. Service times of tens of milliseconds
// without queueing are what makes two identical builds measure alike.
//
// The figures are spelled out although today they equal [Default]: the demo's verdicts depend on them. Its slow build
// raises PrefillPerToken by a fifth; its noisy one sets SpeedByStart to 1, 1.4, 1.4, 1.
func Demo() Config {
	c := Default()
	c.Seed = 1
	c.Lanes = 48
	c.PrefillPerToken = Duration(200 * time.Microsecond)
	c.DecodeBase = Duration(5 * time.Millisecond)
	c.DecodePerSeq = Duration(20 * time.Microsecond)
	c.BatchLimit = 256
	c.CacheBlocks = 0
	return c
}
