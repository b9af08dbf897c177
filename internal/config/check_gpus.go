package config

import (
	"fmt"
	"regexp"
	"slices"
)

// visibility lists the variables that say which GPUs a server sees. They are set, or taken away, from target.gpus.
func visibility() []string {
	return []string{"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}
}

var (
	// deviceUUID is how drivers name a GPU (GPU-…) or a MIG slice of one (MIG-…, of old drivers MIG-GPU-…/1/2).
	deviceUUID = regexp.MustCompile(`^(GPU|MIG)-[A-Za-z0-9]+([-/][A-Za-z0-9]+)*$`)
	wholeIndex = regexp.MustCompile(`^[-+]?[0-9]{1,9}$`)
)

// longestUUID bounds the name of a device, in bytes: as much as a sensor's line may give one.
const longestUUID = 96

// gpuRules hold target.gpus: names that mean the same device in every round, and no second word on which those are.
func (f *File) gpuRules() []rule {
	list := f.Target.GPUs
	rules := []rule{
		{
			"target.gpus", f.target.has("target.gpus") && len(list) == 0, "names no GPU",
			"list UUIDs, or leave it out for those of CUDA_VISIBLE_DEVICES, else all",
		},
		{"target.gpus", len(list) > 0 && f.Resident.GPUs.Present(), "resident.gpus names a set for each server", "leave one of them out"},
	}
	for i, id := range list {
		path := fmt.Sprintf("target.gpus[%d]", i)
		rules = append(
			rules,
			rule{path, wholeIndex.MatchString(id), id + " is a number, and which GPU has it depends on who counts", "write its UUID, as nvidia-smi -L prints it: GPU-…"},
			rule{
				path, len(id) > longestUUID || !deviceUUID.MatchString(id), shown(id) + " is not the UUID of a GPU",
				"write one per entry, as nvidia-smi -L prints it: GPU-… or MIG-…",
			},
			rule{path, slices.Index(list, id) != i, id + " is listed twice", "leave one of them out"},
		)
	}
	if name, where := f.SetsGPUs(); len(list) > 0 && name != "" {
		rules = append(rules, rule{"target.gpus", true, name + " is set in " + where + " too", "leave it out there: it is set from these"})
	}
	return rules
}

// SetsGPUs finds a variable of target.env or of the arms that says which GPUs a server sees, an empty one included: its name
// and the key that sets it. Both are empty when there is none.
func (f *File) SetsGPUs() (name, where string) {
	type setting struct {
		path string
		env  map[string]string
	}
	places := []setting{{"target.env", f.Target.Env}}
	if f.Arms.Base != nil {
		places = append(places, setting{"arms.base.env", f.Arms.Base.Env})
	}
	if f.Arms.Head != nil {
		places = append(places, setting{"arms.head.env", f.Arms.Head.Env})
	}
	for _, p := range places {
		for _, name := range visibility() {
			if has(p.env, name) {
				return name, p.path
			}
		}
	}
	return "", ""
}
