package controller

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// Controller is the state machine. All methods are called by one loop.
type Controller struct {
	opts Options // Immutable.

	// Replicated: follows from the log alone.
	state state
	next  core.Offset // after the last record replayed

	// previous is the last Image before a Reset: until the next Lead, partitions
	// that are replayed again take their objects from it, because the shards
	// hold on to their LeaderCells.
	previous *meta.Image

	// Volatile; of a leader.
	leading  bool
	ids      core.IDSource
	prepared *change // what the last Handle made, until Replay takes it over
	rewrite  rewrite
}

// state is what the log has told so far. It is a value: a change works on a
// copy, and its Image shares what did not change.
type state struct {
	image         *meta.Image
	nextPartition core.PartitionID
	nextProducer  int64
}

// New makes a Controller that has seen nothing of its log yet.
func New(o Options) *Controller {
	c := &Controller{opts: o.withDefaults()}
	c.Reset()
	return c
}

// Reset forgets all replicated state.
func (c *Controller) Reset() {
	if c.state.image != nil && c.state.image.TopicCount() > 0 {
		c.previous = c.state.image
	}
	c.state = state{image: &meta.Image{Controller: core.NoNode}, nextPartition: core.FirstPartition}
	c.next, c.leading, c.prepared = 0, false, nil
	c.rewrite.reset()
}

// Image is the newest Image that Replay has built, committed or not.
func (c *Controller) Image() *meta.Image { return c.state.image }

// Handle decides on a command, without changing replicated state. The stages
// are: try the change on a copy of the state (begin), let the handler of the
// API validate and add records to it, and hand the records, the new Image and
// the reply to the shard (finish). The copy is kept until Replay sees the same
// records, so that Images are built once.
func (c *Controller) Handle(now core.Tick, cmd *core.Command, out *core.Output) {
	c.ids.Time = now
	ch := c.begin()
	switch req := cmd.Body.(type) {
	case *kmsg.CreateTopicsRequest:
		c.finish(ch, cmd, c.createTopics(ch, req), out)
	case *kmsg.DeleteTopicsRequest:
		c.finish(ch, cmd, c.deleteTopics(ch, req), out)
	case *kmsg.CreatePartitionsRequest:
		c.finish(ch, cmd, c.createPartitions(ch, req), out)
	case *kmsg.IncrementalAlterConfigsRequest:
		c.finish(ch, cmd, c.incrementalAlterConfigs(ch, req), out)
	case *kmsg.AlterConfigsRequest:
		c.finish(ch, cmd, c.alterConfigs(ch, req), out)
	case *kmsg.AlterClientQuotasRequest:
		c.finish(ch, cmd, c.alterClientQuotas(ch, req), out)
	case *kmsg.AlterPartitionAssignmentsRequest:
		c.finish(ch, cmd, alterPartitionReassignments(ch, req), out)
	case meta.RegisterBroker:
		ch.putBroker(req.Broker)
		c.finish(ch, cmd, nil, out)
	case meta.AllocateProducerIDs:
		first := ch.state.nextProducer
		ch.putCounters(ch.state.nextPartition, first+meta.ProducerIDBlockSize)
		c.finish(ch, cmd, nil, out)
		cmd.Reply = meta.ProducerIDBlock{First: first, Count: meta.ProducerIDBlockSize}
	default:
		panic(fmt.Sprintf("BUG: the controller was given a %T", cmd.Body))
	}
}

// finish turns a change into output.
func (c *Controller) finish(ch *change, cmd *core.Command, reply kmsg.Response, out *core.Output) {
	if len(ch.newPartitions) > 0 {
		ch.putCounters(ch.state.nextPartition, ch.state.nextProducer)
	}
	w := core.Write{Records: ch.records}
	version := c.state.image.Version
	if len(ch.records) > 0 {
		ch.seal()
		c.prepared, w.Cookie, out.Image = ch, ch, ch.state.image
		version = ch.state.image.Version
	}
	if cmd != nil {
		cmd.Reply = &meta.Applied{Reply: reply, Version: version, NewPartitions: ch.newPartitions}
		w.Replies = []*core.Command{cmd}
	}
	if len(w.Records) > 0 || len(w.Replies) > 0 {
		out.Writes = append(out.Writes, w)
	}
}

// Replay applies records. On the leader it takes over the change that Handle
// prepared when the records are the same, so that the Image published is the
// one that the reply spoke of.
func (c *Controller) Replay(base core.Offset, records []core.Record) {
	ch := c.prepared
	c.prepared = nil
	if ch == nil || ch.base != base || !slices.EqualFunc(ch.records, records, equalRecords) {
		ch = newChange(c.state, base)
		ch.previous = c.previous
		for _, r := range records {
			ch.replay(r)
		}
		ch.records = records
		ch.seal()
	}
	c.state = ch.state
	c.next = base + core.Offset(len(records))
	c.rewrite.count(records)
}

func equalRecords(a, b core.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}

// Failed drops the change that could not be appended.
func (c *Controller) Failed(now core.Tick, cookie any, _ error) {
	if ch, ok := cookie.(*change); ok && ch == c.prepared {
		c.prepared = nil
	}
	c.rewrite.failed(now)
}

// Lead gives a new cluster its ID and names this node as the controller. The
// Image is published in any case: this is the first that the node sees of it
// after a start.
func (c *Controller) Lead(now core.Tick, term core.Term, out *core.Output) {
	c.leading, c.previous = true, nil
	c.ids = core.IDSource{Seed: c.opts.Seed, Term: term, Time: now}
	c.rewrite.stop()
	ch := c.begin()
	if ch.image().ClusterID == "" {
		id := c.opts.ClusterID
		if id == "" {
			id = clusterID(&c.ids)
		}
		ch.putCluster(id)
	}
	if ch.image().Controller != c.opts.Node {
		ch.putController(c.opts.Node)
	}
	c.finish(ch, nil, nil, out)
	if out.Image == nil {
		out.Image = c.state.image
	}
}

// Resign stops what a leader does; no command waits here.
func (c *Controller) Resign(core.Tick, *core.Output) {
	c.leading, c.prepared = false, nil
	c.rewrite.stop()
}

func sortedKeys[K interface{ ~string | ~int32 }, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
