package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	tailgate "github.com/tailgate-ci/tailgate"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// tool is this build of tailgate, for the record.
func tool() record.Tool {
	t := record.Tool{Version: strings.TrimSpace(tailgate.Version)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				t.Commit = s.Value
			}
		}
	}
	return t
}

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			t := tool()
			if asJSON {
				return json.NewEncoder(a.out).Encode(t)
			}
			_, err := fmt.Fprintf(a.out, "tailgate %s %s/%s %s\n", t.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
