// Command bench loads a broker from outside and prints its figures beside what
// the bare disk does in the same run.
//
// Four measurements, repeated and interleaved with the bare disk's so that drift
// hits both: latency of acks=all produce requests at a fixed rate, counted from
// the intended send time (an open loop: a slow answer does not slow the load
// down); throughput of one partition; resident memory when idle; time to start
// empty and after SIGKILL. Medians over the repeats and ratios are printed;
// figures of one machine compare with each other and with nothing else.
//
// Load generators are goroutines of this process, on the same cores as the
// broker. Nothing here outlives the run but the report. Read bench.repeat first.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"millrace/bench/peers"
)

type options struct {
	peer, bin, dir string
	repeats        int
	seconds        int
	rate           int
	recoverMiB     int
	json, smoke    bool
	only           string
}

func main() {
	var o options
	flag.StringVar(&o.peer, "peer", "millrace", "broker to load: millrace or kafka")
	flag.StringVar(&o.bin, "bin", "", "millrace binary (default: build it)")
	flag.StringVar(&o.dir, "dir", "", "folder on the disk to measure (default: build/bench)")
	flag.IntVar(&o.repeats, "repeats", 6, "interleaved repeats")
	flag.IntVar(&o.seconds, "seconds", 10, "length of each measurement")
	flag.IntVar(&o.rate, "rate", 1000, "produce requests per second for latency")
	flag.IntVar(&o.recoverMiB, "recover-mib", 1024, "data written before SIGKILL for the start time")
	flag.BoolVar(&o.json, "json", false, "print all repeats as JSON")
	flag.BoolVar(&o.smoke, "smoke", false, "one short repeat with limits that only a broken broker misses")
	flag.StringVar(&o.only, "only", "latency,throughput,idle,start", "measurements to make")
	flag.Parse()
	if o.smoke {
		o.repeats, o.seconds, o.recoverMiB = 1, 3, 128
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	root, err := peers.Root()
	if err != nil {
		return err
	}
	if o.dir == "" {
		o.dir = filepath.Join(root, "build", "bench")
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if o.peer == "millrace" && o.bin == "" {
		if o.bin, err = peers.BuildMillrace(); err != nil {
			return err
		}
	}
	disk, err := openBare(filepath.Join(o.dir, "bare"), 512<<20)
	if err != nil {
		return err
	}
	defer disk.close()
	b := &bench{o: o, disk: disk}
	for i := range o.repeats {
		r, err := b.repeat(ctx, i)
		if err != nil {
			return fmt.Errorf("repeat %d: %w", i+1, err)
		}
		b.results = append(b.results, r)
		fmt.Fprintf(os.Stderr, "repeat %d of %d done\n", i+1, o.repeats)
	}
	s := summarise(b.results)
	if o.json {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		if err := enc.Encode(map[string]any{"peer": o.peer, "rate": o.rate, "seconds": o.seconds, "median": s, "repeats": b.results}); err != nil {
			return err
		}
	} else {
		fmt.Print(render(o, s))
	}
	if o.smoke {
		return limits(o, s)
	}
	return nil
}

type bench struct {
	o       options
	disk    *bare
	results []result
}

// result is one repeat's figures, or the medians of all. Zero: not measured.
type result struct {
	Latency     latency    `json:"latency"`
	BareLatency latency    `json:"bare_latency"`
	Throughput  throughput `json:"throughput"`
	BareMBps    float64    `json:"bare_mb_per_s"`
	Idle        idle       `json:"idle"`
	Start       starts     `json:"start"`
}

// latency is in milliseconds.
type latency struct {
	P50      float64 `json:"p50_ms"`
	P99      float64 `json:"p99_ms"`
	P999     float64 `json:"p999_ms"`
	Max      float64 `json:"max_ms"`
	Achieved float64 `json:"answers_per_s"`
	Cores    float64 `json:"broker_cores"`
}

type throughput struct {
	MBps     float64 `json:"mb_per_s"`
	CPUPerGB float64 `json:"broker_cpu_s_per_gb"`
}

// idle is resident memory in MiB.
type idle struct {
	Fresh     float64 `json:"fresh_mib"`
	AfterLoad float64 `json:"after_load_mib"`
	DiskMiB   float64 `json:"fresh_disk_mib"`
}

// starts are seconds until the broker answers, and until it also tells the right
// end of every partition.
type starts struct {
	Empty        float64 `json:"empty_s"`
	AfterKill    float64 `json:"after_kill_s"`
	AfterKillAll float64 `json:"after_kill_all_partitions_s"`
}

func (o options) wants(what string) bool { return slices.Contains(strings.Split(o.only, ","), what) }

func (b *bench) newBroker(dir string) (peers.Broker, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	switch b.o.peer {
	case "millrace":
		return peers.NewMillrace(peers.MillraceOptions{Bin: b.o.bin, Dir: dir})
	case "kafka":
		return peers.NewKafka(peers.KafkaOptions{Dir: dir, HeapMB: 1024})
	}
	return nil, fmt.Errorf("--peer %s: want millrace or kafka", b.o.peer)
}

// repeat makes each measurement once, on a fresh broker. Odd repeats measure the
// bare disk first, even ones the broker.
func (b *bench) repeat(ctx context.Context, i int) (r result, err error) {
	dir := filepath.Join(b.o.dir, "broker")
	broker, err := b.newBroker(dir)
	if err != nil {
		return r, err
	}
	defer func() {
		if kerr := broker.Kill(); err == nil {
			err = kerr
		}
	}()
	took, err := start(ctx, broker)
	if err != nil {
		return r, err
	}
	r.Start.Empty = took.Seconds()
	if b.o.wants("idle") {
		if r.Idle, err = b.measureIdle(ctx, broker); err != nil {
			return r, err
		}
	}
	span := time.Duration(b.o.seconds) * time.Second
	pairs := []struct {
		name         string
		broker, bare func() error
	}{
		{"latency", func() error { r.Latency, err = measureLatency(ctx, broker, b.o.rate, span); return err },
			func() error { r.BareLatency, err = b.disk.latency(ctx, b.o.rate, span); return err }},
		{"throughput", func() error { r.Throughput, err = measureThroughput(ctx, broker, span); return err },
			func() error { r.BareMBps, err = b.disk.throughput(ctx, span); return err }},
	}
	for _, p := range pairs {
		if !b.o.wants(p.name) {
			continue
		}
		steps := []func() error{p.broker, p.bare}
		if i%2 == 0 {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(); err != nil {
				return r, fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	if b.o.wants("idle") && (b.o.wants("latency") || b.o.wants("throughput")) {
		if r.Idle.AfterLoad, err = residentMiB(ctx, broker, 5*time.Second); err != nil {
			return r, err
		}
	}
	if b.o.wants("start") {
		empty := r.Start.Empty
		if r.Start, err = b.measureRestart(ctx, broker); err != nil {
			return r, fmt.Errorf("start after SIGKILL: %w", err)
		}
		r.Start.Empty = empty
	}
	return r, nil
}
