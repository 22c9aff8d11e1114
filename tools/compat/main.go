// Command compat runs unmodified Kafka clients against a broker and prints the
// table client x scenario. It ends with 1 when any cell is red; a client that
// cannot be installed is red, never left out.
//
// It starts a broker of ours (or, with --peer kafka, Apache Kafka; or takes
// --brokers), installs the clients into build/cache, and runs each cell as a
// process of the client's own language that talks to the broker alone. The
// process tree is the only state: cells run in parallel, each with topics of
// its own, and the cells that need a restart of the broker run last and
// together. Read main, then suite.run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"millrace/bench/peers"
)

type options struct {
	brokers, peer, bin, restart string
	clients, scenarios          string
	jobs                        int
	limit                       time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.brokers, "brokers", "", "test these brokers (host:port,...) and start none")
	flag.StringVar(&o.restart, "restart-command", "", "with --brokers: shell command that restarts the broker; without it the restart column is left out")
	flag.StringVar(&o.peer, "peer", "millrace", "broker to start: millrace or kafka")
	flag.StringVar(&o.bin, "bin", "", "millrace binary to test (default: build it)")
	flag.StringVar(&o.clients, "clients", "", "only these clients, comma-separated")
	flag.StringVar(&o.scenarios, "scenarios", "", "only these scenarios, comma-separated")
	flag.IntVar(&o.jobs, "jobs", 5, "cells that run at a time")
	flag.DurationVar(&o.limit, "limit", 2*time.Minute, "time limit of one cell")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	red, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(2)
	}
	if red > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (red int, err error) {
	root, err := peers.Root()
	if err != nil {
		return 0, err
	}
	clients, err := pick(clientTable, func(c client) string { return c.name }, o.clients)
	if err != nil {
		return 0, err
	}
	scenarios, err := pick(scenarioTable, func(s scenario) string { return s.name }, o.scenarios)
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
	failed := in.install(ctx, clients)
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
	t := s.run(ctx, clients, scenarios, failed, o.jobs)
	fmt.Print(t.render())
	fmt.Printf("%d cells, %d red, %.0f s; output of the cells in %s\n", t.cells(), t.red(), time.Since(begin).Seconds(), logs)
	return t.red(), ctx.Err()
}

// pick keeps the named elements; no names: all.
func pick[T any](all []T, name func(T) string, names string) ([]T, error) {
	if names == "" {
		return all, nil
	}
	var out []T
	for n := range strings.SplitSeq(names, ",") {
		found := false
		for _, x := range all {
			if name(x) == n {
				out, found = append(out, x), true
			}
		}
		if !found {
			return nil, fmt.Errorf("no %q in the table", n)
		}
	}
	return out, nil
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
	var b peers.Broker
	var err error
	switch o.peer {
	case "millrace":
		b, err = peers.NewMillrace(peers.MillraceOptions{Bin: o.bin, Dir: dir})
	case "kafka":
		b, err = peers.NewKafka(peers.KafkaOptions{Dir: dir})
	default:
		err = fmt.Errorf("--peer %s: want millrace or kafka", o.peer)
	}
	if err != nil {
		return target{}, nil, err
	}
	start := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := b.Start(ctx)
		return err
	}
	if err := start(ctx); err != nil {
		return target{}, nil, err
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
