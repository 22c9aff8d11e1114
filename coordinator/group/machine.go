package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/budget"
	"millrace/core/meta"
)

// Machine is the state machine of one partition. All methods are called by one
// loop.
type Machine struct {
	opts Options // Immutable.

	// Replicated: follows from the log alone.
	saved     map[string]*savedGroup
	next      core.Offset // after the last record replayed
	liveBytes int64       // of the records that are not superseded
	offsets   int         // committed ones, of all groups

	// Volatile; of a leader.
	leading bool
	groups  map[string]*liveGroup
	members int // of all groups, those pending included
	bytes   int // of all groups
	timers  timers
	expiry  *timer
	ids     core.IDSource
	rewrite rewrite
	refused uint64 // groups, members and offsets that a bound kept out

	charged int64 // of opts.Memory

	// Of the call that is being served.
	now core.Tick
	out *core.Output
}

// savedGroup is what the log holds of one group.
type savedGroup struct {
	metadata      *kmsg.GroupMetadataValue // nil: none, or a tombstone
	metadataBytes int64
	offsets       map[topicPartition]*committed
}

func (s *savedGroup) empty() bool { return s.metadata == nil && len(s.offsets) == 0 }

// New makes a Machine that has seen nothing of its log yet.
func New(o Options) *Machine {
	o.fillBounds()
	if o.Memory == nil {
		o.Memory = budget.New(DefaultMemoryBytes, nil)
	}
	m := &Machine{opts: o}
	m.Reset()
	return m
}

// Reset forgets all replicated state, and everything else with it.
func (m *Machine) Reset() {
	m.saved, m.next, m.liveBytes, m.offsets = make(map[string]*savedGroup), 0, 0, 0
	m.rewrite.reset(m.opts.RewriteBytesMin)
	m.forget()
	m.charge()
}

// What things take in memory beside their texts, about.
const (
	savedOverhead  = 512 // a group in the log
	offsetOverhead = 128
	groupOverhead  = 1024 // a group that is led
	memberOverhead = 1024
)

// heapBytes is what the machine holds in memory, about.
func (m *Machine) heapBytes() int64 {
	return m.liveBytes + int64(len(m.saved))*savedOverhead + int64(m.offsets)*offsetOverhead +
		int64(m.bytes) + int64(len(m.groups))*groupOverhead + int64(m.members)*memberOverhead
}

// charge settles with the budget that all machines of the node share. What the
// log holds is there whatever the budget says.
func (m *Machine) charge() {
	n := m.heapBytes()
	if n > m.charged {
		m.opts.Memory.Take(n - m.charged)
	} else {
		m.opts.Memory.Release(m.charged - n)
	}
	m.charged = n
}

// memoryFull says that n bytes more are too much for the node.
func (m *Machine) memoryFull(n int64) bool {
	return m.opts.Memory.UsedBytes()-m.charged+m.heapBytes()+n > m.opts.Memory.LimitBytes()
}

// forget drops what only a leader has.
func (m *Machine) forget() {
	m.leading, m.members, m.bytes = false, 0, 0
	m.groups, m.timers, m.expiry = make(map[string]*liveGroup), timers{}, newTimer()
	m.rewrite.stop()
}

// Handle decides on a command. Replicated state changes only when Replay sees
// the records that it puts out; who waits for what changes here.
func (m *Machine) Handle(now core.Tick, cmd *core.Command, out *core.Output) {
	m.now, m.out = now, out
	switch req := cmd.Body.(type) {
	case *kmsg.JoinGroupRequest:
		m.joinGroup(cmd, req)
	case *kmsg.SyncGroupRequest:
		m.syncGroup(cmd, req)
	case *kmsg.HeartbeatRequest:
		m.heartbeat(cmd, req)
	case *kmsg.LeaveGroupRequest:
		m.leaveGroup(cmd, req)
	case *kmsg.OffsetCommitRequest:
		m.offsetCommit(cmd, req)
	case *kmsg.OffsetFetchRequest:
		m.offsetFetch(cmd, req)
	case *kmsg.OffsetDeleteRequest:
		m.offsetDelete(cmd, req)
	case *kmsg.DescribeGroupsRequest:
		m.describeGroups(cmd, req)
	case *kmsg.ListGroupsRequest:
		m.listGroups(cmd, req)
	case *kmsg.DeleteGroupsRequest:
		m.deleteGroups(cmd, req)
	case meta.TopicsDeleted:
		m.topicsDeleted(cmd, req)
	default:
		panic(fmt.Sprintf("BUG: the group coordinator was given a %T", cmd.Body))
	}
	m.out = nil
	m.charge()
}

// reply lists a command whose answer depends on nothing but what was appended
// before.
func (m *Machine) reply(cmd *core.Command, reply any) {
	cmd.Reply = reply
	if n := len(m.out.Writes); n > 0 {
		if last := &m.out.Writes[n-1]; len(last.Records) == 0 {
			last.Replies = append(last.Replies, cmd)
			return
		}
	}
	m.out.Writes = append(m.out.Writes, core.Write{Replies: []*core.Command{cmd}})
}

// write appends records, with the replies that depend on them.
func (m *Machine) write(cookie any, records []core.Record, replies ...*core.Command) {
	m.out.Writes = append(m.out.Writes, core.Write{Records: records, Replies: replies, Cookie: cookie})
}

// Replay applies records to the replicated state.
func (m *Machine) Replay(base core.Offset, records []core.Record) {
	for i, r := range records {
		d, err := decodeRecord(r)
		if err != nil {
			panic(fmt.Sprintf("FATAL: record at offset %d of %s-%d: %v", base+core.Offset(i), OffsetsTopic, m.opts.Partition, err))
		}
		m.apply(d, r)
	}
	m.next = base + core.Offset(len(records))
	m.rewrite.count(records)
	m.charge()
}

func (m *Machine) apply(d decodedRecord, r core.Record) {
	s := m.saved[d.group]
	if s == nil {
		s = &savedGroup{offsets: make(map[topicPartition]*committed)}
		m.saved[d.group] = s
	}
	if d.isOffset {
		if old := s.offsets[d.at]; old != nil {
			m.liveBytes -= old.bytes
			m.offsets--
			delete(s.offsets, d.at)
		}
		if d.offset != nil {
			s.offsets[d.at] = d.offset
			m.liveBytes += d.offset.bytes
			m.offsets++
		}
	} else {
		m.liveBytes -= s.metadataBytes
		s.metadata, s.metadataBytes = d.metadata, 0
		if d.metadata != nil {
			s.metadataBytes = recordBytes(r)
			m.liveBytes += s.metadataBytes
		} else if g := m.groups[d.group]; g != nil && g.state == stateEmpty {
			m.dropGroup(g)
		}
	}
	if s.empty() {
		delete(m.saved, d.group)
	}
}

// dropGroup forgets a group without members.
func (m *Machine) dropGroup(g *liveGroup) {
	m.timers.cancel(g.joinTimer)
	m.timers.cancel(g.syncTimer)
	for _, t := range g.pending {
		m.timers.cancel(t)
	}
	m.members -= len(g.pending)
	g.grow(-g.bytes)
	delete(m.groups, g.id)
}

// Lead restores the groups from the log. Their members get a whole session
// timeout to be heard of.
func (m *Machine) Lead(now core.Tick, term core.Term, out *core.Output) {
	m.forget()
	m.now, m.out, m.leading = now, out, true
	// Machines of one node have one seed, and often the same term and time.
	m.ids = core.IDSource{Seed: m.opts.Seed + uint64(m.opts.Partition)*seedStep, Term: term, Time: now}
	for _, id := range slices.Sorted(maps.Keys(m.saved)) {
		v := m.saved[id].metadata
		if v == nil {
			continue
		}
		g := restore(id, v, &m.bytes)
		m.groups[id] = g
		m.members += len(g.members)
		for _, mb := range g.members {
			m.keepAlive(g, mb)
		}
	}
	m.scheduleExpiry()
	m.out = nil
	m.charge()
}

// seedStep sets the seeds of partitions apart (the step of SplitMix64).
const seedStep = 0x9E3779B97F4A7C15

// Resign answers everyone who waits: the coordinator is elsewhere now.
func (m *Machine) Resign(now core.Tick, out *core.Output) {
	m.now, m.out = now, out
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		for _, mb := range m.groups[id].members {
			m.answerJoin(mb, kerr.NotCoordinator.Code)
			m.answerSync(mb, kerr.NotCoordinator.Code)
		}
	}
	m.forget()
	m.out = nil
	m.charge()
}

// Deadline is when Timer is due next.
func (m *Machine) Deadline() core.Tick {
	if !m.leading {
		return 0
	}
	next := m.timers.next()
	if m.rewrite.wants(m.liveBytes) && (next == 0 || m.rewrite.next < next) {
		next = max(m.rewrite.next, 1)
	}
	return next
}

// Timer fires what is due and goes on with a rewrite of the log.
func (m *Machine) Timer(now core.Tick, out *core.Output) {
	if !m.leading {
		return
	}
	m.now, m.out = now, out
	// What a timer sets for now is left for the next call: a turn ends.
	for range m.timers.Len() {
		t := m.timers.due(now)
		if t == nil {
			break
		}
		fire := t.fire
		t.fire = nil
		fire()
	}
	m.rewriteStep()
	m.out = nil
	m.charge()
}

// undo is the Cookie of a Write whose failure has to be made up for.
type undo func()

// Failed makes up for records that were not appended. It has no output: what
// follows of it is left to a timer that is due at once.
func (m *Machine) Failed(now core.Tick, cookie any, _ error) {
	m.now = now
	m.rewrite.failed(now)
	if f, ok := cookie.(undo); ok && m.leading {
		f()
		m.charge()
	}
}
