package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

type options struct {
	seeds, from uint64
	workers     int
	dir         string
	show        bool
	shrink      int
}

func main() {
	var o options
	flag.Uint64Var(&o.seeds, "seeds", 1000, "number of sequences")
	flag.Uint64Var(&o.from, "from", 1, "seed of the first one")
	flag.IntVar(&o.workers, "workers", 4, "sequences that run at a time")
	flag.StringVar(&o.dir, "dir", memoryDir(), "folder for the brokers' data")
	flag.BoolVar(&o.show, "show", false, "print every sequence")
	flag.IntVar(&o.shrink, "shrink", 60, "most differences that are shrunk, one of each kind")
	flag.Parse()
	if flag.NArg() > 0 || o.seeds == 0 || o.workers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "diff:", err)
		os.Exit(1)
	}
}

// memoryDir is a folder in memory where there is one: what is compared is what
// the brokers say, not their disks.
func memoryDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

func run(ctx context.Context, o options) (err error) {
	b, err := startBrokers(ctx, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	var lists [2]map[int16]versions
	for i := range lists {
		if lists[i], err = advertisedBy(b.brokers[i]); err != nil {
			return err
		}
	}
	for key, v := range lists[1] {
		if k, ok := lists[0][key]; !ok || v.min < k.min || v.max > k.max {
			return fmt.Errorf("millrace advertises key %d with versions %d to %d, kafka %d to %d", key, v.min, v.max, k.min, k.max)
		}
	}
	s := newSession(o, b.brokers, lists[1])
	if err := s.run(ctx); err != nil {
		return errors.Join(err, s.report())
	}
	return s.report()
}
