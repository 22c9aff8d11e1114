// Command cluster tortures real broker processes and judges what their clients
// saw with chaos/check.
//
//	kill      SIGKILL under load and restart, again and again
//	powercut  data on ext4 in a loop device; the file system is shut down
//	          without a flush under load, so that what was not synced is gone
//	fulldisk  a file system filled to the brim under load, and space coming back
//
// The broker is driven through the Kafka protocol only. Each run has a main
// goroutine that injects faults, client goroutines that record what they do into
// one History per epoch (some rounds), and no state that outlives it but the
// folder of a failed run, kept with the broker's log and data. Mounts, loop
// devices and processes are gone at the end whatever happens; mounts need root.
// A seed fixes the plan of faults and load, not the interleaving. Read
// tormentor.run in rounds.go first.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"millrace/bench/peers"
)

// options are the flags of all subcommands.
type options struct {
	rounds, epoch int
	every         time.Duration
	seed          uint64
	broker        peers.Choice
	dir           string
	fs            string
	expectLoss    bool
	settings      settings // of the broker
}

// settings are NAME=VALUE arguments.
type settings []string

// String implements flag.Value.
func (s *settings) String() string { return strings.Join(*s, " ") }

// Set implements flag.Value.
func (s *settings) Set(kv string) error {
	if !strings.Contains(kv, "=") {
		return fmt.Errorf("%q is not NAME=VALUE", kv)
	}
	*s = append(*s, kv)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: cluster kill|powercut|fulldisk [flags]; -h after the subcommand lists them")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	commands := map[string]func(context.Context, options) error{"kill": kill, "powercut": powercut, "fulldisk": fulldisk}
	command := commands[args[0]]
	if command == nil {
		return errUsage
	}
	root, err := peers.Root()
	if err != nil {
		return err
	}
	o := options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 20, "faults to inject")
	f.IntVar(&o.epoch, "epoch", 10, "rounds after which the history is checked and fresh topics are taken")
	f.DurationVar(&o.every, "every", 900*time.Millisecond, "mean time of load between a start and the next fault")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the plan (default: from the clock, printed)")
	o.broker.Flags(f, "torture")
	f.StringVar(&o.dir, "dir", filepath.Join(root, "build", "chaos"), "folder for data, logs and file-system images")
	f.StringVar(&o.fs, "fs", "tmpfs,ext4", "fulldisk: file systems to fill")
	f.BoolVar(&o.expectLoss, "expect-loss", false, "succeed only if the checker finds a lost record (to prove that it can, on a broker that acknowledges before syncing)")
	f.Var(&o.settings, "set", "setting of the millrace broker, as `NAME=VALUE`; may be repeated")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("%s: seed %d (replay the plan with --seed %d)\n", args[0], o.seed, o.seed)
	if err := o.broker.Build(); err != nil {
		return err
	}
	return command(ctx, o)
}

// newBroker prepares the broker under test with its data in data.
func (o options) newBroker(dir, data string, env ...string) (peers.Broker, error) {
	// With the default delay a group would never form between two faults.
	env = append(env, "MILLRACE_GROUP_INITIAL_REBALANCE_DELAY_MS=0")
	return o.broker.New(peers.MillraceOptions{Dir: dir, Data: data, Config: o.settings, Env: env},
		peers.KafkaOptions{Dir: dir, Data: data, HeapMB: 512})
}

func (o options) rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, stream)) }
