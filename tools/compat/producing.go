package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

var acksTable = []string{"0", "1", "all"}

func withAcks(topic string) []string {
	var out []string
	for _, a := range acksTable {
		out = append(out, topic+"-"+a)
	}
	return out
}

// produceScenario demands of one codec, with each acks, the right records in the
// right codec.
func produceScenario(codec string) scenario {
	return scenario{name: "produce-" + codec, run: func(t *trial) {
		t.check(t.s.create(t.ctx, 1, nil, withAcks(t.topic)...), "create the topics")
		d := t.driver(0)
		for i, topic := range withAcks(t.topic) {
			t.do(d, "producer codec=%s acks=%s", codec, acksTable[i])
			t.do(d, "send topic=%s first=0 count=%d", topic, produceCount)
			t.do(d, "close-producer")
			for j, r := range t.holds(topic, numbers(0, produceCount)) {
				if have := codecNames[r.Attrs.CompressionType()]; have != codec {
					t.fail("acks=%s: record %d is in codec %s", acksTable[i], j, have)
				}
			}
		}
	}}
}

// idempotentCut: connections are dropped after the broker has a request and
// before the client has the answer, and in the middle of a request; no record
// may be lost, doubled or out of order.
func idempotentCut(t *trial) {
	t.create(1)
	p, err := newProxy(t.s.brokers[0], produceCuts(map[int]cut{2: cutAnswer, 5: cutRequest, 8: cutAnswer, 9: cutAnswer}))
	if err != nil {
		t.check(err, "start the proxy")
		return
	}
	defer p.close()
	d := t.start(p.addr())
	if t.err != nil {
		return
	}
	defer d.close()
	t.do(d, "producer idempotent=yes batch=10")
	t.do(d, "send topic=%s first=0 count=%d", t.topic, produceCount)
	t.do(d, "close-producer")
	for i, r := range t.holds(t.topic, numbers(0, produceCount)) {
		if r.ProducerID < 0 {
			t.fail("record %d carries no producer ID", i)
		}
	}
	if cuts, produces := p.counts(); t.err == nil && cuts != 4 {
		t.fail("only %d connections were cut in %d produce requests", cuts, produces)
	}
	t.check(p.err(), "the proxy")
}

// invalidRecord: a record that is too old is refused, and the same producer goes
// on.
func invalidRecord(t *trial) {
	t.create(1, "message.timestamp.before.max.ms", "3600000")
	old := time.Now().Add(-24 * time.Hour).UnixMilli()
	t.goesOn([]int{invalidTimestamp}, fmt.Sprintf("topic=%s first=10 count=1 timestamp=%d", t.topic, old))
}

// oversizeRecord: a record beyond max.message.bytes is refused with the code for
// it, and the same producer goes on.
func oversizeRecord(t *trial) {
	t.create(1, "max.message.bytes", "10000")
	t.goesOn([]int{messageTooLarge}, fmt.Sprintf("topic=%s first=10 count=1 size=50000", t.topic))
}

// invalidTopicName: a record for a topic that cannot be is refused, and the same
// producer goes on.
func invalidTopicName(t *trial) {
	t.create(1)
	codes := t.c.badTopic
	if codes == nil {
		codes = []int{invalidTopic}
	}
	t.goesOn(codes, fmt.Sprintf("topic=%s!bad first=10 count=1", t.topic))
}

// goesOn sends ten records, one that must be refused with one of the codes, and
// ten more, with the same producer.
func (t *trial) goesOn(codes []int, bad string) {
	d := t.driver(0)
	t.do(d, "producer")
	t.do(d, "send topic=%s first=0 count=10", t.topic)
	t.refused(d, codes, "send %s", bad)
	t.do(d, "send topic=%s first=11 count=10", t.topic)
	t.do(d, "close-producer")
	t.holds(t.topic, append(numbers(0, 10), numbers(11, 21)...))
}

// transaction: a broker that does not serve transactions refuses them at once and
// with a code, and the client goes on without; one that serves them does.
func transaction(t *trial) {
	t.create(1)
	d := t.driver(0)
	if t.err != nil {
		return
	}
	served, err := t.s.serves(t.ctx, transactionalKey)
	t.check(err, "ask for the API versions")
	begin := time.Now()
	if served {
		t.do(d, "transact topic=%s id=%s first=0 count=10", t.topic, t.topic)
		rs, err := t.s.poll(t.ctx, t.topic, 10)
		t.check(err, "the client is content, but")
		if t.err == nil && (len(rs) != 10 || !rs[0].Attrs.IsTransactional()) {
			t.fail("the client is content, but there are %d records", len(rs))
		}
		return
	}
	t.refusedTransaction(d)
	if took := time.Since(begin); took > 10*time.Second {
		t.fail("the refusal took %.0f s", took.Seconds())
	}
	t.do(d, "producer")
	t.do(d, "send topic=%s first=0 count=10", t.topic)
	t.do(d, "close-producer")
	t.holds(t.topic, numbers(0, 10))
}

// refusedTransaction gives a transaction that must be refused by a code for it, by
// the broker's text, or by what the client says in its place.
func (t *trial) refusedTransaction(d *driver) {
	if t.err != nil {
		return
	}
	_, err := d.do(t.ctx, fmt.Sprintf("transact topic=%s id=%s first=0 count=10", t.topic, t.topic))
	var r *refusal
	switch {
	case err == nil:
		t.fail("the transaction was not refused")
	case !errors.As(err, &r):
		t.check(err, "transact")
	case r.code == invalidRequest || r.code == transactionalIDAuthFailed || strings.Contains(r.text, "transactions are not served"):
	case t.c.noCoordinator == "" || !strings.Contains(r.text, t.c.noCoordinator):
		t.fail("the transaction was refused by %.150q", r.text)
	}
}

func consumeStart(t *trial) {
	t.check(t.s.fillEveryCodec(t.ctx, t.topic, sharedCount), "fill the topic")
	t.consume("start", 0, sharedCount)
}

// consumeEnd: what is there is not consumed, what comes is.
func consumeEnd(t *trial) {
	t.create(1)
	t.feed(100, 1)
	d := t.driver(0)
	t.do(d, "assign topic=%s from=end", t.topic)
	t.feed(100, 1)
	t.receives(d, 100, 200)
	t.do(d, "leave")
}

func consumeOffset(t *trial) {
	t.create(1)
	t.feed(100, 1)
	t.consume("offset:57", 57, 100)
}

// consumeTime asks for a time between two records of one batch.
func consumeTime(t *trial) {
	at := t.fillTimed()
	t.consume(fmt.Sprintf("timestamp:%d", at), 57, 100)
}

// fillTimed creates the topic with a hundred records a second apart, ten a batch,
// and returns a time between the records 56 and 57.
func (t *trial) fillTimed() int64 {
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	t.check(t.s.fillTimed(t.ctx, t.topic, 100, 10, base, millisecondsPerRecord*time.Millisecond), "fill the topic")
	return base.UnixMilli() + 57*millisecondsPerRecord - millisecondsPerRecord/2
}

// consumeCut: connections are dropped before and in the middle of answers with
// records; the consumer hands over each record once, in order.
func consumeCut(t *trial) {
	t.create(1)
	p, err := newProxy(t.s.brokers[0], fetchCuts(map[int]cut{1: cutHalf, 3: cutAnswer, 4: cutHalf, 7: cutAnswer}))
	if err != nil {
		t.check(err, "start the proxy")
		return
	}
	defer p.close()
	d := t.start(p.addr())
	if t.err != nil {
		return
	}
	defer d.close()
	t.do(d, "assign topic=%s from=start", t.topic)
	for range 6 {
		t.feed(perRound, 1)
		t.receives(d, 0, t.fed)
	}
	t.do(d, "leave")
	if cuts, answers := p.counts(); t.err == nil && cuts != 4 {
		t.fail("only %d connections were cut in %d answers with records", cuts, answers)
	}
	t.check(p.err(), "the proxy")
}

// consume reads partition 0 from a position; it must give the records [begin, end).
func (t *trial) consume(from string, begin, end int) {
	d := t.driver(0)
	t.do(d, "assign topic=%s from=%s", t.topic, from)
	t.receives(d, begin, end)
	t.do(d, "leave")
}

// receives demands that the consumer of partition 0 hands over exactly the
// records [begin, end) in order, each at its own offset.
func (t *trial) receives(d *driver, begin, end int) {
	if t.err != nil {
		return
	}
	var got []gotRecord
	t.await(20*time.Second, func() bool {
		var err error
		got, err = d.got()
		t.check(err, "consume")
		return len(got) >= end-begin
	}, func() string { return fmt.Sprintf("%d of %d records", len(got), end-begin) })
	for i, r := range got {
		if n := begin + i; t.err == nil && (r != gotRecord{0, int64(n), n}) {
			t.fail("record %d of the consumer is %v, want number and offset %d", i, r, n)
		}
	}
}
