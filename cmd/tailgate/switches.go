package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tailgate-ci/tailgate/runner/record"
)

// noteSwitches puts on record in what two arms of one build differ. More than one difference is a note: what was measured
// cannot be put down to one of them.
func noteSwitches(run *record.Run, base, head arm) {
	variables := differing(base.env, head.env, func(a, b string) bool { return a == b })
	run.Arms.Base.EnvDiffers, run.Arms.Head.EnvDiffers = only(variables, base.env), only(variables, head.env)
	switches := differing(options(base.args), options(head.args), slices.Equal[[]string])
	for _, name := range variables {
		switches = append(switches, "env "+name)
	}
	if len(switches) > 1 {
		run.Notes = append(run.Notes, record.Note{ID: "several_switches", Text: fmt.Sprintf(
			"the arms differ in %d switches (%s): a difference cannot be put down to one of them", len(switches), strings.Join(switches, ", "))})
	}
}

// differing lists the keys, sorted, that one map lacks or that the maps hold otherwise.
func differing[V any](a, b map[string]V, same func(V, V) bool) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		x, inA := a[key]
		y, inB := b[key]
		if !inA || !inB || !same(x, y) {
			keys = append(keys, key)
		}
	}
	return keys
}

// only keeps the names that env has.
func only(names []string, env map[string]string) []string {
	var kept []string
	for _, name := range names {
		if _, ok := env[name]; ok {
			kept = append(kept, name)
		}
	}
	return kept
}

// negative is a number that looks like an option.
var negative = regexp.MustCompile(`^-[0-9.]`)

// options groups arguments by the option they belong to: --x 1, --x=1 and --no-x are all of x, as one switch is written in
// different ways. Words before the first option have no name and stand for themselves together.
func options(args []string) map[string][]string {
	groups := map[string][]string{}
	name := "words"
	for _, word := range args {
		if strings.HasPrefix(word, "-") && !negative.MatchString(word) && strings.Trim(word, "-") != "" {
			option, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			for _, prefix := range []string{"no-", "disable-", "enable-"} {
				option = strings.TrimPrefix(option, prefix)
			}
			name = "--" + option
		}
		groups[name] = append(groups[name], word)
	}
	return groups
}
