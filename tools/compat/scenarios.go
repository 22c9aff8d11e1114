package main

import (
	"context"
	"fmt"
	"time"
)

// scenario is one row of the table. run gives the client's driver its orders and
// looks at the broker through another client.
type scenario struct {
	name string
	run  func(t *trial)
	// restarts: the broker is restarted meanwhile, so the scenario runs at the end,
	// together with its like.
	restarts bool
}

const (
	produceCount = 300
	sharedCount  = 500
)

// Kafka's error codes that clients must show.
const (
	offsetOutOfRange          = 1
	unknownTopic              = 3
	messageTooLarge           = 10
	invalidTopic              = 17
	invalidTimestamp          = 32
	topicAlreadyExists        = 36
	invalidConfig             = 40
	invalidRequest            = 42
	transactionalIDAuthFailed = 53
	nonEmptyGroup             = 68
	groupIDNotFound           = 69
	fencedInstanceID          = 82
	transactionalKey          = 24 // AddPartitionsToTxn
	millisecondsPerRecord     = 1000
)

var scenarioTable = []scenario{
	{name: "create-topic", run: createTopic},
	{name: "delete-topic", run: deleteTopic},
	produceScenario("none"), produceScenario("gzip"), produceScenario("snappy"), produceScenario("lz4"), produceScenario("zstd"),
	{name: "idempotent-cut", run: idempotentCut},
	{name: "oversize-record", run: oversizeRecord},
	{name: "invalid-record", run: invalidRecord},
	{name: "invalid-topic", run: invalidTopicName},
	{name: "transaction", run: transaction},
	{name: "consume-start", run: consumeStart},
	{name: "consume-end", run: consumeEnd},
	{name: "consume-offset", run: consumeOffset},
	{name: "consume-time", run: consumeTime},
	{name: "consume-cut", run: consumeCut},
	{name: "delete-records", run: deleteRecords},
	{name: "group-eager", run: func(t *trial) { groupComesAndGoes(t, t.c.eagerAssignor(), false) }},
	{name: "group-coop", run: func(t *trial) { groupComesAndGoes(t, "cooperative-sticky", true) }},
	{name: "group-crash", run: groupCrash},
	{name: "group-static", run: groupStatic},
	{name: "group-fenced", run: groupFenced},
	{name: "commit-resume", run: commitResume},
	{name: "reset-start", run: func(t *trial) { resetOffset(t, "start", 20) }},
	{name: "reset-end", run: func(t *trial) { resetOffset(t, "end", 100) }},
	{name: "reset-offset", run: func(t *trial) { resetOffset(t, "offset:33", 33) }},
	{name: "reset-time", run: func(t *trial) { resetOffset(t, "timestamp", 57) }},
	{name: "reset-shift", run: func(t *trial) { resetOffset(t, "shift:-25", 25) }},
	{name: "delete-group", run: deleteGroup},
	{name: "add-partitions", run: addPartitions},
	{name: "restart", run: restart, restarts: true},
}

func createTopic(t *trial) {
	d := t.driver(0)
	configs := map[string]string{"retention.ms": "3600000", "max.message.bytes": "100000"}
	if t.c.autoCreates {
		configs = nil
		t.do(d, "create topic=%s partitions=0", t.topic)
	} else {
		t.do(d, "create topic=%s partitions=3 configs=retention.ms:3600000,max.message.bytes:100000", t.topic)
		shown := 0
		t.await(10*time.Second, func() bool {
			shown = int(t.number(t.do(d, "partitions topic=%s", t.topic), "count"))
			return shown == 3
		}, func() string { return fmt.Sprintf("the client sees %d partitions, want 3", shown) })
		t.refused(d, []int{topicAlreadyExists}, "create topic=%s partitions=3", t.topic)
		t.refused(d, []int{invalidConfig}, "create topic=%s-2 partitions=1 configs=retention.ms:soon", t.topic)
	}
	if t.err != nil {
		return
	}
	t.check(t.s.awaitPartitions(t.ctx, t.topic, func(n int) bool { return n == 3 || t.c.autoCreates && n > 0 }), "the client is content, but")
	for name, want := range configs {
		have, err := t.s.topicConfig(t.ctx, t.topic, name)
		t.check(err, "describe the topic")
		if t.err == nil && have != want {
			t.fail("the client is content, but %s is %q, want %q", name, have, want)
		}
	}
}

func deleteTopic(t *trial) {
	t.create(2)
	t.feed(10, 2)
	d := t.driver(0)
	t.do(d, "delete topic=%s", t.topic)
	if t.err == nil {
		t.check(t.s.awaitPartitions(t.ctx, t.topic, func(n int) bool { return n == 0 }), "the client is content, but")
	}
	t.refused(d, []int{unknownTopic}, "delete topic=%s", t.topic)
}

// deleteRecords: what is below the offset is gone, the rest is not, and an offset
// beyond the end is refused.
func deleteRecords(t *trial) {
	t.create(1)
	t.feed(100, 1)
	d := t.driver(0)
	if low := t.number(t.do(d, "trim topic=%s partition=0 offset=40", t.topic), "low"); t.err == nil && low != 40 {
		t.fail("the new log start is %d, want 40", low)
	}
	t.refused(d, []int{offsetOutOfRange}, "trim topic=%s partition=0 offset=1000", t.topic)
	if t.err != nil {
		return
	}
	starts, err := t.s.adm.ListStartOffsets(t.ctx, t.topic)
	t.check(err, "list the start offset")
	if start, _ := starts.Lookup(t.topic, 0); t.err == nil && start.Offset != 40 {
		t.fail("the client is content, but the log starts at %d, want 40", start.Offset)
	}
	t.do(d, "assign topic=%s from=start", t.topic)
	t.receives(d, 40, 100)
	t.do(d, "leave")
}

// topicConfig asks for one setting of a topic.
func (s *suite) topicConfig(ctx context.Context, topic, name string) (string, error) {
	rs, err := s.adm.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return "", err
	}
	for _, r := range rs {
		if r.Err != nil {
			return "", r.Err
		}
		for _, c := range r.Configs {
			if c.Key == name {
				return c.MaybeValue(), nil
			}
		}
	}
	return "", fmt.Errorf("no setting %s", name)
}
