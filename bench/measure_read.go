package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"millrace/bench/peers"
)

// The data of measurement d.
const (
	tailBytes = 256 << 20 // within the broker's payload memory
	coldBytes = 1 << 30
)

// bareReadSizes are the block sizes tried for the bare read; the best counts.
var bareReadSizes = []int{256 << 10, 1 << 20, 4 << 20}

var consumers = &measurement{
	letter: "d",
	title:  "One consumer on one connection, 64 KiB batches of one partition",
	how: fmt.Sprintf("One Fetch of %d MiB at a time, as Kafka's consumer asks by default. Tail: the newest %d MiB, again and again; they are in the broker's memory. "+
		"Cold: %d MiB from the start, once, after the broker was stopped and started: its files bypass the page cache, so nothing is in memory; it has written to segments what only its journal held. "+
		"The bare disk reads the same segment file with O_DIRECT, one request at a time; of the block sizes 256 KiB, 1 MiB and 4 MiB the best counts, into ordinary memory as dd and fio do it; for orientation, the same into huge pages, which the broker uses. The host may cache for both.",
		fetchBytes>>20, tailBytes>>20, coldBytes>>20),
	rows: []row{
		{name: "tail", label: "tail consumer", unit: "MB/s"},
		{name: "tail_fetch", label: "tail, bytes per fetch", unit: "KiB"},
		{name: "tail_cores", label: "tail, broker CPU", unit: "cores", digits: 2},
		{name: "tail_load_cores", label: "tail, consumer CPU", unit: "cores", digits: 2},
		{name: "tail_disk", label: "tail, read from the disk", unit: "MiB", zero: true},
		{name: "cold_ratio", label: "cold consumer / bare read", unit: "x", digits: 2},
		{name: "cold", label: "cold consumer", unit: "MB/s"},
		{name: "cold_cores", label: "cold, broker CPU", unit: "cores", digits: 2},
		{name: "cold_load_cores", label: "cold, consumer CPU", unit: "cores", digits: 2},
		{name: "cold_disk", label: "cold, read from the disk / consumed", unit: "x", digits: 2},
		{name: "bare", label: "bare sequential read", unit: "MB/s"},
		{name: "bare_huge", label: "bare sequential read into huge pages", unit: "MB/s"},
	},
	targets: []target{{"tail", 500, true}, {"cold_ratio", 0.7, true}},
	ownOnly: true, // finds the segment and the metrics
	run:     measureConsumers,
}

// scaled is a number of bytes, less in a smoke run.
func (b *bench) scaled(bytes int64) int64 {
	if b.o.smoke {
		return bytes / 8
	}
	return bytes
}

func measureConsumers(ctx context.Context, b *bench, repeat int) (figures, error) {
	f := figures{}
	return f, b.withBroker(ctx, func(broker peers.Broker) error {
		if err := b.measureTail(ctx, broker, f); err != nil {
			return fmt.Errorf("tail: %w", err)
		}
		topic, end, err := writeTopic(ctx, broker, b.scaled(coldBytes), bandwidthBatch)
		if err != nil {
			return err
		}
		if err := broker.Stop(30 * time.Second); err != nil {
			return err
		}
		err = inTurn(repeat, func() error {
			return b.measureCold(ctx, broker, topic, end, f)
		}, func() (err error) {
			f["bare"], f["bare_huge"], err = bareRead(ctx, broker.DataDir())
			return err
		})
		f["cold_ratio"] = f["cold"] / f["bare"]
		return err
	})
}

// writeTopic fills a topic of one partition and returns its end.
func writeTopic(ctx context.Context, broker peers.Broker, bytes int64, batch int) (topic string, end int64, err error) {
	if topic, err = createTopic(ctx, broker, 1); err != nil {
		return "", 0, err
	}
	load := flood{conns: bandwidthConns, depth: bandwidthDepth}
	load.frames, load.batchBytes = frames(topic, 1, batch)
	if _, err := load.write(ctx, broker, bytes); err != nil {
		return "", 0, err
	}
	end, err = endOffset(ctx, broker, topic)
	return topic, end, err
}

const (
	diskReadMetric    = "millrace_disk_read_bytes_total"
	diskWrittenMetric = "millrace_disk_written_bytes_total"
)

func (b *bench) measureTail(ctx context.Context, broker peers.Broker, f figures) error {
	topic, end, err := writeTopic(ctx, broker, b.scaled(tailBytes), bandwidthBatch)
	if err != nil {
		return err
	}
	if _, err := consume(ctx, broker, topic, end, 0); err != nil { // warm-up
		return err
	}
	before, err := scrape(ctx, broker)
	if err != nil {
		return err
	}
	r, err := consume(ctx, broker, topic, end, b.span())
	if err != nil {
		return err
	}
	after, err := scrape(ctx, broker)
	if err != nil {
		return err
	}
	disk, err := grown(before, after, diskReadMetric)
	f["tail"], f["tail_fetch"], f["tail_cores"], f["tail_load_cores"], f["tail_disk"] = r.MBps, r.KiBPerFetch, r.BrokerCores, r.LoadCores, disk/(1<<20)
	return err
}

func (b *bench) measureCold(ctx context.Context, broker peers.Broker, topic string, end int64, f figures) error {
	if _, err := start(ctx, broker); err != nil {
		return err
	}
	n, err := endOffset(ctx, broker, topic)
	if err != nil {
		return err
	}
	if n != end {
		return fmt.Errorf("the topic ends at %d after the restart, %d before", n, end)
	}
	if err := quietDisk(ctx, broker); err != nil {
		return err
	}
	before, err := scrape(ctx, broker)
	if err != nil {
		return err
	}
	r, err := consume(ctx, broker, topic, end, 0)
	if err != nil {
		return err
	}
	after, err := scrape(ctx, broker)
	if err != nil {
		return err
	}
	disk, err := grown(before, after, diskReadMetric)
	if err != nil {
		return err
	}
	f["cold"], f["cold_cores"], f["cold_load_cores"], f["cold_disk"] = r.MBps, r.BrokerCores, r.LoadCores, disk/float64(r.bytes)
	return broker.Kill()
}

// quietDisk waits until the broker has written to segments what only its journal
// held: the start's work, not the consumer's.
func quietDisk(ctx context.Context, broker peers.Broker) error {
	const quiet, patience = 500 * time.Millisecond, 20 * time.Second
	begin := time.Now()
	before, err := scrape(ctx, broker)
	for err == nil {
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return ctx.Err()
		}
		after, serr := scrape(ctx, broker)
		if serr != nil {
			return serr
		}
		written, gerr := grown(before, after, diskWrittenMetric)
		if gerr == nil && written < 1<<20 {
			return nil
		}
		if time.Since(begin) > patience {
			return fmt.Errorf("the broker still writes %v after its start", patience)
		}
		before, err = after, gerr
	}
	return err
}

// bareRead reads the largest segment below dir with every block size and returns
// the best bandwidth in MB/s: with ordinary memory, as dd and fio have it, and with
// huge pages, as the broker has.
func bareRead(ctx context.Context, dir string) (best, onHugePages float64, err error) {
	path, err := largestSegment(dir)
	if err != nil {
		return 0, 0, err
	}
	huge, free, err := hugePages(slices.Max(bareReadSizes))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, free()) }()
	for _, size := range bareReadSizes {
		plain, err := bareReadWith(ctx, path, aligned(size))
		if err != nil {
			return 0, 0, err
		}
		fast, err := bareReadWith(ctx, path, huge[:size])
		if err != nil {
			return 0, 0, err
		}
		best, onHugePages = max(best, plain), max(onHugePages, fast)
	}
	return best, onHugePages, nil
}

func largestSegment(dir string) (path string, err error) {
	var bytes int64
	err = filepath.WalkDir(filepath.Join(dir, "partitions"), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(p, ".log") {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Size() > bytes {
			path, bytes = p, info.Size()
		}
		return err
	})
	if err == nil && path == "" {
		err = fmt.Errorf("no segment below %s", dir)
	}
	return path, err
}

func bareReadWith(ctx context.Context, path string, buf []byte) (mbps float64, err error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	begin, at := time.Now(), int64(0)
	for ctx.Err() == nil {
		n, err := file.ReadAt(buf, at)
		at += int64(n)
		if errors.Is(err, io.EOF) {
			return float64(at) / 1e6 / time.Since(begin).Seconds(), nil
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, ctx.Err()
}
