package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var prefixCount atomic.Uint32

// newPrefix is a prefix for the names of one run of one sequence, unique in the
// process, of the length of prefixToken.
func newPrefix() string { return fmt.Sprintf("q%08x", prefixCount.Add(1)) }

// prepared is a sequence whose topics exist on both brokers.
type prepared struct {
	q      *Sequence
	prefix string
	ids    [2]map[string][16]byte // by name with prefixToken
}

// prepare creates the topics of some sequences, all in one request to each
// broker.
func (p *pair) prepare(qs []*Sequence) ([]prepared, error) {
	all := make([]prepared, len(qs))
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 60_000
	for i, q := range qs {
		all[i] = prepared{q: q, prefix: newPrefix()}
		for _, t := range q.Topics {
			c := kmsg.NewCreateTopicsRequestTopic()
			c.Topic = strings.Replace(t.Name, prefixToken, all[i].prefix, 1)
			c.NumPartitions, c.ReplicationFactor = t.Partitions, 1
			for _, name := range slices.Sorted(maps.Keys(t.Configs)) {
				e := kmsg.NewCreateTopicsRequestTopicConfig()
				e.Name, e.Value = name, kmsg.StringPtr(t.Configs[name])
				c.Configs = append(c.Configs, e)
			}
			req.Topics = append(req.Topics, c)
		}
	}
	if len(req.Topics) == 0 {
		return all, nil
	}
	var wait sync.WaitGroup
	var errs [2]error
	for i, s := range p.sides {
		wait.Go(func() { errs[i] = s.create(req, all, i) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *side) create(req *kmsg.CreateTopicsRequest, all []prepared, side int) error {
	s.prefix = prefixToken
	resp, err := s.ask(req, 2*time.Minute)
	if err != nil {
		return err
	}
	ids := make(map[string]kmsg.CreateTopicsResponseTopic)
	for _, t := range resp.(*kmsg.CreateTopicsResponse).Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("%s does not create %s: error %d", s.name, t.Topic, t.ErrorCode)
		}
		ids[t.Topic] = t
	}
	for i := range all {
		all[i].ids[side] = make(map[string][16]byte)
		for _, t := range all[i].q.Topics {
			all[i].ids[side][t.Name] = ids[strings.Replace(t.Name, prefixToken, all[i].prefix, 1)].TopicID
		}
	}
	names := make([]string, len(req.Topics))
	for i, t := range req.Topics {
		names[i] = t.Topic
	}
	return s.awaitLeaders(names, true)
}

// run plays one prepared sequence.
func (p *pair) run(one prepared) result {
	return p.playWith(one.q, one.prefix, one.ids)
}

// discard removes what sequences left behind; errors are expected, since most
// of the names were never used.
func (p *pair) discard(all []prepared) error {
	var wait sync.WaitGroup
	var errs [2]error
	for i, s := range p.sides {
		wait.Go(func() { errs[i] = s.discard(all) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *side) discard(all []prepared) error {
	s.prefix = prefixToken
	topics := kmsg.NewPtrDeleteTopicsRequest()
	topics.Version, topics.TimeoutMillis = 5, 60_000
	groups := kmsg.NewPtrDeleteGroupsRequest()
	groups.Version = 2
	for _, one := range all {
		for _, t := range one.q.Topics {
			topics.TopicNames = append(topics.TopicNames, strings.Replace(t.Name, prefixToken, one.prefix, 1))
		}
		for _, n := range one.q.Names {
			topics.TopicNames = append(topics.TopicNames, strings.Replace(n, prefixToken, one.prefix, 1))
		}
		for _, g := range one.q.Groups {
			groups.Groups = append(groups.Groups, strings.Replace(g, prefixToken, one.prefix, 1))
		}
	}
	if len(topics.TopicNames) > 0 {
		if _, err := s.ask(topics, 2*time.Minute); err != nil {
			return err
		}
	}
	if len(groups.Groups) > 0 {
		if _, err := s.ask(groups, askLimit); err != nil {
			return err
		}
	}
	return nil
}

// leave takes the members that a sequence made out of their groups, and its quotas
// away.
func (s *side) leave(q *Sequence) {
	for i := range q.Steps {
		if r, ok := q.Steps[i].Req.(*kmsg.AlterClientQuotasRequest); ok && !r.ValidateOnly {
			if s.removeQuotas(r) != nil {
				return
			}
		}
		j, ok := q.Steps[i].Req.(*kmsg.JoinGroupRequest)
		id := s.vals.members[q.Steps[i].ID]
		if !ok || id == "" {
			continue
		}
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version = 3
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = id, j.InstanceID
		req.Group, req.Members = j.Group, []kmsg.LeaveGroupRequestMember{m}
		if _, err := s.ask(req, askLimit); err != nil {
			return // the broker is gone, which the next sequence tells
		}
	}
}

func (s *side) removeQuotas(r *kmsg.AlterClientQuotasRequest) error {
	req := copyRequest(r).(*kmsg.AlterClientQuotasRequest)
	req.Version = 1
	for i := range req.Entries {
		for k := range req.Entries[i].Ops {
			req.Entries[i].Ops[k].Remove = true
		}
	}
	_, err := s.ask(req, askLimit)
	return err
}
