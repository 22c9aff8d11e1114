package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"millrace/chaos/check"
)

// startReader reads all partitions of t from the start for as long as the load
// runs.
func (l *load) startReader(name string, t topicSpec) error {
	cl, err := l.client(kgo.ConsumeTopics(t.name))
	if err != nil {
		return err
	}
	l.others.Go(func() {
		defer cl.Close()
		f := l.newFollower(name)
		for l.reading.Err() == nil {
			l.note(f.poll(l.reading, cl))
		}
	})
	return nil
}

// follower turns a client's fetches into polls.
type follower struct {
	name string
	// began is when the last poll began that brought an answer of the broker: the
	// client asks for more as soon as a poll empties its buffer, so the next answer
	// may be that old. A poll that brings an error of the client's own empties none.
	began int64
	next  map[check.Part]int64
	// laggingEnd: the broker may tell an end below the last record that it sends
	// along (Kafka looks the two up one after the other).
	laggingEnd bool
}

func (l *load) newFollower(name string) *follower {
	return &follower{name: name, began: now(), next: map[check.Part]int64{}, laggingEnd: l.lagging}
}

// poll waits for one fetch. Errors: a record that is none of ours.
func (f *follower) poll(ctx context.Context, cl *kgo.Client) ([]*check.Poll, error) {
	begins := now()
	fetches := cl.PollFetches(ctx)
	return f.take(fetches, begins, now())
}

// take is what a poll that began at begins and ended at ends brought.
func (f *follower) take(fetches kgo.Fetches, begins, ends int64) ([]*check.Poll, error) {
	at := check.Span{Invoke: f.began, Return: ends}
	var polls []*check.Poll
	var bad error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if p.Err != nil {
			return
		}
		f.began = begins
		part := check.Part{Topic: p.Topic, Num: p.Partition}
		poll := &check.Poll{Span: at, Reader: f.name, Part: part, From: f.next[part], LogStart: p.LogStartOffset, End: p.HighWatermark}
		if len(p.Records) > 0 {
			poll.From = askedFor(poll.From, p.LogStartOffset, p.Records[0].Offset)
		}
		for _, r := range p.Records {
			k, err := parse(r.Value)
			if err != nil {
				bad = fmt.Errorf("%v offset %d: %w", part, r.Offset, err)
				return
			}
			poll.Records = append(poll.Records, check.Record{Offset: r.Offset, Key: k, Sum: sum(r.Value)})
			f.next[part] = r.Offset + 1
		}
		if n := len(poll.Records); f.laggingEnd && n > 0 {
			poll.End = max(poll.End, poll.Records[n-1].Offset+1)
		}
		polls = append(polls, poll)
	})
	return polls, bad
}

// askedFor is the offset that a client asked for whose position was next, when the
// answer begins with offset first. A client that retention has overtaken is told
// OFFSET_OUT_OF_RANGE and asks at the log start by itself: only there may the
// answer begin then.
func askedFor(next, logStart, first int64) int64 {
	if first != next && logStart > next {
		return logStart
	}
	return next
}

func (l *load) note(polls []*check.Poll, err error) {
	if err != nil {
		l.complain("%v", err)
	}
	n := 0
	for _, p := range polls {
		n += len(p.Records)
	}
	l.polled.Add(int64(n))
	l.rec.Record(func(h *check.History) { h.Polls = append(h.Polls, polls...) })
}

// readAll is the final read of t: everything from log start to end, by a client
// of its own.
func (l *load) readAll(ctx context.Context, t topicSpec) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cl, err := l.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	starts, ends, err := bounds(ctx, adm, t.name)
	if err != nil {
		return err
	}
	name := "final read"
	f := l.newFollower(name)
	want := map[string]map[int32]kgo.Offset{t.name: {}}
	open := map[check.Part]int64{}
	for n := range t.partitions {
		start, ok1 := starts.Lookup(t.name, n)
		end, ok2 := ends.Lookup(t.name, n)
		if !ok1 || !ok2 {
			return fmt.Errorf("%s/%d has no offsets", t.name, n)
		}
		part := check.Part{Topic: t.name, Num: n}
		f.next[part] = start.Offset
		want[t.name][n] = kgo.NewOffset().At(start.Offset)
		if end.Offset > start.Offset {
			open[part] = end.Offset
		}
		l.rec.Record(func(h *check.History) {
			h.Finals = append(h.Finals, check.Final{Part: part, Reader: name, Start: start.Offset, End: end.Offset})
		})
	}
	cl.AddConsumePartitions(want)
	for len(open) > 0 {
		l.note(f.poll(ctx, cl))
		for part, end := range open {
			if f.next[part] >= end {
				delete(open, part)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("final read of %s stuck before the ends %v (at %v)", t.name, open, f.next)
		}
	}
	return nil
}

// bounds lists start and end of each partition. Right after a start leaders are
// still being elected, so it tries for as long as ctx lasts.
func bounds(ctx context.Context, adm *kadm.Client, topic string) (starts, ends kadm.ListedOffsets, err error) {
	for {
		starts, err = adm.ListStartOffsets(ctx, topic)
		if err = errors.Join(err, starts.Error()); err == nil {
			ends, err = adm.ListEndOffsets(ctx, topic)
			err = errors.Join(err, ends.Error())
		}
		if err == nil || !pause(ctx, 100*time.Millisecond) {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("start and end offsets of %s: %w", topic, err)
	}
	return starts, ends, err
}
