// Command compat runs unmodified Kafka clients against a broker and prints the
// tables scenario x client. It ends with 1 when any cell is red; a client that
// cannot be installed is red, never left out.
//
// It starts a broker of ours (or, with --peer kafka, Apache Kafka; or takes
// --brokers), installs the clients into build/cache, and gives orders to drivers:
// processes in each client's own language that talk to the broker alone
// (clients/README.md). The scenarios are here, and so is the judgement: the runner
// looks at the broker through a client of its own. The clients run in parallel,
// each with topics of its own; the cells that need a restart of the broker run
// last and together. Read main, then suite.run, then trial.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"millrace/bench/peers"
)

type options struct {
	brokers, restart   string
	broker             peers.Choice
	clients, scenarios string
	lanes              int
	limit              time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.brokers, "brokers", "", "test these brokers (host:port,...) and start none")
	flag.StringVar(&o.restart, "restart-command", "", "with --brokers: shell command that restarts the broker; without it the restart column is left out")
	o.broker.Flags(flag.CommandLine, "test")
	flag.StringVar(&o.clients, "clients", "", "only these clients, comma-separated")
	flag.StringVar(&o.scenarios, "scenarios", "", "only these scenarios, comma-separated")
	flag.IntVar(&o.lanes, "lanes", 6, "clients that run at a time")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "time limit of one cell")
	flag.Parse()
	peers.Main("compat", func(ctx context.Context) (bool, error) {
		red, err := run(ctx, o)
		return red == 0, err
	})
}

func run(ctx context.Context, o options) (red int, err error) {
	root, err := peers.Root()
	if err != nil {
		return 0, err
	}
	tables, err := choose(o.clients, o.scenarios)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	logs := filepath.Join(root, "build", "compat")
	if err := os.RemoveAll(logs); err != nil {
		return 0, err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return 0, err
	}
	in := newInstaller(root)
	failed := in.install(ctx, tables)
	fmt.Printf("installed in %.0f s\n", time.Since(begin).Seconds())
	target, stopBroker, err := startTarget(ctx, o, filepath.Join(logs, "broker"))
	if err != nil {
		return 0, err
	}
	defer stopBroker()
	s, err := newSuite(target, in, logs, o.limit)
	if err != nil {
		return 0, err
	}
	defer s.close()
	s.run(ctx, tables, failed, o.lanes)
	cells := 0
	for _, t := range tables {
		fmt.Print(t.render())
		cells += t.cells()
		red += t.red()
	}
	fmt.Printf("\n%d cells, %d red, %.0f s; what the clients said is in %s\n", cells, red, time.Since(begin).Seconds(), logs)
	return red, ctx.Err()
}

// choose returns the tables with only the named clients and scenarios; no names:
// all.
func choose(clients, scenarios string) ([]*table, error) {
	all := []*table{
		{title: "client libraries", clients: clientTable, scenarios: scenarioTable},
		{title: "Apache Kafka's command-line tools", clients: toolTable, scenarios: toolScenarios},
	}
	knownClients, knownScenarios := map[string]bool{}, map[string]bool{}
	var out []*table
	for _, t := range all {
		t.clients = pick(t.clients, func(c client) string { return c.name }, clients, knownClients)
		t.scenarios = pick(t.scenarios, func(s scenario) string { return s.name }, scenarios, knownScenarios)
		if len(t.clients) > 0 && len(t.scenarios) > 0 {
			out = append(out, t)
		}
	}
	for _, x := range []struct {
		names string
		known map[string]bool
	}{{clients, knownClients}, {scenarios, knownScenarios}} {
		for n := range strings.SplitSeq(x.names, ",") {
			if n != "" && !x.known[n] {
				return nil, fmt.Errorf("no %q in the tables", n)
			}
		}
	}
	return out, nil
}

// pick keeps the elements whose names are in the comma-separated list, all when
// it is empty, and notes every name.
func pick[T any](all []T, name func(T) string, list string, known map[string]bool) []T {
	var out []T
	for _, x := range all {
		known[name(x)] = true
		if list == "" || slices.Contains(strings.Split(list, ","), name(x)) {
			out = append(out, x)
		}
	}
	return out
}

// target is the broker under test.
type target struct {
	brokers string
	// restarts are carried out one after the other for the restart column; none:
	// the column is left out.
	restarts []func(context.Context) error
}

func startTarget(ctx context.Context, o options, dir string) (target, func(), error) {
	if o.brokers != "" {
		t := target{brokers: o.brokers}
		if o.restart != "" {
			t.restarts = append(t.restarts, func(ctx context.Context) error {
				out, err := exec.CommandContext(ctx, "sh", "-c", o.restart).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%s: %w: %s", o.restart, err, out)
				}
				return nil
			})
		}
		return t, func() {}, nil
	}
	b, err := o.broker.Start(ctx, time.Minute,
		peers.MillraceOptions{Dir: dir, Config: []string{"group.initial.rebalance.delay.ms=0"}}, peers.KafkaOptions{Dir: dir})
	if err != nil {
		return target{}, nil, err
	}
	start := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := b.Start(ctx)
		return err
	}
	stop := func() {
		if err := b.Stop(20 * time.Second); err != nil {
			fmt.Fprintln(os.Stderr, "compat:", err)
		}
	}
	restart := func(end func() error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := end(); err != nil {
				return err
			}
			return start(ctx)
		}
	}
	graceful := restart(func() error { return b.Stop(20 * time.Second) })
	return target{b.Addr(), []func(context.Context) error{graceful, restart(b.Kill)}}, stop, nil
}
