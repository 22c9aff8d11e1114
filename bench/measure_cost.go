package main

import (
	"context"
	"fmt"
	"time"

	"millrace/bench/peers"
)

var costs = &measurement{
	letter: "f",
	title:  "Allocations per request, bytes written per byte produced",
	how: "The broker's own counters over a load each: objects allocated on the Go heap by the whole process, divided by the requests of that load. " +
		"Produce: measurement a's load, and measurement b's. Fetch: the tail consumer and the cold consumer of measurement d. " +
		"Bytes of frames in the journal and bytes written to the device (journal, prepared journal files, segments and indexes) are per byte of batches produced. " +
		"Copies in memory cannot be counted from outside; ARCHITECTURE.md lists them.",
	rows: []row{
		{name: "produce_allocs", label: "objects per Produce of 64 KiB, closed loop", digits: 1},
		{name: "produce_bytes", label: "heap bytes per Produce of 64 KiB, closed loop", unit: "B"},
		{name: "paced_allocs", label: fmt.Sprintf("objects per Produce of 16 KiB at %d/s", latencyRate), digits: 1},
		{name: "fetch_allocs", label: "objects per Fetch of 1 MiB from memory", digits: 1},
		{name: "fetch_bytes", label: "heap bytes per Fetch of 1 MiB from memory", unit: "B"},
		{name: "cold_allocs", label: "objects per Fetch of 1 MiB from the disk", digits: 1},
		{name: "journal_bytes", label: "journal bytes per byte produced", unit: "x", digits: 2},
		{name: "device_bytes", label: "device bytes per byte produced", unit: "x", digits: 2},
	},
	ownOnly: true,
	run:     measureCosts,
}

const (
	mallocsMetric = "go_memstats_mallocs_total"
	heapMetric    = "go_memstats_alloc_bytes_total"
)

// metered runs a load and returns how the broker's metrics grew.
func metered(ctx context.Context, broker peers.Broker, load func() error) (func(name string) (float64, error), error) {
	before, err := scrape(ctx, broker)
	if err != nil {
		return nil, err
	}
	if err := load(); err != nil {
		return nil, err
	}
	after, err := scrape(ctx, broker)
	return func(name string) (float64, error) { return grown(before, after, name) }, err
}

// perRequest divides the growth of a metric by that of the requests of an API.
func (f figures) perRequest(grew func(string) (float64, error), into, metric, api string) error {
	n, err := grew(`millrace_request_duration_seconds_count{api="` + api + `"}`)
	if err != nil {
		return err
	}
	v, err := grew(metric)
	if err == nil && n == 0 {
		err = fmt.Errorf("no %s request was counted", api)
	}
	f[into] = v / n
	return err
}

func measureCosts(ctx context.Context, b *bench, _ int) (figures, error) {
	f := figures{}
	span := max(b.span()/2, time.Second)
	return f, b.withBroker(ctx, func(broker peers.Broker) error {
		if err := f.produceCosts(ctx, broker, span); err != nil {
			return err
		}
		load, err := pacedLoad(ctx, broker, latencyPartitions)
		if err != nil {
			return err
		}
		grew, err := metered(ctx, broker, func() error {
			_, err := load.run(ctx, broker, 0, span, newLatencies())
			return err
		})
		if err != nil {
			return err
		}
		if err := f.perRequest(grew, "paced_allocs", mallocsMetric, "Produce"); err != nil {
			return err
		}
		return b.fetchCosts(ctx, broker, span, f)
	})
}

func (f figures) produceCosts(ctx context.Context, broker peers.Broker, span time.Duration) error {
	topic, err := createTopic(ctx, broker, 1)
	if err != nil {
		return err
	}
	load := flood{conns: bandwidthConns, depth: bandwidthDepth}
	load.frames, load.batchBytes = frames(topic, 1, bandwidthBatch)
	if _, err := load.run(ctx, broker, 0, warmUp); err != nil {
		return err
	}
	grew, err := metered(ctx, broker, func() error {
		_, err := load.run(ctx, broker, 0, span)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.perRequest(grew, "produce_allocs", mallocsMetric, "Produce"); err != nil {
		return err
	}
	if err := f.perRequest(grew, "produce_bytes", heapMetric, "Produce"); err != nil {
		return err
	}
	produced, err := grew("millrace_shard_appended_bytes_total")
	if err != nil {
		return err
	}
	journal, err := grew("millrace_journal_bytes_total")
	if err != nil {
		return err
	}
	device, err := grew("millrace_disk_written_bytes_total")
	f["journal_bytes"], f["device_bytes"] = journal/produced, device/produced
	return err
}

func (b *bench) fetchCosts(ctx context.Context, broker peers.Broker, span time.Duration, f figures) error {
	topic, end, err := writeTopic(ctx, broker, b.scaled(tailBytes), bandwidthBatch)
	if err != nil {
		return err
	}
	grew, err := metered(ctx, broker, func() error {
		_, err := consume(ctx, broker, topic, end, span)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.perRequest(grew, "fetch_allocs", mallocsMetric, "Fetch"); err != nil {
		return err
	}
	if err := f.perRequest(grew, "fetch_bytes", heapMetric, "Fetch"); err != nil {
		return err
	}
	if err := broker.Stop(30 * time.Second); err != nil {
		return err
	}
	if _, err := start(ctx, broker); err != nil {
		return err
	}
	grew, err = metered(ctx, broker, func() error {
		_, err := consume(ctx, broker, topic, end, 0)
		return err
	})
	if err != nil {
		return err
	}
	return f.perRequest(grew, "cold_allocs", mallocsMetric, "Fetch")
}

// manyIdle is the number of partitions of measurement g.
const manyIdle = 10_000

var idlePartitions = &measurement{
	letter: "g",
	title:  "10,000 idle partitions",
	how: "One topic of 10,000 partitions without records. Memory is the growth of the process's resident memory over an idle broker without it, once it has come to rest, divided by the partitions; " +
		"CPU is the process's over 10 s of rest.",
	rows: []row{
		{name: "cpu", label: "CPU, of a core", unit: "%", digits: 2, zero: true},
		{name: "memory", label: "memory per partition", unit: "KiB", digits: 1},
		{name: "rss", label: "resident memory", unit: "MiB"},
		{name: "create", label: "creation of the topic", unit: "s", digits: 2},
	},
	targets: []target{{"cpu", 3, false}, {"memory", 16, false}},
	run:     measureIdlePartitions,
}

func measureIdlePartitions(ctx context.Context, b *bench, _ int) (figures, error) {
	f := figures{}
	return f, b.withBroker(ctx, func(broker peers.Broker) error {
		if err := b.settle(ctx); err != nil {
			return err
		}
		before, err := residentMiB(broker)
		if err != nil {
			return err
		}
		begin := time.Now()
		if _, err := createTopic(ctx, broker, manyIdle); err != nil {
			return err
		}
		f["create"] = time.Since(begin).Seconds()
		if err := b.settle(ctx); err != nil {
			return err
		}
		m, err := startMeter(broker.PID())
		if err != nil {
			return err
		}
		for range 2 { // 10 s
			if err := b.settle(ctx); err != nil {
				return err
			}
		}
		u, err := m.read()
		if err != nil {
			return err
		}
		f["cpu"] = 100 * u.broker / u.seconds
		f["rss"], err = residentMiB(broker)
		f["memory"] = (f["rss"] - before) * 1024 / manyIdle
		return err
	})
}
