package main

import (
	"net/url"
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

// maskURL hides what a URL may carry beyond an address: userinfo and the values of its query.
func maskURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	if u.User != nil {
		u.User = url.User("***")
	}
	q := u.Query()
	for key := range q {
		q.Set(key, "***")
	}
	u.RawQuery = q.Encode()
	return u.String()
}
