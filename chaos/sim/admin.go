package sim

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/chaos/check"
	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

// topics is the admin client: it knows names, not state.
type topics struct {
	s     *Sim
	conn  *conn
	names []string
}

const topicsMax = 6

func (s *Sim) startClients() {
	s.topics = &topics{s: s, conn: s.connect()}
	for i := range s.p.topics {
		s.topics.names = append(s.topics.names, fmt.Sprintf("topic-%d", i))
	}
	s.topics.bootstrap(0)
	for range s.p.lanes {
		s.after(s.between(0, 500*core.Millisecond), s.newLane)
	}
	for range s.p.consumers {
		s.after(s.between(0, core.Second), s.newTail)
	}
	s.after(s.between(500*core.Millisecond, 2*core.Second), s.topics.act)
	s.after(200*core.Millisecond, s.look)
	s.after(s.between(200*core.Millisecond, core.Second), s.askBounds)
	s.startGroups()
}

// bootstrap creates the first topics, one after the other, until they exist.
func (t *topics) bootstrap(i int) {
	if i == len(t.names) || t.s.ending {
		return
	}
	t.create(t.names[i], func(ok bool) {
		if ok || t.s.up() && t.s.node.image.Topic(t.names[i]) != nil {
			i++
		}
		t.s.after(t.s.between(5*core.Millisecond, 50*core.Millisecond), func() { t.bootstrap(i) })
	})
}

// look records the catalogue now and then.
func (s *Sim) look() {
	if s.up() && s.node.registered {
		s.seeTopics()
	}
	if !s.ending {
		s.after(s.between(50*core.Millisecond, 500*core.Millisecond), s.look)
	}
}

func (s *Sim) seeTopics() {
	view := check.TopicList{Span: check.Span{Invoke: int64(s.now), Return: int64(s.now)}, Topics: map[string]check.TopicState{}}
	for _, t := range s.node.image.Topics() {
		if !t.Internal {
			configs := t.Configs
			if configs == nil {
				configs = map[string]string{}
			}
			view.Topics[t.Name] = check.TopicState{ID: t.ID.String(), Partitions: int32(len(t.Partitions)), Configs: configs}
		}
	}
	s.hist.TopicSeen = append(s.hist.TopicSeen, view)
}

// act does one administrative thing and plans the next.
func (t *topics) act() {
	s := t.s
	if s.ending {
		return
	}
	again := func(bool) { s.after(s.between(100*core.Millisecond, 1500*core.Millisecond), t.act) }
	if !s.up() {
		again(false)
		return
	}
	var present []*meta.Topic
	for _, mt := range s.node.image.Topics() {
		if !mt.Internal {
			present = append(present, mt)
		}
	}
	if len(present) == 0 {
		t.create(t.names[0], again)
		return
	}
	mt := present[s.rng.IntN(len(present))]
	switch n := s.rng.IntN(12); {
	case n < 2 && len(present) < topicsMax:
		t.create(fmt.Sprintf("topic-%d", s.rng.IntN(topicsMax)), again)
	case n < 4 && len(present) > 1 && mt.Name != groupTopic:
		t.delete(mt, again)
	case n < 5 && len(mt.Partitions) < 4:
		t.grow(mt, again)
	case n < 8:
		t.configure(mt, again)
	default:
		t.deleteRecords(mt, again)
	}
}

// change runs a command of the controller as a TopicOp: the answer counts once
// the image that holds the change is there to be seen.
func (t *topics) change(op *check.TopicOp, body any, read func(resp kmsg.Response) (int16, string), cb func(ok bool)) {
	s := t.s
	op.Span = check.Span{Invoke: int64(s.now), Return: check.Never}
	s.hist.TopicOps = append(s.hist.TopicOps, op)
	n := s.node
	t.conn.command(core.MetadataPartition, body, 3*core.Second, func(reply any, err error) {
		if err != nil {
			s.trace("%s: %v", op.Name, err)
			cb(false)
			return
		}
		applied := reply.(*meta.Applied)
		code, id := read(applied.Reply)
		if code != 0 {
			op.Outcome, op.Return = check.Failed, int64(s.now)
			s.trace("%s refused: %v", op.Name, kerr.ErrorForCode(code))
			cb(false)
			return
		}
		if id != "" {
			op.ID = id
		}
		t.await(n, applied, func(err error) {
			if err == nil {
				op.Outcome, op.Return = check.Acked, int64(s.now)
			}
			cb(err == nil)
		})
	})
}

// await waits until the shards have applied the image and the new partitions
// have leaders, as the handlers do.
func (t *topics) await(n *node, applied *meta.Applied, cb func(err error)) {
	s := t.s
	target := core.MetadataPartition
	if len(applied.NewPartitions) > 0 {
		target = applied.NewPartitions[0]
	}
	q := &shard.Await{MinVersion: applied.Version}
	for _, id := range applied.NewPartitions {
		if core.ShardOf(id, s.p.shards) == core.ShardOf(target, s.p.shards) {
			q.Partitions = append(q.Partitions, id)
		}
	}
	t.conn.send(target, 5*core.Second, func(*shardProc) (shard.Request, error) {
		q.Deadline = n.clock() + 3*core.Second
		return q, nil
	}, func(err error) {
		if err == nil {
			err = q.Err
		}
		if err == nil && s.node == n && !n.dead && n.image.Version < applied.Version {
			s.fail(fmt.Errorf("a shard has applied image %d and %d is published", applied.Version, n.image.Version))
		}
		cb(err)
	})
}

func (t *topics) create(name string, cb func(ok bool)) {
	s := t.s
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1+int32(s.rng.IntN(3)), 1
	op := &check.TopicOp{Kind: check.TopicCreate, Name: name, Partitions: rt.NumPartitions}
	if s.chance(0.3) {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		v := strconv.Itoa(50_000 + s.rng.IntN(300_000))
		c.Name, c.Value = "retention.bytes", &v
		rt.Configs = append(rt.Configs, c)
		op.Configs = map[string]string{c.Name: v}
	}
	req.Topics = append(req.Topics, rt)
	s.trace("create topic %s with %d partitions", name, rt.NumPartitions)
	t.change(op, req, func(resp kmsg.Response) (int16, string) {
		out := resp.(*kmsg.CreateTopicsResponse).Topics[0]
		return out.ErrorCode, core.TopicID(out.TopicID).String()
	}, func(ok bool) {
		if ok {
			s.stats.TopicsMade++
		}
		cb(ok)
	})
}

func (t *topics) delete(mt *meta.Topic, cb func(ok bool)) {
	s := t.s
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.TopicID = mt.ID
	req.Topics = append(req.Topics, rt)
	op := &check.TopicOp{Kind: check.TopicDelete, Name: mt.Name, ID: mt.ID.String()}
	s.trace("delete topic %s", mt.Name)
	t.change(op, req, func(resp kmsg.Response) (int16, string) {
		return resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, ""
	}, func(ok bool) {
		if ok {
			s.stats.TopicsDeleted++
		}
		cb(ok)
	})
}

func (t *topics) grow(mt *meta.Topic, cb func(ok bool)) {
	s := t.s
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = mt.Name, int32(len(mt.Partitions)+1)
	req.Topics = append(req.Topics, rt)
	op := &check.TopicOp{Kind: check.TopicGrow, Name: mt.Name, ID: mt.ID.String(), Partitions: rt.Count}
	t.change(op, req, func(resp kmsg.Response) (int16, string) {
		return resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode, ""
	}, func(ok bool) {
		if ok {
			s.stats.TopicsGrown++
		}
		cb(ok)
	})
}

// configure changes retention, so that old segments go.
func (t *topics) configure(mt *meta.Topic, cb func(ok bool)) {
	s := t.s
	name, value := "retention.bytes", strconv.Itoa(20_000+s.rng.IntN(400_000))
	if s.chance(0.3) {
		name, value = "retention.ms", strconv.Itoa(2000+s.rng.IntN(20_000))
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, mt.Name
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Op = name, kmsg.IncrementalAlterConfigOpSet
	c.Value = &value
	if s.chance(0.3) {
		c.Op, c.Value, value = kmsg.IncrementalAlterConfigOpDelete, nil, ""
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	op := &check.TopicOp{Kind: check.TopicConfig, Name: mt.Name, ID: mt.ID.String(), ConfigKey: name, ConfigValue: value}
	t.change(op, req, func(resp kmsg.Response) (int16, string) {
		return resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, ""
	}, func(ok bool) {
		if ok {
			s.stats.ConfigsSet++
		}
		cb(ok)
	})
}

// deleteRecords moves a log start; readers' polls are checked against it.
func (t *topics) deleteRecords(mt *meta.Topic, cb func(ok bool)) {
	s := t.s
	p := partOf(mt, mt.Partitions[s.rng.IntN(len(mt.Partitions))])
	s.describe(t.conn, p, func(d *shard.Describe, err error) {
		if err != nil || d.HighWatermark == d.LogStart {
			cb(false)
			return
		}
		asked := s.now
		q := &shard.DeleteRecords{Partition: p.id, Offset: d.LogStart + 1 + core.Offset(s.rng.Int64N(int64(d.HighWatermark-d.LogStart)))}
		if s.chance(0.2) {
			q.Offset = -1
		}
		t.conn.send(p.id, 3*core.Second, func(*shardProc) (shard.Request, error) { return q, nil }, func(err error) {
			if err == nil {
				err = q.Err
			}
			if err == nil {
				s.stats.RecordsDeleted++
				s.trace("records of %v deleted below %d, log start %d", p.Part, q.Offset, q.LogStart)
				s.mark(p, asked, q.LogStart, -1, 0)
				if q.Offset >= 0 && q.LogStart < q.Offset {
					s.fail(fmt.Errorf("records of %v deleted below %d, and the log starts at %d", p.Part, q.Offset, q.LogStart))
				}
			} else if !retriable(err) && !errors.Is(err, core.ErrOffsetOutOfRange) {
				s.fail(fmt.Errorf("deleting records of %v below %d: %w", p.Part, q.Offset, err))
			}
			cb(err == nil)
		})
	})
}

// describe asks for a partition's bounds and records them. A node that does not
// serve the partition yet answers too, and its bounds may lag behind; but start,
// high watermark and end are in order whoever tells them.
func (s *Sim) describe(c *conn, p part, cb func(d *shard.Describe, err error)) {
	d, asked := &shard.Describe{Partition: p.id}, s.now
	c.send(p.id, 2*core.Second, func(*shardProc) (shard.Request, error) { return d, nil }, func(err error) {
		if err == nil {
			err = d.Err
		}
		if err == nil && (d.LogStart > d.HighWatermark || d.HighWatermark > d.LogEnd) {
			s.fail(fmt.Errorf("%v: log start %d, high watermark %d, log end %d", p.Part, d.LogStart, d.HighWatermark, d.LogEnd))
			return
		}
		if err == nil && d.Serving {
			s.stats.Described++
			s.mark(p, asked, d.LogStart, d.HighWatermark, d.LogEnd)
		}
		cb(d, err)
	})
}

// askBounds asks for the bounds of some partition now and then.
func (s *Sim) askBounds() {
	if s.ending {
		return
	}
	again := func() { s.after(s.between(20*core.Millisecond, 600*core.Millisecond), s.askBounds) }
	parts := s.parts()
	if len(parts) == 0 {
		again()
		return
	}
	p := parts[s.rng.IntN(len(parts))]
	s.describe(s.connect(), p, func(_ *shard.Describe, err error) {
		if err != nil && !retriable(err) && !(isStorageFailed(err) && s.damageKnown()) {
			s.fail(fmt.Errorf("describing %v: %w", p.Part, err))
		}
		again()
	})
}

// mark records what an answer told of a log's bounds.
func (s *Sim) mark(p part, asked core.Tick, start, high, end core.Offset) {
	s.hist.Polls = append(s.hist.Polls, &check.Poll{
		Span: check.Span{Invoke: int64(asked), Return: int64(s.now)}, Reader: "admin", Part: p.Part,
		From: -1, LogStart: int64(start), End: int64(high), LogEnd: int64(end),
	})
}
