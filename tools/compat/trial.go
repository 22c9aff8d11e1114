package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// trial is one cell while it runs. Its methods stop doing anything once one of
// them has failed, so that a scenario reads as the list of its steps; err is the
// first failure.
type trial struct {
	ctx          context.Context
	s            *suite
	c            client
	topic, group string
	lane         *lane
	err          error

	fed        int // records given to topic by feed
	members    []*driver
	past       []gotRecord // of members that have ended
	repeatable [2]int      // records that may be handed over twice, [begin, end)
}

// lane holds the driver processes of one client, which its cells use one after
// the other.
type lane struct {
	drivers []*driver
	started int
}

func (l *lane) close(d func(*driver)) {
	for _, x := range l.drivers {
		if x != nil {
			d(x)
		}
	}
	l.drivers = nil
}

func (t *trial) fail(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

// check takes over an error.
func (t *trial) check(err error, what string) {
	if err != nil {
		t.fail("%s: %w", what, err)
	}
}

// driver returns the client's driver number i, started when it does not run.
func (t *trial) driver(i int) *driver {
	for len(t.lane.drivers) <= i {
		t.lane.drivers = append(t.lane.drivers, nil)
	}
	if t.lane.drivers[i] == nil && t.err == nil {
		t.lane.drivers[i] = t.start(t.s.target.brokers)
	}
	return t.lane.drivers[i]
}

// start runs a driver against the given address.
func (t *trial) start(brokers string) *driver {
	if t.err != nil {
		return nil
	}
	t.lane.started++
	path := filepath.Join(t.s.logs, fmt.Sprintf("%s-%d.log", t.c.name, t.lane.started))
	d, err := startDriver(t.c, t.s.in, brokers, path)
	t.check(err, "start the driver")
	return d
}

// ready starts driver number i and waits until it answers anything, an error for
// a command that there is not too.
func (t *trial) ready(i int) {
	d := t.driver(i)
	if t.err != nil {
		return
	}
	var r *refusal
	if _, err := d.do(t.ctx, "ready"); !errors.As(err, &r) {
		t.check(err, "start the driver")
	}
}

// kill ends driver number i, a member, without a warning.
func (t *trial) kill(i int) {
	if t.err == nil {
		d := t.lane.drivers[i]
		t.lane.drivers[i] = nil
		d.kill()
		t.retire(d)
	}
}

// do gives a command that must succeed and returns its answer.
func (t *trial) do(d *driver, format string, args ...any) map[string]string {
	if t.err != nil {
		return nil
	}
	command := fmt.Sprintf(format, args...)
	answer, err := d.do(t.ctx, command)
	t.check(err, command)
	return answer
}

// refused gives a command that must be refused with one of the codes.
func (t *trial) refused(d *driver, codes []int, format string, args ...any) {
	if t.err != nil {
		return
	}
	command := fmt.Sprintf(format, args...)
	_, err := d.do(t.ctx, command)
	var r *refusal
	switch {
	case err == nil:
		t.fail("%s: not refused, want error %v", command, codes)
	case !errors.As(err, &r):
		t.check(err, command)
	default:
		for _, c := range codes {
			if r.code == c {
				return
			}
		}
		t.fail("%s: refused by %.150q, want code %v", command, r.text, codes)
	}
}

// number is a number of an answer.
func (t *trial) number(answer map[string]string, name string) int64 {
	if t.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(answer[name], 10, 64)
	if err != nil {
		t.fail("the answer has no number %s: %v", name, answer)
	}
	return n
}

// await waits until holds returns true; what says what is missing.
func (t *trial) await(limit time.Duration, holds func() bool, what func() string) {
	if t.err != nil {
		return
	}
	end := time.Now().Add(limit)
	for !holds() {
		if t.err == nil && time.Now().After(end) {
			t.fail("not within %v: %s", limit, what())
		}
		if t.err == nil {
			t.check(sleep(t.ctx, 10*time.Millisecond), "wait")
		}
		if t.err != nil {
			return
		}
	}
}

// create makes the trial's topic; configs are name, value, name, value.
func (t *trial) create(partitions int, configs ...string) {
	if t.err != nil {
		return
	}
	m := map[string]*string{}
	for i := 0; i+1 < len(configs); i += 2 {
		m[configs[i]] = &configs[i+1]
	}
	t.check(t.s.create(t.ctx, partitions, m, t.topic), "create the topic")
}

// feed produces the next count records, one after the other to the partitions,
// through the runner's own client.
func (t *trial) feed(count, partitions int) {
	if t.err != nil {
		return
	}
	rs := records(t.topic, t.fed, t.fed+count)
	for i, r := range rs {
		r.Partition = int32((t.fed + i) % partitions)
	}
	t.check(t.s.produce(t.ctx, rs), "produce")
	t.fed += count
}

// read returns the records of the trial's topic, which must be exactly count in
// partition 0.
func (t *trial) read(topic string, count int) []*kgo.Record {
	if t.err != nil {
		return nil
	}
	rs, err := t.s.read(t.ctx, topic, count)
	t.check(err, "the client is content, but")
	return rs
}

// holds demands that topic's partition 0 has exactly the records with these
// numbers, in this order.
func (t *trial) holds(topic string, numbers []int) []*kgo.Record {
	rs := t.read(topic, len(numbers))
	for i, r := range rs {
		if n := numbers[i]; string(r.Key) != key(n) || string(r.Value) != value(n) {
			t.fail("the client is content, but record %d is %.12q, want %.12q", i, r.Value, value(n))
		}
	}
	return rs
}

func numbers(begin, end int) []int {
	var out []int
	for i := begin; i < end; i++ {
		out = append(out, i)
	}
	return out
}
