package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tailgate-ci/tailgate/runner/client"
	"github.com/tailgate-ci/tailgate/runner/record"
)

// probeFlags are what `tailgate probe` takes from the command line.
type probeFlags struct {
	api              apiFlags
	body             string
	headers, limits  []string
	noStream, asJSON bool
}

func (a *app) probeCommand() *cobra.Command {
	var fl probeFlags
	cmd := &cobra.Command{
		Use:   "probe URL",
		Short: "Send one request and explain what the client saw",
		Long: `probe sends exactly one request and says how it ended, when which byte came, how many tokens there were and who says so. It is
the first thing to try when a service looks odd. A URL with a path is used as it is. Exit 0: the request was ok; 1: any other
outcome; 2: usage.`,
		Example: `  tailgate probe http://127.0.0.1:8000
  echo '{"messages":[{"role":"user","content":"hi"}],"max_tokens":8}' | tailgate probe http://127.0.0.1:8000 --body -
  tailgate probe http://127.0.0.1:11434 --dialect ollama --model llama3.2
  tailgate probe http://127.0.0.1:8000 --limit first_event=2s --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.probe(cmd.Context(), args[0], fl) },
	}
	f := cmd.Flags()
	fl.api.register(f)
	f.StringVar(&fl.body, "body", "", "file with a JSON object to send, merged with what the dialect must set; - for standard input")
	f.StringArrayVar(&fl.headers, "header", nil, "header to send, 'Name: value'; repeatable")
	f.StringArrayVar(&fl.limits, "limit", nil, "limit on the request: first_event=2s, idle=, total= or no_progress=; repeatable")
	f.BoolVar(&fl.noStream, "no-stream", false, "ask for the answer in one piece")
	f.BoolVar(&fl.asJSON, "json", false, "print one JSON object; times in ms from the sent request")
	return cmd
}

func (a *app) probe(ctx context.Context, url string, fl probeFlags) error {
	if err := fl.api.check(); err != nil {
		return err
	}
	header, err := parseHeaders(fl.headers)
	if err != nil {
		return usage(err, "")
	}
	limits, err := parseLimits(fl.limits)
	if err != nil {
		return usage(err, "")
	}
	body, err := readBody(fl.body)
	if err != nil {
		return usage(err, "")
	}
	sample, trace, err := client.Once(ctx, client.Options{
		URL: url, Dialect: fl.api.dialect, Model: fl.api.model, Settings: fl.api.settings, Limits: limits, Clock: record.NewClock(),
		Header: header, NoStream: fl.noStream, HTTP2: fl.api.http2,
	}, body, !fl.noStream)
	if err != nil {
		return usage(err, "a server is named like http://127.0.0.1:8000, its dialect with --dialect")
	}
	if fl.asJSON {
		text, err := client.ProbeJSON(sample, trace)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "%s", text)
	} else if err := client.ProbeText(a.out, sample, trace); err != nil {
		return err
	}
	if sample.Class != record.OK {
		return &exitError{code: probeNotOK}
	}
	return nil
}

// probeNotOK is the exit code of a probe whose request failed.
const probeNotOK = 1

// parseLimits reads name=duration pairs over the default limits.
func parseLimits(pairs []string) (record.Limits, error) {
	l := record.DefaultLimits()
	names := map[string]*time.Duration{
		"first_event": &l.FirstEvent, "idle": &l.Idle, "total": &l.Total, "no_progress": &l.NoProgress, "dial": &l.Dial,
	}
	for _, pair := range pairs {
		name, text, _ := strings.Cut(pair, "=")
		limit, ok := names[name]
		if !ok {
			return l, fmt.Errorf("--limit %q: want dial, first_event, idle, total or no_progress, as in first_event=2s", pair)
		}
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return l, fmt.Errorf("--limit %q: %q is not a duration such as 2s", pair, text)
		}
		*limit = d
	}
	return l, nil
}

func readBody(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	if path == "-" {
		path = "/dev/stdin"
	}
	return os.ReadFile(path)
}
