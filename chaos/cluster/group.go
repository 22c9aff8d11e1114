package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/chaos/check"
)

func (l *load) group() string { return l.prefix + "group" }

// groupMember consumes the small topic in the group and commits as it goes; one
// that wanders leaves and comes back, which rebalances the group.
func (l *load) groupMember(name string, wanders bool) {
	r := l.rand(200)
	for turn := 0; l.reading.Err() == nil; turn++ {
		ctx, leave := context.WithCancel(l.reading)
		if wanders {
			ctx, leave = context.WithTimeout(l.reading, time.Duration(2+r.IntN(5))*time.Second)
		}
		l.membership(ctx, fmt.Sprintf("%s turn %d", name, turn))
		leave()
		if wanders {
			pause(l.reading, time.Second)
		}
	}
}

// membership is one stay in the group.
func (l *load) membership(ctx context.Context, name string) {
	cl, err := l.client(kgo.ConsumerGroup(l.group()), kgo.ConsumeTopics(l.small.name), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.SessionTimeout(8*time.Second), kgo.RebalanceTimeout(8*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, cl *kgo.Client, parts map[string][]int32) {
			l.own(cl, name, parts)
		}))
	if err != nil {
		l.complain("%s: %v", name, err)
		return
	}
	defer cl.CloseAllowingRebalance()
	f := l.newFollower(l.group() + " " + name)
	for ctx.Err() == nil {
		polls, err := f.poll(ctx, cl)
		for _, p := range polls {
			p.From = -1 // a new owner starts at the committed offset
		}
		l.note(polls, err)
		// Commits here, while the poll holds off the next rebalance.
		l.commit(ctx, cl, name, polls)
		cl.AllowRebalance()
		pause(ctx, 100*time.Millisecond)
	}
}

func (l *load) own(cl *kgo.Client, name string, assigned map[string][]int32) {
	_, generation := cl.GroupMetadata()
	var parts []check.Part
	for topic, nums := range assigned {
		for _, n := range nums {
			parts = append(parts, check.Part{Topic: topic, Num: n})
		}
	}
	l.rec.Record(func(h *check.History) {
		h.Owners = append(h.Owners, check.Ownership{At: now(), Group: l.group(), Member: name, Generation: generation, Parts: parts})
	})
}

// commit commits what the polls delivered, in one request.
func (l *load) commit(ctx context.Context, cl *kgo.Client, name string, polls []*check.Poll) {
	offsets := map[string]map[int32]kgo.EpochOffset{}
	attempts := map[check.Part]*check.Commit{}
	_, generation := cl.GroupMetadata()
	for _, p := range polls {
		if len(p.Records) == 0 {
			continue
		}
		next := p.Records[len(p.Records)-1].Offset + 1
		if offsets[p.Part.Topic] == nil {
			offsets[p.Part.Topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[p.Part.Topic][p.Part.Num] = kgo.EpochOffset{Epoch: -1, Offset: next}
		attempts[p.Part] = &check.Commit{Span: check.Span{Invoke: now(), Return: check.Never}, Group: l.group(), Member: name,
			Generation: generation, Part: p.Part, Offset: next, Outcome: check.Unknown}
	}
	if len(attempts) == 0 {
		return
	}
	l.rec.Record(func(h *check.History) {
		for _, c := range attempts {
			h.Commits = append(h.Commits, c)
		}
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
		if err != nil {
			return
		}
		l.rec.Record(func(*check.History) {
			for _, t := range resp.Topics {
				for _, p := range t.Partitions {
					if c := attempts[check.Part{Topic: t.Topic, Num: p.Partition}]; c != nil {
						c.Return, c.Outcome = now(), outcomeOf(kerr.ErrorForCode(p.ErrorCode))
						if c.Outcome == check.Acked {
							l.commits.Add(1)
						}
					}
				}
			}
		})
	})
}

// groupObserver reads the committed offsets again and again.
func (l *load) groupObserver() {
	for pause(l.reading, 700*time.Millisecond) {
		if err := l.observeGroup(l.reading, 2*time.Second); err != nil {
			continue // the broker is away; the final observation must succeed
		}
	}
}

// observeGroup records the group's committed offsets once.
func (l *load) observeGroup(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cl, err := l.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	invoke := now()
	got, err := kadm.NewClient(cl).FetchOffsets(ctx, l.group())
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return err
	}
	if _, unnamed := got[""]; unnamed {
		// The answer tells topics by ID, and the client could not ask for the
		// names any more: it says nothing about offsets.
		return errors.New("the client could not resolve the topics of an answer")
	}
	at := check.Span{Invoke: invoke, Return: now()}
	var seen []check.OffsetFetch
	for n := range l.small.partitions {
		o := check.OffsetFetch{Span: at, Group: l.group(), Part: check.Part{Topic: l.small.name, Num: n}, Offset: -1}
		if p, ok := got.Lookup(l.small.name, n); ok {
			if p.Err != nil {
				return p.Err
			}
			o.Offset = p.At
		}
		seen = append(seen, o)
	}
	l.rec.Record(func(h *check.History) { h.Fetches = append(h.Fetches, seen...) })
	return nil
}
