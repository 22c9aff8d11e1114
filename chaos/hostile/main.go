// Command hostile sends a broker what no client should send, in content and in
// amount, and tells what became of it.
//
//	go run ./chaos/hostile                  all attacks on a fresh broker
//	go run ./chaos/hostile -run 'tls|idle'  some of them
//	go run ./chaos/hostile -peer kafka      the same against Apache Kafka
//
// The broker is a real process that is driven through its sockets alone. Attacks
// come one after the other on the main goroutine, each with as many connections
// and goroutines of its own as it needs, all of which end with it. Beside them a
// well-behaved producer and consumer run all the time, in a process of their own,
// and the broker's resident memory is sampled. The command fails
//
//   - when the broker ends, or grows beyond its memory budget;
//   - when a connection is closed where Kafka answers (answers.txt, see -record)
//     without a reason that is stated, or an attack gets what its text does not allow;
//   - when the bystander meets an error, or a record that was acknowledged is not read;
//   - when the bystander stands still, or (with -all) its times grow far beyond those of
//     a reference, see tooSlow.
//
// Other times are told, not judged. Nothing outlives a run but the folder of one that
// failed. Read run first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"millrace/bench/peers"
)

// options are the flags.
type options struct {
	broker    peers.Choice
	dir       string
	match     *regexp.Regexp
	record    bool
	all       bool
	scale     float64
	budgetMiB int64
	verbose   bool
}

func main() {
	if done, err := roles(os.Args[1:]); done {
		if err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := parseFlags(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func parseFlags(ctx context.Context, args []string) error {
	root, err := peers.Root()
	if err != nil {
		return err
	}
	var o options
	var match string
	f := flag.NewFlagSet("hostile", flag.ContinueOnError)
	o.broker.Flags(f, "attack")
	f.StringVar(&o.dir, "dir", filepath.Join(root, "build", "hostile"), "folder for data and logs")
	f.StringVar(&match, "run", "", "only attacks whose name matches this `expression`")
	f.BoolVar(&o.record, "record", false, "with -peer kafka: write what it answers to answers.txt")
	f.BoolVar(&o.all, "all", false, "all bounds: on the bystander's median and p99 too, which a busy machine may miss")
	f.Float64Var(&o.scale, "scale", 1, "multiplies the numbers of connections, members, producers")
	f.Int64Var(&o.budgetMiB, "budget", budgetMiB, "resident memory that a millrace broker must not exceed, in `MiB`")
	f.BoolVar(&o.verbose, "v", false, "print each attack as it ends")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.match, err = regexp.Compile(match); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	return run(ctx, o)
}

// attack is one thing that is done to the broker. got describes the outcome in
// words that are the same in every run; a load may add figures of its own, which
// are only told. An error means that the attack could not be carried out, or that
// the broker did what it must not.
type attack struct {
	name string
	load bool // by amount: memory and the bystander are looked at
	tls  bool // for brokers with a TLS listener
	// before is what is due before the bystander is looked at; may be nil.
	before func(e *env, ctx context.Context) error
	do     func(ctx context.Context, e *env) (got outcome, err error)
}

// outcome is what an attacker got.
type outcome struct {
	text    string // compared with what Kafka gives
	figures string // told
}

func said(text string) outcome { return outcome{text: text} }

// run starts the broker and the bystander, carries out the attacks, and judges.
func run(ctx context.Context, o options) error {
	e, err := newEnv(ctx, o)
	if err != nil {
		return err
	}
	report, err := e.attackAll(ctx)
	report.print(os.Stdout)
	err = errors.Join(err, report.faults(), e.finish())
	if err == nil && o.record {
		err = report.record()
	}
	if err != nil {
		return fmt.Errorf("%w\nthe broker's output is in %s", err, e.broker.LogPath())
	}
	return os.RemoveAll(o.dir)
}

// attackAll returns what it has when the broker dies.
func (e *env) attackAll(ctx context.Context) (*report, error) {
	r := &report{env: e}
	for _, a := range attacks() {
		if !e.o.match.MatchString(a.name) || a.tls && e.tlsAddr == "" {
			continue
		}
		row, err := e.attackOnce(ctx, a)
		r.rows = append(r.rows, row)
		if e.o.verbose {
			fmt.Println(row)
		}
		if err != nil {
			return r, err
		}
	}
	if len(r.rows) == 0 {
		return r, errors.New("no attack has such a name")
	}
	return r, nil
}

// attackOnce carries one attack out; its error ends the run.
func (e *env) attackOnce(ctx context.Context, a attack) (r row, err error) {
	r = row{name: a.name, load: a.load}
	if a.before != nil {
		if err := a.before(e, ctx); err != nil {
			return r, fmt.Errorf("before %s: %w", a.name, err)
		}
	}
	if a.load {
		// The time before is that of a broker at rest.
		if err := e.watcher.rest(ctx); err != nil {
			return r, err
		}
		if r.quiet, err = e.watchFor(settle); err != nil {
			return r, err
		}
		if _, err := e.watcher.ask("mark"); err != nil {
			return r, err
		}
	}
	e.memory.reset()
	cpu, err := e.cpu()
	if err != nil {
		return r, err
	}
	began := time.Now()
	actx, cancel := context.WithTimeout(ctx, attackMax)
	r.got, r.err = a.do(actx, e)
	cancel()
	r.took = time.Since(began)
	if now, err := e.cpu(); err == nil {
		r.cpu = now - cpu
	}
	if a.load {
		if r.during, err = e.watcher.ask("window"); err != nil {
			return r, err
		}
	}
	r.peak = e.memory.peak()
	if err := e.alive(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", a.name, err)
	}
	return r, nil
}

// watchFor is the bystander's time with nothing else going on.
func (e *env) watchFor(d time.Duration) (Window, error) {
	if _, err := e.watcher.ask("mark"); err != nil {
		return Window{}, err
	}
	time.Sleep(d)
	return e.watcher.ask("window")
}

// settle is how long the bystander is looked at before a load.
const settle = 500 * time.Millisecond

// attackMax bounds one attack.
const attackMax = 3 * time.Minute
