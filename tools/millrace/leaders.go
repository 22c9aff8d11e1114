package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/core"
	"millrace/core/meta"
	"millrace/net/listener"
	"millrace/shard"
)

// leadersWait bounds how long a start waits for elections that it can decide
// alone. Tests shorten it.
var leadersWait = 10 * time.Second

// leaderlessNamed bounds how many partitions one log line names.
const leaderlessNamed = 10

// awaitLeaders waits until every partition that has its only replica here has a
// leader, so that the first clients are not told that there is none: they would
// stay away for seconds. Damaged logs are not waited for. After wait clients are
// accepted all the same. Errors: core.ErrStorageFailed.
func (b *broker) awaitLeaders(wait time.Duration) error {
	im := b.srv.Image()
	byShard := make([][]core.PartitionID, shardCount(b.cfg))
	for _, p := range b.alone(im) {
		s := core.ShardOf(p.ID, len(byShard))
		byShard[s] = append(byShard[s], p.ID)
	}
	began := time.Now()
	asks, answers := make([]*shard.Await, len(byShard)), make([]answer, len(byShard))
	for i, parts := range byShard {
		s, done := core.ShardID(i), make(answer)
		q := &shard.Await{MinVersion: im.Version, Partitions: parts}
		q.Owner = done
		asks[i], answers[i] = q, done
		submit := func(l *listener.Loop) {
			q.Deadline = l.Now() + core.Tick(wait.Milliseconds())*core.Millisecond
			l.Submit(s, q)
		}
		for !b.srv.Post(s, submit) {
			time.Sleep(time.Millisecond)
		}
	}
	for i, q := range asks {
		<-answers[i]
		switch {
		case errors.Is(q.Err, core.ErrStorageFailed):
			return q.Err
		case q.Err != nil && !errors.Is(q.Err, core.ErrNoLeader):
			return fmt.Errorf("waiting for the leaders of shard %d: %w", i, q.Err)
		}
	}
	if n, names := b.leaderless(); n > 0 {
		b.log.Warn("clients are accepted although some partitions have no leader yet", "partitions", n, "first", names, "waited", time.Since(began).Round(time.Millisecond))
	}
	return nil
}

// placed is a partition and its topic.
type placed struct {
	*meta.Partition
	topic *meta.Topic
}

// alone lists the partitions whose only replica is on this node.
func (b *broker) alone(im *meta.Image) (out []placed) {
	for _, t := range im.Topics() {
		for _, p := range t.Partitions {
			if len(p.Replicas) == 1 && p.Replicas[0] == b.live.node {
				out = append(out, placed{p, t})
			}
		}
	}
	return out
}

// leaderless counts the partitions of alone that have no leader though their
// logs are whole, and names the first of them.
func (b *broker) leaderless() (n int, names string) {
	var first []string
	for _, p := range b.alone(b.srv.Image()) {
		if leader, _ := p.Leader.Get(); leader != core.NoNode || b.damaged[p.ID] != nil {
			continue
		}
		if n++; len(first) < leaderlessNamed {
			first = append(first, fmt.Sprintf("%s-%d", p.topic.Name, p.Num))
		}
	}
	return n, strings.Join(first, " ")
}
