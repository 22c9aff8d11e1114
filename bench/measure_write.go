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
		"The bare disk appends as many bytes at the same times to a pre-written file (O_DIRECT) with an fdatasync; what is due by then goes into one write.", latencyConns),
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
	var ours, bare latency
	err := inTurn(repeat, func() error {
		return b.withBroker(ctx, func(broker peers.Broker) (err error) {
			ours, err = pacedLoad(ctx, broker, latencyPartitions, b.span())
			return err
		})
	}, func() (err error) {
		bare, err = b.disk.latency(ctx, latencyRate, latencyBatch, b.span())
		return err
	})
	f.addLatency("broker", ours)
	f.addLatency("bare", bare)
	f["ratio_p50"], f["ratio_p99"], f["ratio_p999"] = ours.P50/bare.P50, ours.P99/bare.P99, ours.P999/bare.P999
	f["broker_cores"], f["load_cores"] = ours.BrokerCores, ours.LoadCores
	return f, err
}

// pacedLoad is the open loop of measurements b and c on a new topic.
func pacedLoad(ctx context.Context, broker peers.Broker, partitions int, span time.Duration) (latency, error) {
	topic, err := createTopic(ctx, broker, int32(partitions))
	if err != nil {
		return latency{}, err
	}
	load := paced{conns: latencyConns, rate: latencyRate}
	load.frames, _ = frames(topic, partitions, latencyBatch)
	return load.run(ctx, broker, span)
}

var manyPartitions = &measurement{
	letter: "c",
	title:  fmt.Sprintf("The same load over 1, 100 and 1,000 partitions: 16 KiB batches at %d/s", latencyRate),
	how:    "The open loop of measurement b on topics of 1, 100 and 1,000 partitions of one broker, one after the other.",
	rows: append(slices.Concat(latencyRows("one", "1 partition"), latencyRows("hundred", "100 partitions"), latencyRows("thousand", "1,000 partitions")),
		row{name: "ratio_100", label: "p99, 100 partitions / 1", unit: "x", digits: 2},
		row{name: "ratio_1000", label: "p99, 1,000 partitions / 1", unit: "x", digits: 2}),
	targets: []target{{"ratio_100", 1.5, false}, {"ratio_1000", 1.5, false}},
	run:     measureManyPartitions,
}

func measureManyPartitions(ctx context.Context, b *bench, repeat int) (figures, error) {
	f := figures{}
	err := b.withBroker(ctx, func(broker peers.Broker) error {
		step := func(name string, partitions int) func() error {
			return func() error {
				l, err := pacedLoad(ctx, broker, partitions, b.span())
				f.addLatency(name, l)
				return err
			}
		}
		return inTurn(repeat, step("one", 1), step("hundred", 100), step("thousand", 1000))
	})
	f["ratio_100"], f["ratio_1000"] = f["hundred_p99"]/f["one_p99"], f["thousand_p99"]/f["one_p99"]
	return f, err
}
