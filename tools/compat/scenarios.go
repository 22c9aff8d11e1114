package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// scenario is one column of the table. prepare makes the topics and returns the
// driver's arguments beside --topic and --group; verify looks at the broker
// through another client once the driver has said ok.
type scenario struct {
	name    string
	driver  string
	prepare func(ctx context.Context, s *suite, c client, topic string) ([]string, error)
	verify  func(ctx context.Context, s *suite, c client, topic, group string) error
}

const (
	produceCount = 300
	sharedCount  = 500
	seekCount    = 100
	seekFirst    = 57
	seekStepMs   = 1000
)

var scenarioTable = []scenario{
	{name: "create", driver: "create", prepare: nothing, verify: verifyCreated},
	produceScenario("none"), produceScenario("gzip"), produceScenario("snappy"), produceScenario("lz4"), produceScenario("zstd"),
	{name: "idempotent", driver: "idempotent", verify: verifyIdempotent,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--count", strconv.Itoa(produceCount)}, s.create(ctx, 1, topic)
		}},
	{name: "consume", driver: "consume", verify: nothingMore,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--count", strconv.Itoa(sharedCount)}, s.fillEveryCodec(ctx, topic, sharedCount)
		}},
	{name: "group", driver: "group", verify: verifyGroup,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 4, topic)
		}},
	{name: "seek", driver: "seek", prepare: prepareSeek, verify: nothingMore},
	{name: "delete", driver: "delete", verify: verifyDeleted,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 1, topic)
		}},
	{name: restartName, driver: "restart", verify: nothingMore,
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return nil, s.create(ctx, 2, topic)
		}},
}

const restartName = "restart"

var acksTable = []string{"0", "1", "all"}

func produceScenario(codec string) scenario {
	return scenario{name: codec, driver: "produce",
		prepare: func(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
			return []string{"--codec", codec, "--count", strconv.Itoa(produceCount)}, s.create(ctx, 1, withAcks(topic)...)
		},
		verify: func(ctx context.Context, s *suite, c client, topic, _ string) error {
			for i, t := range withAcks(topic) {
				got, err := s.read(ctx, t, produceCount)
				if err != nil {
					return fmt.Errorf("acks=%s: %w", acksTable[i], err)
				}
				for j, r := range got {
					if !c.ownValues && (string(r.Key) != key(j) || string(r.Value) != value(j)) {
						return fmt.Errorf("acks=%s: record %d is %.12q", acksTable[i], j, r.Value)
					}
					if have := codecNames[r.Attrs.CompressionType()]; have != codec {
						return fmt.Errorf("acks=%s: record %d is in codec %s", acksTable[i], j, have)
					}
				}
			}
			return nil
		}}
}

func withAcks(topic string) []string {
	var out []string
	for _, a := range acksTable {
		out = append(out, topic+"-"+a)
	}
	return out
}

func nothing(context.Context, *suite, client, string) ([]string, error) { return nil, nil }

func nothingMore(context.Context, *suite, client, string, string) error { return nil }

// prepareSeek writes records a second apart in batches of ten and asks for a
// time between two records of one batch.
func prepareSeek(ctx context.Context, s *suite, _ client, topic string) ([]string, error) {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := s.fillTimed(ctx, topic, seekCount, 10, base, seekStepMs*time.Millisecond); err != nil {
		return nil, err
	}
	at := base.UnixMilli() + seekFirst*seekStepMs - seekStepMs/2
	return []string{"--count", strconv.Itoa(seekCount), "--first", strconv.Itoa(seekFirst), "--timestamp", strconv.FormatInt(at, 10)}, nil
}

func verifyCreated(ctx context.Context, s *suite, c client, topic, _ string) error {
	return s.awaitPartitions(ctx, topic, func(n int) bool { return n == 3 || c.autoCreates && n > 0 })
}

func verifyDeleted(ctx context.Context, s *suite, _ client, topic, _ string) error {
	return s.awaitPartitions(ctx, topic, func(n int) bool { return n == 0 })
}

// awaitPartitions gives metadata ten seconds to show what it should.
func (s *suite) awaitPartitions(ctx context.Context, topic string, right func(int) bool) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n, err := s.partitions(ctx, topic)
		if err != nil || right(n) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("metadata shows %d partitions after 10 s", n)
		}
	}
}

func verifyIdempotent(ctx context.Context, s *suite, c client, topic, _ string) error {
	got, err := s.read(ctx, topic, produceCount)
	if err != nil {
		return err
	}
	for i, r := range got {
		if !c.ownValues && string(r.Value) != value(i) {
			return fmt.Errorf("record %d is %.12q", i, r.Value)
		}
		if r.ProducerID < 0 {
			return fmt.Errorf("record %d carries no producer ID", i)
		}
	}
	return nil
}

// verifyGroup: three hundred records were consumed, so the group's committed
// offsets add up to that.
func verifyGroup(ctx context.Context, s *suite, c client, topic, group string) error {
	if c.deletesGroup {
		return nil
	}
	sum, err := s.committed(ctx, group, topic)
	if err != nil {
		return err
	}
	if want := int64(3 * perRound); sum != want {
		return fmt.Errorf("committed offsets add up to %d, want %d", sum, want)
	}
	return nil
}
