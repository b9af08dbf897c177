package main

import (
	"os"
	"path/filepath"

	"github.com/tailgate-ci/tailgate/gate"
)

// invalidExit is the code of a command that could not measure.
var invalidExit = gate.Exit(gate.Invalid)

// sensor is the path of the GPU sensor: as configured, by TAILGATE_NVML, or beside this binary; empty when there is none.
func (a *app) sensor(configured string) string {
	candidates := []string{configured, a.getenv("TAILGATE_NVML")}
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Join(filepath.Dir(self), "tailgate-nvml"))
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); path != "" && err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
