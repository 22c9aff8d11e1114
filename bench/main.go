// Command bench loads a broker from outside and prints its figures beside what
// the bare disk, or the bare journal, does in the same run.
//
// Every measurement is made once per repeat, on a fresh broker, interleaved with
// what it is compared with and in alternating order, so that drift hits both.
// Each ratio is taken within its repeat; the medians over the repeats are held
// against the targets. Figures of one machine compare with each other and with
// nothing else: a target missed does not fail the run.
//
// Load generators are goroutines of this process, on the same cores as the
// broker; they send requests that were encoded before the clock starts, and
// their share of the CPU is printed. Nothing here outlives the run but the
// report. Read bench.run first, then measurements.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"millrace/bench/peers"
)

type options struct {
	broker      peers.Choice
	dir         string
	repeats     int
	seconds     int
	json, smoke bool
	only        string
}

func main() {
	// The senders of an open loop sleep in system calls: with a processor for each
	// of them, nobody waits for one that a sleeper holds.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 16))
	var o options
	o.broker.Flags(flag.CommandLine, "load")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to measure (default: build/bench)")
	flag.IntVar(&o.repeats, "repeats", 6, "interleaved repeats")
	flag.IntVar(&o.seconds, "seconds", 6, "length of each load")
	flag.BoolVar(&o.json, "json", false, "print all repeats as JSON")
	flag.BoolVar(&o.smoke, "smoke", false, "one short repeat, which shows that every measurement can be made; its figures mean nothing")
	flag.StringVar(&o.only, "only", "", "measurements to make, by letter, separated by commas (default: all)")
	flag.Usage = usage
	flag.Parse()
	if o.smoke {
		o.repeats, o.seconds = 1, 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func usage() {
	fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./bench [flags]\n\nmeasurements:")
	for _, m := range measurements {
		fmt.Fprintf(flag.CommandLine.Output(), "  %s  %s\n", m.letter, m.title)
	}
	fmt.Fprintln(flag.CommandLine.Output(), "\nflags:")
	flag.PrintDefaults()
}

// bench is one run.
type bench struct {
	o       options
	journal string // the program that drives the bare journal
	disk    *bare
}

func run(ctx context.Context, o options) error {
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	b := &bench{o: o}
	if err := b.prepare(); err != nil {
		return err
	}
	defer b.disk.close()
	results := make([][]figures, len(chosen))
	begin := time.Now()
	for i := range o.repeats {
		for k, m := range chosen {
			f, err := m.run(ctx, b, i)
			if err == nil {
				err = m.complete(f)
			}
			if err != nil {
				return fmt.Errorf("repeat %d, measurement %s: %w", i+1, m.letter, err)
			}
			results[k] = append(results[k], f)
		}
		fmt.Fprintf(os.Stderr, "repeat %d of %d done, %.0f s\n", i+1, o.repeats, time.Since(begin).Seconds())
	}
	if o.json {
		return printJSON(os.Stdout, o, chosen, results)
	}
	fmt.Print(markdown(o, chosen, results))
	return nil
}

// choose takes the measurements that --only names and the broker allows.
func choose(o options) ([]*measurement, error) {
	var letters []string
	if o.only != "" {
		letters = strings.Split(o.only, ",")
	}
	for _, l := range letters {
		if !slices.ContainsFunc(measurements, func(m *measurement) bool { return m.letter == l }) {
			return nil, fmt.Errorf("--only %s: there is no measurement %q", o.only, l)
		}
	}
	var chosen []*measurement
	for _, m := range measurements {
		switch {
		case letters != nil && !slices.Contains(letters, m.letter):
		case !o.broker.Ours() && m.ownOnly:
			fmt.Fprintf(os.Stderr, "measurement %s is made of millrace only\n", m.letter)
		default:
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return nil, errors.New("nothing is left to measure")
	}
	if o.repeats < 1 || o.seconds < 1 {
		return nil, errors.New("--repeats and --seconds must be at least 1")
	}
	return chosen, nil
}

// prepare builds what is to run and opens the disk.
func (b *bench) prepare() error {
	root, err := peers.Root()
	if err != nil {
		return err
	}
	if b.o.dir == "" {
		b.o.dir = filepath.Join(root, "build", "bench")
	}
	if err := os.MkdirAll(b.o.dir, 0o755); err != nil {
		return err
	}
	if err := b.o.broker.Build(); err != nil {
		return err
	}
	b.journal = filepath.Join(root, "bin", "bench-journal")
	cmd := exec.Command("go", "build", "-o", b.journal, "./bench/journal")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build bench/journal: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	b.disk, err = openBare(filepath.Join(b.o.dir, "bare"), 512<<20)
	return err
}

// span is the length of each load; a warm-up precedes it.
func (b *bench) span() time.Duration { return time.Duration(b.o.seconds) * time.Second }

// newBroker makes a broker with an empty data directory; config are settings of
// millrace.
func (b *bench) newBroker(config ...string) (peers.Broker, error) {
	dir := filepath.Join(b.o.dir, "broker")
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	return b.o.broker.New(peers.MillraceOptions{Dir: dir, Config: config}, peers.KafkaOptions{Dir: dir, HeapMB: 1024})
}

// withBroker runs f on a fresh broker that has been started, kills it and removes
// its data.
func (b *bench) withBroker(ctx context.Context, f func(peers.Broker) error, config ...string) (err error) {
	broker, err := b.newBroker(config...)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, broker.Kill()); err == nil {
			err = os.RemoveAll(broker.DataDir())
		}
	}()
	if _, err := start(ctx, broker); err != nil {
		return err
	}
	return f(broker)
}

// inTurn runs the steps, in reverse order in every second repeat.
func inTurn(repeat int, steps ...func() error) error {
	steps = slices.Clone(steps)
	if repeat%2 == 1 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
