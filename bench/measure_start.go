package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/bench/peers"
)

const (
	journalBytes      = 1 << 30
	journalPartitions = 16
	idleSettle        = 5 * time.Second
)

// keepInJournal are the settings with which a GiB stays in the journal: no
// partition has so much that it is flushed for its size, no turn so much that it
// goes to its segment at once, and there are more journal files than it takes.
var keepInJournal = []string{
	"journal.flush.bytes=" + strconv.Itoa(4<<30),
	"journal.direct.bytes=" + strconv.Itoa(1<<31-1),
	"journal.files.max=128",
}

var startAndIdle = &measurement{
	letter: "e",
	title:  "Memory when idle, first start, start after kill -9",
	how: fmt.Sprintf("Resident memory %d s after the first start, nobody connected; the start counts until ApiVersions is answered. "+
		"For the start after kill -9, %d MiB are written to %d partitions with settings under which nothing moves to segments, and the process is killed right behind the last acknowledgement; "+
		"the time counts until every partition tells its end, which covers all that was acknowledged. That the journal held it all is verified: "+
		"the broker's own line about the recovery counts the bytes replayed, and no partition has a segment.",
		int(idleSettle.Seconds()), journalBytes>>20, journalPartitions),
	rows: []row{
		{name: "rss", label: "idle resident memory", unit: "MiB"},
		{name: "first", label: "first start", unit: "s", digits: 2},
		{name: "again", label: "start after kill -9, all partitions", unit: "s", digits: 2},
		{name: "answers", label: "start after kill -9, first answer", unit: "s", digits: 2},
		{name: "replayed", label: "replayed from the journal", unit: "MiB"},
	},
	targets: []target{{"rss", 80, false}, {"first", 1, false}, {"again", 5, false}},
	ownOnly: true,
	run:     measureStart,
}

func measureStart(ctx context.Context, b *bench, _ int) (_ figures, err error) {
	f := figures{}
	broker, err := b.newBroker(keepInJournal...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, broker.Kill(), os.RemoveAll(broker.DataDir())) }()
	took, err := start(ctx, broker)
	if err != nil {
		return nil, err
	}
	f["first"] = took.Seconds()
	if err := b.settle(ctx); err != nil {
		return nil, err
	}
	if f["rss"], err = residentMiB(broker); err != nil {
		return nil, err
	}
	return f, b.measureRestart(ctx, broker, f)
}

// settle lets a broker come to rest.
func (b *bench) settle(ctx context.Context) error {
	d := idleSettle
	if b.o.smoke {
		d = time.Second
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func residentMiB(b peers.Broker) (float64, error) {
	n, err := peers.ResidentBytes(b.PID())
	return float64(n) / (1 << 20), err
}

func (b *bench) measureRestart(ctx context.Context, broker peers.Broker, f figures) error {
	topic, err := createTopic(ctx, broker, journalPartitions)
	if err != nil {
		return err
	}
	load := flood{conns: bandwidthConns, depth: bandwidthDepth}
	load.frames, load.batchBytes = frames(topic, journalPartitions, latencyBatch)
	acked, err := load.write(ctx, broker, b.scaled(journalBytes))
	if err != nil {
		return err
	}
	if err := broker.Kill(); err != nil {
		return err
	}
	if path, err := largestSegment(broker.DataDir()); err == nil {
		return fmt.Errorf("part of the data is in a segment: %s", path)
	}
	begin := time.Now()
	took, err := start(ctx, broker)
	if err != nil {
		return err
	}
	records, err := recordsOf(ctx, broker, topic)
	if err != nil {
		return err
	}
	f["answers"], f["again"] = took.Seconds(), time.Since(begin).Seconds()
	perBatch := int64(recordsIn(makeBatch(latencyBatch)))
	if want := acked / int64(load.batchBytes) * perBatch; records < want {
		return fmt.Errorf("%d records after the start, %d were acknowledged", records, want)
	}
	if f["replayed"], err = replayedMiB(broker.LogPath()); err != nil {
		return err
	}
	if f["replayed"]*(1<<20) < float64(acked) {
		return fmt.Errorf("the journal held %.0f MiB of %.0f MiB", f["replayed"], float64(acked)/(1<<20))
	}
	return nil
}

var replayedBytes = regexp.MustCompile(`replayed_bytes=(\d+)`)

// replayedMiB is what the broker's log says of its last recovery.
func replayedMiB(logPath string) (float64, error) {
	text, err := os.ReadFile(logPath)
	if err != nil {
		return 0, err
	}
	all := replayedBytes.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("%s says nothing of a recovery", logPath)
	}
	n, err := strconv.ParseInt(string(all[len(all)-1][1]), 10, 64)
	return float64(n) / (1 << 20), err
}

// ends asks for the end of every partition until all can be told.
func ends(ctx context.Context, broker peers.Broker, topic string) (sum, most int64, err error) {
	// Eager, so that the time is the broker's and not the client's waiting.
	cl, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.MetadataMinAge(10*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		listed, err := kadm.NewClient(cl).ListEndOffsets(ctx, topic)
		if err = errors.Join(err, listed.Error()); err == nil {
			listed.Each(func(o kadm.ListedOffset) { sum, most = sum+o.Offset, max(most, o.Offset) })
			return sum, most, nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return 0, 0, errors.Join(err, ctx.Err())
		}
	}
}

func recordsOf(ctx context.Context, broker peers.Broker, topic string) (int64, error) {
	sum, _, err := ends(ctx, broker, topic)
	return sum, err
}

func endOffset(ctx context.Context, broker peers.Broker, topic string) (int64, error) {
	_, most, err := ends(ctx, broker, topic)
	return most, err
}
