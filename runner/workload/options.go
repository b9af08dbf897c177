package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Options say what to make of a source. The zero value keeps every row as it is.
type Options struct {
	// Name and Version identify the workload; Version 0 means 1.
	Name        string
	Version     int
	Description string
	// Created is an RFC 3339 time for people, or empty.
	Created string
	Licence string
	// Attribution says whom to name with the data.
	Attribution string
	// Seed is the only seed; all draws are derived from it.
	Seed uint64
	// Dialect is the API the prompts are shaped for; empty means openai-chat.
	Dialect string
	// Output is the output mode; empty means Force.
	Output OutputMode

	// MaxBad is how many bad rows are left out and counted before the import stops.
	MaxBad int
	// StrictOrder refuses rows that are out of order of time instead of sorting them.
	StrictOrder bool

	// From and Length cut a stretch of time out of the source; Length 0 means to the end.
	From, Length time.Duration
	// Sample is the share of groups kept, a decimal in (0, 1]; empty means all.
	Sample string
	// SampleBy is "conversation" (whole groups, the default) or "requests" (single turns; breaks prefixes).
	SampleBy string
	// MaxInput drops longer prompts, MaxTurns all turns after so many; MaxOutput shortens longer answers. 0 means no limit.
	MaxInput, MaxOutput, MaxTurns int

	// Dequantise is "uniform" to spread arrivals inside the source's ticks; empty replays them literally.
	Dequantise string
	// Stretch divides offsets, a decimal: "2" replays in half the time. Poisson replaces arrivals by a Poisson process of so
	// many requests per second, a decimal. Empty leaves arrivals alone; only one may be given.
	Stretch, Poisson string

	// AcceptFidelity names the measures that may differ beyond what the build refuses; "all" accepts every one.
	AcceptFidelity []string
}

func (o *Options) check() error {
	switch {
	case o.MaxBad < 0 || o.MaxInput < 0 || o.MaxOutput < 0 || o.MaxTurns < 0 || o.From < 0 || o.Length < 0:
		return fmt.Errorf("a limit cannot be negative")
	case !oneOf(o.SampleBy, "", "conversation", "requests"):
		return fmt.Errorf("sample by %q: want conversation or requests", clip(o.SampleBy, 40))
	case !oneOf(o.Dequantise, "", "uniform"):
		return fmt.Errorf("dequantise %q: want uniform", clip(o.Dequantise, 40))
	case o.Stretch != "" && o.Poisson != "":
		return fmt.Errorf("stretch and poisson exclude each other")
	}
	for name, s := range map[string]string{"sample": o.Sample, "stretch": o.Stretch, "poisson": o.Poisson} {
		if s == "" {
			continue
		}
		n, err := parseDecimal(s)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if n == 0 || name == "sample" && n > 1_000_000 {
			return fmt.Errorf("%s: %s is out of range", name, s)
		}
	}
	return nil
}

// record lists every option that was given, for the manifest.
func (o *Options) record() map[string]string {
	m := map[string]string{}
	put := func(name, value string) {
		if value != "" && value != "0" && value != "0s" && value != "false" {
			m[name] = value
		}
	}
	put("seed", strconv.FormatUint(o.Seed, 10))
	put("max_bad", strconv.Itoa(o.MaxBad))
	put("strict_order", strconv.FormatBool(o.StrictOrder))
	put("from", o.From.String())
	put("length", o.Length.String())
	put("sample", o.Sample)
	put("sample_by", o.SampleBy)
	put("max_input", strconv.Itoa(o.MaxInput))
	put("max_output", strconv.Itoa(o.MaxOutput))
	put("max_turns", strconv.Itoa(o.MaxTurns))
	put("dequantise", o.Dequantise)
	put("stretch", o.Stretch)
	put("poisson", o.Poisson)
	put("accept_fidelity", strings.Join(slices.Sorted(slices.Values(o.AcceptFidelity)), ", "))
	return m
}
