package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// How long answers are waited for.
const (
	// bothSilent is when a request that may wait for others, or whose frame is cut,
	// counts as one that neither broker answers; others have as long as oneSilent.
	bothSilent = 600 * time.Millisecond
	// oneSilent is how much longer the second broker may take than the first.
	oneSilent = 45 * time.Second
	// silentAsKnown is in its place where Kafka is known not to answer.
	silentAsKnown = 1500 * time.Millisecond
	// settleLimit bounds the wait until a request sent for later has arrived.
	settleLimit = 60 * time.Millisecond
	askLimit    = 30 * time.Second
)

// pair is a connection pair of one worker: both brokers, one sequence at a time.
type pair struct {
	sides  [2]*side // kafka, millrace
	flight [connsMax]*flight
	known  *knownList
	count  *coverage
}

// flight is a request that both brokers have been sent.
type flight struct {
	step *Step
	corr int32
	// probe is the correlation id of the request behind one without an answer.
	probe int32
}

// finding is a step with differences that the list does not know.
type finding struct {
	Step        int // index
	Differences []Difference
	Outcomes    [2]outcome
}

// result is what a run of a sequence gave.
type result struct {
	finding *finding
	// diverged is set when a known difference leaves the brokers in different
	// states, which ends the sequence.
	diverged bool
	requests int
	err      error // of the machinery
}

// playWith runs a sequence whose topics exist under prefix with these ids.
func (p *pair) playWith(q *Sequence, prefix string, ids [2]map[string][16]byte) (res result) {
	for i, s := range p.sides {
		s.reset(prefix)
		for name, id := range ids[i] {
			s.vals.topics[name] = id
			s.topicIDs.bind(string(id[:]), name)
		}
	}
	defer func() {
		p.abandon()
		for _, s := range p.sides {
			s.leave(q)
		}
	}()
	for i := range q.Steps {
		st := &q.Steps[i]
		if done := p.collect(q, st.Conn, &res); done {
			return res
		}
		if res.err = p.send(st); res.err != nil {
			return res
		}
		res.requests++
		p.count.add(st)
		if st.Later {
			continue
		}
		if done := p.collect(q, st.Conn, &res); done {
			return res
		}
	}
	for c := range p.flight {
		if done := p.collect(q, c, &res); done {
			return res
		}
	}
	return res
}

// abandon drops the connections on which something is still under way.
func (p *pair) abandon() {
	for c, f := range p.flight {
		if f != nil {
			p.flight[c] = nil
			for _, s := range p.sides {
				s.drop(c)
			}
		}
	}
}

// send sends a step to both brokers.
func (p *pair) send(st *Step) error {
	if err := p.lookUp(st.Req); err != nil {
		return err
	}
	f := &flight{step: st}
	p.flight[st.Conn] = f
	var before [2]string
	if st.Later {
		for i, s := range p.sides {
			before[i] = s.groupState(st.group())
		}
	}
	p.sides[0].corr++
	f.corr = p.sides[0].corr
	if st.noAnswer() {
		p.sides[0].corr++
		f.probe = p.sides[0].corr
	}
	for _, s := range p.sides {
		s.corr = p.sides[0].corr
		l, err := s.link(st.Conn)
		if err != nil {
			return err
		}
		frame := encodeFrame(st, s.vals.fill(st.Req), f.corr, s.prefix)
		if f.probe != 0 {
			frame = append(frame, probeFrame(f.probe)...)
		}
		l.send(frame)
	}
	if st.Later {
		p.settle(st, before)
	}
	return nil
}

func probeFrame(corr int32) []byte {
	req := kmsg.NewPtrApiVersionsRequest()
	return encodeFrame(&Step{Req: req}, req, corr, prefixToken)
}

// lookUp asks for the ids of topics that a request names by placeholder and
// that the sequence has not met yet.
func (p *pair) lookUp(req kmsg.Request) error {
	names := wantedTopics(req)
	if len(names) == 0 {
		return nil
	}
	for _, s := range p.sides {
		ask := kmsg.NewPtrMetadataRequest()
		ask.Version = 12
		for _, n := range names {
			if _, ok := s.vals.topics[n]; !ok {
				t := kmsg.NewMetadataRequestTopic()
				t.Topic = kmsg.StringPtr(n)
				ask.Topics = append(ask.Topics, t)
			}
		}
		if len(ask.Topics) == 0 {
			continue
		}
		resp, err := s.ask(ask, askLimit)
		if err != nil {
			return err
		}
		s.vals.note(0, resp)
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if t.Topic != nil && t.TopicID != [16]byte{} {
				s.topicIDs.bind(string(t.TopicID[:]), *t.Topic)
			}
		}
	}
	return nil
}

// settle waits until both brokers have taken a request in whose answer comes
// later: the group that it concerns looks different, or the answer is there.
func (p *pair) settle(st *Step, before [2]string) {
	wait := newPatience(settleLimit)
	defer wait.end()
	for i, s := range p.sides {
		last, same := before[i], 0
		for len(s.links[st.Conn].answers) == 0 && same < settledAfter && !wait.isOver() {
			now := s.groupState(st.group())
			if now == last && now != before[i] {
				same++
			} else {
				last, same = now, 0
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}

// settledAfter is how often a group must look the same to count as settled.
const settledAfter = 2

// groupState describes a group as far as members that join or leave show in it.
func (s *side) groupState(group string) string {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version = 5
	req.Groups = []string{group}
	resp, err := s.ask(req, askLimit)
	if err != nil {
		return ""
	}
	g := resp.(*kmsg.DescribeGroupsResponse).Groups
	if len(g) == 0 {
		return ""
	}
	return fmt.Sprint(g[0].State, g[0].Protocol, len(g[0].Members))
}

// collect takes the answers of what is under way on a connection and compares
// them. It says whether the sequence is over.
func (p *pair) collect(q *Sequence, conn int, res *result) (done bool) {
	f := p.flight[conn]
	if f == nil {
		return false
	}
	p.flight[conn] = nil
	limit := oneSilent
	if notAnswered(f.step) {
		limit = silentAsKnown
	}
	both := oneSilent
	if maySleep(f.step) {
		both = bothSilent
	}
	frames := p.await(conn, both, limit)
	var outs [2]outcome
	for i, s := range p.sides {
		outs[i] = s.judge(f, frames[i])
	}
	for i, o := range outs {
		broken := slices.ContainsFunc(f.step.Mutations, func(m Mutation) bool { return m.Kind >= frameLength })
		if o.kind != "answer" && o.kind != "no answer, as asked" || broken {
			p.sides[i].drop(conn)
			p.sides[1-i].drop(conn)
		}
	}
	p.count.outcome(f.step, outs)
	for i, s := range p.sides {
		if res.err = s.settleChange(f.step, outs[i].resp); res.err != nil {
			return true
		}
	}
	diffs := compare(outs[0].node(), outs[1].node(), "")
	for i := range diffs {
		if diffs[i].Path == "" {
			diffs[i].Path = "outcome"
		}
	}
	unknown, diverged := p.known.filter(f.step, earlier(q, f.step), outs, diffs)
	if len(unknown) > 0 {
		at := slices.IndexFunc(q.Steps, func(st Step) bool { return st.ID == f.step.ID })
		res.finding = &finding{Step: at, Differences: unknown, Outcomes: outs}
		return true
	}
	res.diverged = diverged
	return diverged
}

// earlier lists the steps that an answer may depend on.
func earlier(q *Sequence, st *Step) []Step {
	if st.Later {
		return q.Steps // those behind it may have been answered first
	}
	return q.Steps[:slices.IndexFunc(q.Steps, func(o Step) bool { return o.ID == st.ID })]
}

// judge turns what came for a flight into an outcome.
func (s *side) judge(f *flight, a []answer) outcome {
	if len(a) == 0 {
		return outcome{kind: "none"}
	}
	if a[0].err != nil {
		return outcome{kind: "closed"}
	}
	if f.probe != 0 && int32(binary.BigEndian.Uint32(a[0].frame)) == f.probe {
		return outcome{kind: "no answer, as asked"}
	}
	return s.readAnswer(f.step, f.corr, a[0].frame)
}

// maySleep says whether no answer to a step may come at all: groups let members
// wait for others, and of a frame that says to be longer than it is the rest is
// waited for.
func maySleep(st *Step) bool {
	switch st.Req.(type) {
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest:
		return true
	}
	return slices.ContainsFunc(st.Mutations, func(m Mutation) bool { return m.Kind >= frameLength })
}

// await takes one answer of each broker from a connection: none where neither has
// one for the time both, and at most limit after the other has one.
func (p *pair) await(conn int, both, limit time.Duration) (got [2][]answer) {
	var ready sync.WaitGroup
	first := make(chan struct{}, 2)
	stop := make(chan struct{})
	for i, s := range p.sides {
		l := s.links[conn]
		ready.Go(func() {
			select {
			case a, ok := <-l.answers:
				if !ok {
					a = answer{err: errEnded}
				}
				got[i] = []answer{a}
				first <- struct{}{}
			case <-stop:
			}
		})
	}
	wait := newPatience(both)
	for n := 0; n < 2; n++ {
		select {
		case <-first:
			wait.end()
			wait = newPatience(limit)
			continue
		case <-wait.over:
		}
		break
	}
	wait.end()
	close(stop)
	ready.Wait()
	return got
}
