package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"millrace/bench/peers"
)

// The load of measurement a.
const (
	bandwidthConns = 8
	bandwidthDepth = 8
	bandwidthBatch = 64 << 10
)

// The load of measurements b and c.
const (
	latencyConns      = 4
	latencyRate       = 2000
	latencyBatch      = 16 << 10
	latencyPartitions = 16
)

// frames encodes a request for each partition.
func frames(topic string, partitions, batchBytes int) (out [][]byte, size int) {
	batch := makeBatch(batchBytes)
	for p := range partitions {
		out = append(out, produceFrame(topic, int32(p), batch))
	}
	return out, len(batch)
}

var bandwidth = &measurement{
	letter: "a",
	title:  "One partition, 64 KiB batches, acks=all",
	how: fmt.Sprintf("%d connections with %d requests of one batch each in flight (%d KiB), encoded beforehand. "+
		"The bare journal is raftlog's journal alone in a process of its own, with batches of the same size and as many bytes in flight: "+
		"no sockets, no raft, no segments. For orientation, the bare disk in writes of 1 MiB without a sync.",
		bandwidthConns, bandwidthDepth, bandwidthConns*bandwidthDepth*bandwidthBatch>>10),
	rows: []row{
		{name: "ratio", label: "broker / bare journal", unit: "x", digits: 2},
		{name: "broker", label: "broker", unit: "MB/s"},
		{name: "journal", label: "bare journal", unit: "MB/s"},
		{name: "disk", label: "bare sequential write", unit: "MB/s"},
		{name: "broker_cores", label: "broker CPU", unit: "cores", digits: 2},
		{name: "load_cores", label: "load generator CPU", unit: "cores", digits: 2},
		{name: "journal_frame", label: "bare journal, bytes in one write", unit: "KiB"},
	},
	targets: []target{{"ratio", 0.6, true}},
	run:     measureBandwidth,
}

func measureBandwidth(ctx context.Context, b *bench, repeat int) (figures, error) {
	f := figures{}
	err := inTurn(repeat, func() error {
		return b.withBroker(ctx, func(broker peers.Broker) error {
			topic, err := createTopic(ctx, broker, 1)
			if err != nil {
				return err
			}
			load := flood{conns: bandwidthConns, depth: bandwidthDepth}
			load.frames, load.batchBytes = frames(topic, 1, bandwidthBatch)
			r, err := load.run(ctx, broker, warmUp, b.span())
			f["broker"], f["broker_cores"], f["load_cores"] = r.MBps, r.BrokerCores, r.LoadCores
			return err
		})
	}, func() (err error) {
		f["disk"], err = b.disk.sequential(ctx, b.span()/3)
		return err
	}, func() (err error) {
		f["journal"], f["journal_frame"], err = b.bareJournal(ctx)
		return err
	})
	f["ratio"] = f["broker"] / f["journal"]
	return f, err
}

// bareJournal runs bench/journal and returns MB/s and the KiB of one write.
func (b *bench) bareJournal(ctx context.Context) (mbps, frame float64, err error) {
	cmd := exec.CommandContext(ctx, b.journal, "--dir", b.o.dir, "--batch", strconv.Itoa(bandwidthBatch),
		"--inflight", strconv.Itoa(bandwidthConns*bandwidthDepth*bandwidthBatch), "--warm", warmUp.String(), "--span", b.span().String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("bare journal: %w\n%s", err, stderr.Bytes())
	}
	var r struct {
		Bytes   int64
		Seconds float64
		Commits int64
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, 0, fmt.Errorf("bare journal: %w", err)
	}
	return float64(r.Bytes) / 1e6 / r.Seconds, float64(r.Bytes) / 1024 / float64(r.Commits), nil
}

var smallBatches = &measurement{
	letter: "b",
	title:  fmt.Sprintf("16 KiB batches at %d/s over %d partitions, acks=all", latencyRate, latencyPartitions),
	how: fmt.Sprintf("An open loop of %d connections: every request has its time, and its latency is counted from then. "+
		"The bare disk appends as many bytes at the same times to a pre-written file (O_DIRECT) with an fdatasync; what is due by then goes into one write. "+
		"The two alternate in parts of %v, each after a warm-up of %v, on a broker that has taken %d MiB before.", latencyConns, partSpan, partWarmUp, runInBytes>>20),
	rows: append(slices.Concat(latencyRows("broker", "broker"), latencyRows("bare", "bare append + fdatasync")),
		row{name: "ratio_p50", label: "p50, broker / bare", unit: "x", digits: 2},
		row{name: "ratio_p99", label: "p99, broker / bare", unit: "x", digits: 2},
		row{name: "ratio_p999", label: "p99.9, broker / bare", unit: "x", digits: 2},
		row{name: "broker_cores", label: "broker CPU", unit: "cores", digits: 2},
		row{name: "load_cores", label: "load generator CPU", unit: "cores", digits: 2}),
	targets: []target{{"ratio_p99", 3, false}},
	run:     measureSmallBatches,
}

func latencyRows(name, label string) (rows []row) {
	for _, p := range []struct{ name, label string }{{"p50", "p50"}, {"p99", "p99"}, {"p999", "p99.9"}, {"max", "maximum"}} {
		rows = append(rows, row{name: name + "_" + p.name, label: label + ", " + p.label, unit: "ms", digits: 2})
	}
	return append(rows, row{name: name + "_rate", label: label + ", answers", unit: "/s"})
}

func (f figures) addLatency(name string, l latency) {
	f[name+"_p50"], f[name+"_p99"], f[name+"_p999"], f[name+"_max"], f[name+"_rate"] = l.P50, l.P99, l.P999, l.Max, l.PerSecond
}

func measureSmallBatches(ctx context.Context, b *bench, repeat int) (figures, error) {
	f := figures{}
	ours, bare := newLatencies(), newLatencies()
	var cores used
	err := b.withBroker(ctx, func(broker peers.Broker) error {
		if err := b.runIn(ctx, broker); err != nil {
			return err
		}
		load, err := pacedLoad(ctx, broker, latencyPartitions)
		if err != nil {
			return err
		}
		return b.alternate(repeat, func(warm, span time.Duration) error {
			u, err := load.run(ctx, broker, warm, span, ours)
			cores.add(u)
			return err
		}, func(warm, span time.Duration) error {
			return b.disk.latency(ctx, latencyRate, latencyBatch, warm, span, bare)
		})
	})
	if err != nil {
		return nil, err
	}
	o, d := ours.result(), bare.result()
	f.addLatency("broker", o)
	f.addLatency("bare", d)
	f["ratio_p50"], f["ratio_p99"], f["ratio_p999"] = o.P50/d.P50, o.P99/d.P99, o.P999/d.P999
	f["broker_cores"], f["load_cores"] = cores.broker/cores.seconds, cores.own/cores.seconds
	return f, nil
}

// The parts in which loads of latency alternate: the machine and its disk have
// phases of a second or more, which must not fall on one load alone.
const (
	partWarmUp = 200 * time.Millisecond
	partSpan   = 500 * time.Millisecond
)

// alternate makes parts of the loads in turn until each has had its span.
func (b *bench) alternate(repeat int, loads ...func(warm, span time.Duration) error) error {
	var steps []func() error
	for _, load := range loads {
		steps = append(steps, func() error { return load(partWarmUp, partSpan) })
	}
	for part := range int(b.span() / partSpan) {
		if err := inTurn(repeat+part, steps...); err != nil {
			return err
		}
	}
	return nil
}

// runIn brings a broker into the state of one that has run for a while: the files
// of its journal have all been used, and as much of its memory as it uses.
func (b *bench) runIn(ctx context.Context, broker peers.Broker) error {
	topic, err := createTopic(ctx, broker, latencyPartitions)
	if err != nil {
		return err
	}
	load := flood{conns: bandwidthConns, depth: bandwidthDepth}
	load.frames, load.batchBytes = frames(topic, latencyPartitions, bandwidthBatch)
	if _, err := load.write(ctx, broker, b.scaled(runInBytes)); err != nil {
		return err
	}
	if b.o.broker.Ours() {
		return quietDisk(ctx, broker)
	}
	select {
	case <-time.After(warmUp):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// runInBytes is more than the broker's journal holds.
const runInBytes = 1536 << 20

// pacedLoad is the open loop of measurements b and c on a new topic.
func pacedLoad(ctx context.Context, broker peers.Broker, partitions int) (*paced, error) {
	topic, err := createTopic(ctx, broker, int32(partitions))
	if err != nil {
		return nil, err
	}
	load := &paced{conns: latencyConns, rate: latencyRate}
	load.frames, _ = frames(topic, partitions, latencyBatch)
	return load, nil
}

var manyPartitions = &measurement{
	letter: "c",
	title:  fmt.Sprintf("The same load over 1, 100 and 1,000 partitions: 16 KiB batches at %d/s", latencyRate),
	how:    "The open loop of measurement b on topics of 1, 100 and 1,000 partitions of one broker, which alternate as there.",
	rows: append(slices.Concat(latencyRows("one", "1 partition"), latencyRows("hundred", "100 partitions"), latencyRows("thousand", "1,000 partitions")),
		row{name: "ratio_100", label: "p99, 100 partitions / 1", unit: "x", digits: 2},
		row{name: "ratio_1000", label: "p99, 1,000 partitions / 1", unit: "x", digits: 2}),
	targets: []target{{"ratio_100", 1.5, false}, {"ratio_1000", 1.5, false}},
	run:     measureManyPartitions,
}

func measureManyPartitions(ctx context.Context, b *bench, repeat int) (figures, error) {
	f := figures{}
	err := b.withBroker(ctx, func(broker peers.Broker) error {
		if err := b.runIn(ctx, broker); err != nil {
			return err
		}
		names, partitions := []string{"one", "hundred", "thousand"}, []int{1, 100, 1000}
		var times []*latencies
		var loads []func(warm, span time.Duration) error
		for _, n := range partitions {
			load, err := pacedLoad(ctx, broker, n)
			if err != nil {
				return err
			}
			l := newLatencies()
			times = append(times, l)
			loads = append(loads, func(warm, span time.Duration) error {
				_, err := load.run(ctx, broker, warm, span, l)
				return err
			})
		}
		err := b.alternate(repeat, loads...)
		for i, l := range times {
			f.addLatency(names[i], l.result())
		}
		return err
	})
	f["ratio_100"], f["ratio_1000"] = f["hundred_p99"]/f["one_p99"], f["thousand_p99"]/f["one_p99"]
	return f, err
}
