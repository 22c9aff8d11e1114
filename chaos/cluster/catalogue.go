package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/chaos/check"
)

// catalogue creates, deletes and lists topics. Each attempt is one request: a
// client that retries by itself would hide which attempt had which answer.
type catalogue struct {
	l    *load
	mu   sync.Mutex // held for one attempt at a time by change and bursts
	next int
	live []string // created for sure, not asked to be deleted
}

func newCatalogue(l *load) *catalogue { return &catalogue{l: l} }

// once opens a client that tries once and gives up soon.
func (c *catalogue) once() (*kgo.Client, error) {
	return c.l.client(kgo.RequestRetries(0), kgo.RetryTimeout(3*time.Second), kgo.RequestTimeoutOverhead(3*time.Second))
}

func attempt(err error) check.Outcome {
	if errors.Is(err, kerr.TopicAlreadyExists) || errors.Is(err, kerr.UnknownTopicOrPartition) {
		return check.Failed
	}
	return outcomeOf(err)
}

// create is one attempt to create t.
func (c *catalogue) create(ctx context.Context, cl *kgo.Client, t topicSpec) check.Outcome {
	req := kmsg.NewPtrCreateTopicsRequest()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = t.name, t.partitions, 1
	for k, v := range t.configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = k, kmsg.StringPtr(v)
		rt.Configs = append(rt.Configs, rc)
	}
	req.Topics = append(req.Topics, rt)
	op := c.begin(check.TopicCreate, t.name)
	c.l.rec.Record(func(*check.History) { op.Partitions = t.partitions })
	resp, err := req.RequestWith(ctx, cl)
	id := ""
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		if err == nil {
			id = hex.EncodeToString(resp.Topics[0].TopicID[:])
		}
	}
	return c.end(op, err, id)
}

func (c *catalogue) remove(ctx context.Context, cl *kgo.Client, name string) check.Outcome {
	req := kmsg.NewPtrDeleteTopicsRequest()
	rt := kmsg.NewDeleteTopicsRequestTopic()
	rt.Topic = kmsg.StringPtr(name)
	req.Topics, req.TopicNames = append(req.Topics, rt), []string{name}
	op := c.begin(check.TopicDelete, name)
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
	}
	return c.end(op, err, "")
}

func (c *catalogue) begin(kind check.TopicOpKind, name string) *check.TopicOp {
	op := &check.TopicOp{Span: check.Span{Invoke: now(), Return: check.Never}, Kind: kind, Name: name, Outcome: check.Unknown}
	c.l.rec.Record(func(h *check.History) { h.TopicOps = append(h.TopicOps, op) })
	return op
}

func (c *catalogue) end(op *check.TopicOp, err error, id string) check.Outcome {
	outcome := attempt(err)
	c.l.rec.Record(func(*check.History) {
		op.Outcome, op.ID = outcome, id
		if outcome != check.Unknown {
			op.Return = now()
		}
	})
	return outcome
}

// createForSure attempts until the topic is there.
func (c *catalogue) createForSure(ctx context.Context, t topicSpec) error {
	cl, err := c.once()
	if err != nil {
		return err
	}
	defer cl.Close()
	for range 100 {
		if c.create(ctx, cl, t) == check.Acked {
			return nil
		}
		if topics, err := c.list(ctx, cl); err == nil && topics[t.name].Partitions > 0 {
			return nil
		}
		if !pause(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("could not create %s in a hundred attempts", t.name)
}

// change creates and deletes topics for as long as the load sends.
func (c *catalogue) change() {
	r := c.l.rand(300)
	cl, err := c.once()
	if err != nil {
		c.l.complain("catalogue: %v", err)
		return
	}
	defer cl.Close()
	for pause(c.l.producing, time.Duration(20+r.IntN(200))*time.Millisecond) {
		c.mu.Lock()
		if len(c.live) < 3 || r.IntN(2) == 0 {
			c.createNext(cl, 1+r.Int32N(3))
		} else {
			c.removeOldest(cl)
		}
		c.mu.Unlock()
	}
}

func (c *catalogue) createNext(cl *kgo.Client, partitions int32) {
	// Eight names in turn, so that names are used again after deletions.
	t := topicSpec{name: fmt.Sprintf("%scat-%d", c.l.prefix, c.next%8), partitions: partitions}
	c.next++
	if c.create(c.l.reading, cl, t) == check.Acked {
		c.live = append(c.live, t.name)
	}
}

func (c *catalogue) removeOldest(cl *kgo.Client) {
	name := c.live[0]
	c.live = c.live[1:]
	if c.remove(c.l.reading, cl, name) == check.Unknown {
		c.live = append(c.live, name)
	}
}

// burst sends attempts side by side and returns without waiting for them, for a
// fault in their midst.
func (c *catalogue) burst(deletes bool) {
	c.mu.Lock()
	names := c.live
	if deletes {
		c.live = nil
	} else {
		names = nil
		for range 6 {
			names = append(names, fmt.Sprintf("%sburst-%d", c.l.prefix, c.next))
			c.next++
		}
	}
	c.mu.Unlock()
	for _, name := range names {
		c.l.others.Go(func() {
			cl, err := c.once()
			if err != nil {
				return
			}
			defer cl.Close()
			outcome := check.Unknown
			if deletes {
				outcome = c.remove(c.l.reading, cl, name)
			} else {
				outcome = c.create(c.l.reading, cl, topicSpec{name: name, partitions: 2})
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if deletes == (outcome == check.Unknown) {
				c.live = append(c.live, name)
			}
		})
	}
}

// list returns the topics of this epoch as metadata shows them.
func (c *catalogue) list(ctx context.Context, cl *kgo.Client) (map[string]check.TopicState, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	topics := map[string]check.TopicState{}
	for _, t := range resp.Topics {
		if t.Topic == nil || !strings.HasPrefix(*t.Topic, c.l.prefix) {
			continue
		}
		topics[*t.Topic] = check.TopicState{ID: hex.EncodeToString(t.TopicID[:]), Partitions: int32(len(t.Partitions))}
	}
	return topics, nil
}

// view records one view of the catalogue.
func (c *catalogue) view(ctx context.Context, cl *kgo.Client) error {
	invoke := now()
	topics, err := c.list(ctx, cl)
	if err != nil {
		return err
	}
	c.l.rec.Record(func(h *check.History) {
		h.TopicSeen = append(h.TopicSeen, check.TopicList{Span: check.Span{Invoke: invoke, Return: now()}, Topics: topics})
	})
	return nil
}

// watch views the catalogue for as long as the load runs.
func (c *catalogue) watch() {
	cl, err := c.once()
	if err != nil {
		c.l.complain("catalogue: %v", err)
		return
	}
	defer cl.Close()
	for pause(c.l.reading, 150*time.Millisecond) {
		// A failed view means that the broker is away.
		_ = c.view(c.l.reading, cl)
	}
}

// finalView must succeed.
func (c *catalogue) finalView(ctx context.Context) error {
	cl, err := c.l.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	if c.l.lagging && !pause(ctx, 2*time.Second) {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return c.view(ctx, cl)
}

// clear deletes all topics of the epoch, after its history was checked.
func (c *catalogue) clear(ctx context.Context) error {
	cl, err := c.l.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	topics, err := c.list(ctx, cl)
	if err != nil {
		return err
	}
	for name := range topics {
		c.remove(ctx, cl, name)
	}
	return nil
}
