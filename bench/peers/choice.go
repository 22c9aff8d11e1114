package peers

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Choice is the broker that the flags of a program ask for.
type Choice struct {
	Peer string // "millrace" or "kafka"
	Bin  string // of millrace; empty: it is built
}

// Flags adds --peer and --bin. verb is what the program does to the broker ("test").
func (c *Choice) Flags(f *flag.FlagSet, verb string) {
	f.StringVar(&c.Peer, "peer", "millrace", "broker to "+verb+": millrace or kafka")
	f.StringVar(&c.Bin, "bin", "", "millrace binary (default: build it)")
}

// Ours says that the broker is Millrace.
func (c *Choice) Ours() bool { return c.Peer == "millrace" }

// Build builds millrace where it is to run and no binary is named, once for all
// brokers of the program.
func (c *Choice) Build() (err error) {
	if c.Ours() && c.Bin == "" {
		c.Bin, err = BuildMillrace()
	}
	return err
}

// New prepares the broker; m and k say what is particular to each.
func (c *Choice) New(m MillraceOptions, k KafkaOptions) (Broker, error) {
	switch c.Peer {
	case "millrace":
		m.Bin = c.Bin
		return NewMillrace(m)
	case "kafka":
		return NewKafka(k)
	}
	return nil, fmt.Errorf("--peer %s: want millrace or kafka", c.Peer)
}

// Start is New and the first start, which may take until limit.
func (c *Choice) Start(ctx context.Context, limit time.Duration, m MillraceOptions, k KafkaOptions) (Broker, error) {
	b, err := c.New(m, k)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, err = b.Start(ctx)
	return b, err
}

// Main is the rest of a program that judges a broker, once its flags are parsed: it
// ends with 1 where run found something wrong, and with 2 where run could not tell.
// An interrupt ends run's context.
func Main(name string, run func(ctx context.Context) (good bool, err error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	good, err := run(ctx)
	stop()
	switch {
	case err != nil:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(2)
	case !good:
		os.Exit(1)
	}
}
