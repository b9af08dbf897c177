// Command benchpeers runs tailgate's client and other load generators against the same server of known truth and prints
// side by side how far each one's figures lie from it.
//
// The server stamps each event just before it writes it and each request as its last byte arrives. What a client reports
// of a run is compared with these stamps of the same run: the error of the mean is the reported mean minus the true one,
// likewise for the 99th percentile. So the server's own lateness is nobody's error. Every client gets a fresh server.
//
// Nothing here is linked into tailgate. The command touches a throw-away folder, the network to install the peers, and
// loopback.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(2)
	}
}

// options are the command line.
type options struct {
	dir       string
	peers     []string
	scenarios []string
	rounds    int
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	var only, scenarios string
	f := flag.NewFlagSet("bench-peers", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.dir, "dir", "", "folder for the peers, kept afterwards and used again (default: a temporary one, removed)")
	f.StringVar(&only, "only", "", "names of peers, separated by commas (default: all; tailgate always runs)")
	f.StringVar(&scenarios, "scenarios", "", "names of scenarios, separated by commas (default: all)")
	f.IntVar(&o.rounds, "rounds", 1, "how often each client runs; the worst of its rounds is printed")
	f.Usage = func() {
		fmt.Fprintln(errs, "usage: scripts/bench-peers [flags]\n\nScenarios:")
		for _, s := range allScenarios() {
			fmt.Fprintf(errs, "  %-11s %s\n", s.name, s.text)
		}
		fmt.Fprintln(errs, "\nPeers:")
		for _, p := range allPeers() {
			fmt.Fprintf(errs, "  %-14s %s\n", p.name, p.source)
		}
		fmt.Fprintln(errs, "\nThe Python peers take some 13 GB and a quarter of an hour to install.\n\nFlags:")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	split := func(list string, known func(string) bool) ([]string, error) {
		if list == "" {
			return nil, nil
		}
		names := strings.Split(list, ",")
		for _, n := range names {
			if !known(n) {
				return nil, fmt.Errorf("%q is not known; see --help", n)
			}
		}
		return names, nil
	}
	var err error
	if o.peers, err = split(only, func(n string) bool {
		return slices.ContainsFunc(allPeers(), func(p peer) bool { return p.name == n })
	}); err != nil {
		return o, err
	}
	if o.rounds < 1 {
		return o, fmt.Errorf("--rounds %d: want 1 or more", o.rounds)
	}
	o.scenarios, err = split(scenarios, func(n string) bool {
		return slices.ContainsFunc(allScenarios(), func(s scenario) bool { return s.name == n })
	})
	return o, err
}

func run(ctx context.Context, args []string, out, errs io.Writer) error {
	o, err := parse(args, errs)
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "bench-peers-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	b := &bench{dir: dir, log: errs, rounds: o.rounds}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	wanted := func(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }
	var peers []peer
	for _, p := range allPeers() {
		if p.ours || wanted(o.peers, p.name) {
			peers = append(peers, p)
		}
	}
	b.install(ctx, peers)
	fmt.Fprintln(out, b.machine())
	for _, s := range allScenarios() {
		if !wanted(o.scenarios, s.name) {
			continue
		}
		rows, err := b.measure(ctx, s, peers)
		if err != nil {
			return err
		}
		table(out, s, rows)
	}
	return nil
}
