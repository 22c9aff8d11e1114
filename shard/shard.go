package shard

import (
	"fmt"
	"slices"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
)

// Shard is the reactor. See the package comment. Everything in it is owned by
// the shard's loop.
type Shard struct {
	// Immutable.
	opts Options

	// Of the current turn.
	now   core.Tick
	out   *Effects
	dirty []*partition // groups that may have something ready
	acks  []ack        // wait for the turn that Finish collects
	woken []*fetchWait

	partitions map[core.PartitionID]*partition
	order      []*partition // by ID
	image      *meta.Image
	turns      []pendingTurn // submitted and not done, oldest first
	timers     timers
	chance     chance
	wave       wave
	peers      []*peer // by ID
	raftLog    logger

	awaits       []*awaiting
	awaitDirty   bool
	fetchWaiters int
	parked       []*fetchWait
	lookups      lookups
	aheads       []*readAhead
	aheadBytes   int // ready or reserved, of all

	jobsInflight int
	jobsQueued   []*raftlog.Job
	early        []*raftlog.Job // begun by New, for the first turn to hand out
	maintaining  int
	// appendedSince counts the bytes since the logs were asked last.
	appendedSince int
	trimmedAt     core.Tick // when free memory was given back
	maintainJobs  []*raftlog.Job

	maintainTimer, retentionTimer timer
	retentionAt                   int

	inflightBytes int64
	producers     int // of all partitions
	leaders       int
	stats         Stats
	fatal         error
	stopping      bool
}

// pendingTurn is a turn that the journal has.
type pendingTurn struct {
	turn *raftlog.Turn
	acks []ack
}

// New makes a shard over its logs. ScanHeaders makes it block: startup only.
// The groups found in Logs start as followers and campaign in Step, as soon as
// an image has named their voters; the metadata partition does so at once. The
// driver sends one EventTimer to set things going.
func New(o Options) (*Shard, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &Shard{opts: o, partitions: make(map[core.PartitionID]*partition), chance: chance{o.Seed}}
	s.lookups.left = lookupsPerTurn
	for _, log := range o.Logs.All() {
		p := &partition{id: log.ID(), log: log, leader: core.NoNode}
		if p.broken = log.Damaged(); p.broken == nil {
			p.broken = s.recover(p)
		}
		if p.broken != nil {
			o.Logf("partition %d is not served: %v", p.id, p.broken)
		} else {
			log.NeedCheckpoint(p.keepCheckpoint)
		}
		s.add(p)
	}
	if o.ID == 0 {
		if err := s.startMetadata(); err != nil {
			return nil, err
		}
	}
	s.timers.set(&s.maintainTimer, maintainTask{}, 0)
	s.timers.set(&s.retentionTimer, retentionTask{}, 0)
	return s, nil
}

// startMetadata makes the metadata partition, which exists before any image.
func (s *Shard) startMetadata() error {
	p := s.partitions[core.MetadataPartition]
	if p == nil {
		p = s.create(core.MetadataPartition, &metadataLogConfig)
	}
	p.cfg = &metadataLogConfig
	if p.broken != nil {
		return fmt.Errorf("%w: metadata: %v", core.ErrStorageFailed, p.broken)
	}
	p.log.SetConfig(metadataLogConfig.Log)
	voters := s.opts.MetadataVoters
	if len(voters) == 0 {
		voters = []core.NodeID{s.opts.Node}
	}
	var out Effects // the replay of what is in memory may publish nothing yet
	s.out = &out
	s.begin(p, voters)
	s.out = nil
	if len(out.Done) > 0 || out.Image != nil {
		panic("BUG: the metadata partition has spoken before its election")
	}
	s.early = out.Jobs
	return nil
}

func (o *Options) validate() error {
	l := o.Limits
	switch {
	case o.Node < 1:
		return fmt.Errorf("shard: node %d, want 1 or more", o.Node)
	case o.Count < 1 || o.ID < 0 || int(o.ID) >= o.Count:
		return fmt.Errorf("shard: shard %d of %d", o.ID, o.Count)
	case o.Logs == nil || o.Arena == nil || o.TopicConfig == nil || o.SpaceState == nil || o.Logf == nil:
		return fmt.Errorf("shard: Logs, Arena, TopicConfig, SpaceState and Logf must be given")
	case l.InflightBytesMax < 1 || l.FetchWaitersMax < 1 || l.ProducersMax < 1 || l.ShardProducersMax < 1 || l.ProducerExpirationMs < 1 || l.JobsMax < 1:
		return fmt.Errorf("shard: every limit must be 1 or more: %+v", l)
	}
	return nil
}

// Step takes one event in.
func (s *Shard) Step(now core.Tick, ev Event, out *Effects) {
	s.begins(now, out)
	defer func() { s.out = nil }()
	switch ev.Kind {
	case EventRequest:
		s.request(ev.Request)
	case EventCancel:
		s.cancel(ev.Request)
	case EventPersisted:
		s.onPersisted(ev.Turn)
	case EventJobDone:
		s.onJobDone(ev.Job)
	case EventTimer:
		s.onTimers()
	case EventImage:
		s.onImage(ev.Image)
	case EventPeerFrame:
		if s.fatal != nil {
			ev.Frame.Release()
			return
		}
		s.onPeerFrame(ev.From, ev.Frame)
	case EventNode:
		s.onNode(ev.From, ev.Up)
	case EventShutdown:
		s.shutdown()
	default:
		panic(fmt.Sprintf("BUG: event of kind %d", ev.Kind))
	}
}

func (s *Shard) begins(now core.Tick, out *Effects) {
	if now < s.now {
		panic(fmt.Sprintf("BUG: time goes back from %d to %d", s.now, now))
	}
	s.now, s.out = now, out
	if len(s.early) > 0 {
		out.Jobs = append(out.Jobs, s.early...)
		s.early = nil
	}
}

// onTimers runs what is due. What a timer arms anew for now waits for the next
// EventTimer, so that requests get their turn.
func (s *Shard) onTimers() {
	if s.fatal != nil {
		return
	}
	armed := s.timers.seq
	for n := len(s.timers.heap); n > 0; n-- {
		owner := s.timers.due(s.now, armed)
		if owner == nil {
			return
		}
		owner.onTimer(s, s.now)
	}
}

// request starts a request; it comes back in Effects.Done, now or later.
func (s *Shard) request(r Request) {
	if s.fatal != nil {
		if p, ok := r.(*Produce); ok {
			release(&p.Records)
		}
		s.fail(r, s.fatalErr())
		return
	}
	switch r := r.(type) {
	case *Produce:
		s.produce(r)
	case *Fetch:
		s.fetch(r)
	case *ListOffset:
		s.listOffset(r)
	case *EpochEnd:
		s.epochEndRequest(r)
	case *DeleteRecords:
		s.deleteRecords(r)
	case *Describe:
		s.describe(r)
	case *Coordinate:
		s.coordinate(r)
	case *Await:
		s.await(r)
	default:
		panic(fmt.Sprintf("BUG: request of type %T", r))
	}
}

// cancel answers a Fetch or Await with what there is. One that is answered
// already, or whose answer is being read, is left alone.
func (s *Shard) cancel(r Request) {
	switch r := r.(type) {
	case *Fetch:
		if r.wait != nil {
			s.finishFetch(r.wait)
		}
	case *Await:
		for _, w := range s.awaits {
			if w.r == r {
				s.endAwait(w, fmt.Errorf("%w: canceled", core.ErrNoLeader))
				return
			}
		}
	}
}

// onPersisted lets out what waited for a turn of the journal.
func (s *Shard) onPersisted(t *raftlog.Turn) {
	if len(s.turns) == 0 || s.turns[0].turn != t {
		panic(fmt.Sprintf("BUG: turn %d is done and is not the oldest", t.Seq))
	}
	acks := s.turns[0].acks
	s.turns[0] = pendingTurn{}
	s.turns = s.turns[1:]
	if t.Err != nil {
		s.fails(t.Err)
		return
	}
	if s.fatal != nil {
		return
	}
	s.opts.Logs.Done(t)
	s.deliver(acks)
}

// Finish ends a turn: collects what must be written and sets NextTimer.
func (s *Shard) Finish(now core.Tick, out *Effects) {
	s.begins(now, out)
	defer func() { s.out = nil }()
	if s.fatal == nil {
		// A flush, the preparation of a file or another shard's turn may have
		// found the device broken. Maintenance sees to it that there is a turn
		// every maintainEvery.
		if err := s.opts.Logs.Failed(); err != nil {
			s.fails(err)
		}
	}
	if s.fatal == nil {
		s.collect()
		s.tryWoken()
		if s.awaitDirty {
			s.awaitDirty = false
			s.checkAwaits()
		}
		for _, p := range s.peers {
			s.closeFrame(p)
		}
		s.checkShard()
	}
	out.Fatal = s.fatal
	if s.fatal == nil {
		out.NextTimer = s.timers.next()
	}
}

// collect drains the groups and hands their writes to one turn. What depends on
// no write of its own waits for the turns already under way.
func (s *Shard) collect() {
	for {
		for i := 0; i < len(s.dirty); i++ {
			p := s.dirty[i]
			s.dirty[i], p.dirty = nil, false
			s.settle(p)
		}
		s.dirty = s.dirty[:0]
		if t := s.opts.Logs.Collect(); t != nil && !t.Empty() {
			s.out.Turn = t
			s.turns = append(s.turns, pendingTurn{t, s.acks})
			s.acks = nil
			return
		}
		if len(s.acks) == 0 {
			return
		}
		acks := s.acks
		s.acks = nil
		if n := len(s.turns); n > 0 {
			s.turns[n-1].acks = append(s.turns[n-1].acks, acks...)
			return
		}
		s.deliver(acks)
	}
}

// done gives a request back.
func (s *Shard) done(r Request) { s.out.Done = append(s.out.Done, r) }

// fail gives a request back with an error.
func (s *Shard) fail(r Request, err error) {
	r.Base().Err = err
	if c, ok := r.(*Coordinate); ok {
		c.Command.Err = err
	}
	s.done(r)
}

func (s *Shard) fatalErr() error {
	return fmt.Errorf("%w: the journal failed: %v", core.ErrStorageFailed, s.fatal)
}

// fails stops serving: what the device holds is not known any more. Nothing
// that was not acknowledged is acknowledged from here on.
func (s *Shard) fails(err error) {
	if s.fatal != nil {
		return
	}
	s.fatal = err
	s.opts.Logf("FATAL: the journal failed, nothing is served any more: %v", err)
	refusal := s.fatalErr()
	for _, p := range s.order {
		p.broken = err
		s.failTail(p, refusal)
		if p.host != nil {
			s.hostResigns(p, refusal)
		}
		p.serving, p.leading, p.leader = false, false, core.NoNode
		p.publish()
	}
	s.leaders = 0
	s.answerWaiters(refusal)
}

// shutdown stops campaigning and answers whoever waits.
func (s *Shard) shutdown() {
	if s.stopping || s.fatal != nil {
		return
	}
	s.stopping = true
	s.answerWaiters(core.ErrShuttingDown)
	for _, p := range s.order {
		if p.host != nil {
			s.hostResigns(p, core.ErrShuttingDown)
		}
		s.handOver(p)
	}
}

// answerWaiters answers Fetches with what there is, lookups and Awaits with err.
func (s *Shard) answerWaiters(err error) {
	s.failLookups(err)
	for _, p := range s.order {
		for len(p.waits) > 0 {
			s.finishFetch(p.waits[0].w)
		}
	}
	for len(s.parked) > 0 {
		s.finishFetch(s.parked[0])
	}
	for _, w := range slices.Clone(s.awaits) {
		s.endAwait(w, err)
	}
}

// Stats are the shard's counters for metrics; copied by the loop on request.
func (s *Shard) Stats() Stats {
	st := s.stats
	st.Partitions, st.Leaders = len(s.order), s.leaders
	st.InflightBytes, st.FetchWaiters = s.inflightBytes, s.fetchWaiters+len(s.parked)
	st.Producers = s.producers
	st.Lookups = s.lookups.waiting
	st.RaftWarnings = s.raftLog.warnings + s.raftLog.errors
	return st
}
