package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// groupState is the state of a group of the classic protocol.
type groupState uint8

// Empty may have committed offsets and pending members. A group that is gone
// (Kafka's Dead) is one that the Machine does not know.
const (
	stateEmpty groupState = iota
	statePreparing
	stateCompleting
	stateStable
)

func (s groupState) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[s]
}

const consumerProtocol = "consumer"

// newMemberTimeout is how long a member that has never been part of a
// generation may wait in JoinGroup (Kafka's newMemberJoinTimeoutMs).
const newMemberTimeout = 5 * 60 * core.Second

// liveGroup is what the leader knows of a group beside its log.
type liveGroup struct {
	id           string
	state        groupState
	wasEmpty     bool // the state before statePreparing was stateEmpty
	protocolType string
	protocol     string // of this generation; "" without members
	generation   int32
	leader       string
	stateMs      int64 // when the state was entered

	members []*member // in order of joining
	byID    map[string]*member
	have    map[string]int    // how many members support each protocol
	joining int               // how many members wait in JoinGroup
	static  map[string]string // instance ID to member ID
	// pending are members that were given an ID and have not come back with it
	// (KIP-394).
	pending map[string]*timer

	// subscribed are the topics of this generation's members; known is false
	// where they cannot be told.
	subscribed      map[string]bool
	subscribedKnown bool
	subscribedBytes int

	newMemberAdded bool
	joinTimer      *timer
	syncTimer      *timer
	unsynced       map[string]bool // members of this generation that have not synced
	bytes          int             // of the members, the IDs pending, the group's own and subscribed
	total          *int            // the sum of bytes of all groups
}

// grow counts n more bytes that the group holds.
func (g *liveGroup) grow(n int) {
	g.bytes += n
	*g.total += n
}

// member is one member of a group.
type member struct {
	id, instance         string
	static               bool
	clientID, clientHost string
	rebalanceMs          int32
	sessionMs            int32
	protocols            []protocol
	assignment           []byte
	isNew                bool // has not been part of a generation
	session              *timer
	join, sync           *core.Command // waiting, or nil; join is set by setJoin
	group                *liveGroup    // that it is in
}

// protocol is one assignment strategy that a member supports.
type protocol struct {
	name     string
	metadata []byte
}

func (mb *member) bytes() int {
	n := len(mb.assignment) + len(mb.id) + len(mb.instance) + len(mb.clientID) + len(mb.clientHost)
	for _, p := range mb.protocols {
		n += len(p.name) + len(p.metadata)
	}
	return n
}

func (mb *member) instanceID() *string {
	if !mb.static {
		return nil
	}
	return &mb.instance
}

func (mb *member) metadata(name string) []byte {
	for _, p := range mb.protocols {
		if p.name == name {
			return p.metadata
		}
	}
	return []byte{}
}

func (mb *member) matches(req *kmsg.JoinGroupRequest) bool {
	return slices.EqualFunc(mb.protocols, req.Protocols, func(p protocol, r kmsg.JoinGroupRequestProtocol) bool {
		return p.name == r.Name && string(p.metadata) == string(r.Metadata)
	})
}

// setJoin notes that a member waits in JoinGroup, or (nil) does not any more.
func (mb *member) setJoin(cmd *core.Command) {
	if g := mb.group; g != nil {
		if mb.join != nil {
			g.joining--
		}
		if cmd != nil {
			g.joining++
		}
	}
	mb.join = cmd
}

func newTimer() *timer { return &timer{pos: -1} }

func newLiveGroup(id string, total *int) *liveGroup {
	g := &liveGroup{
		id: id, total: total, byID: map[string]*member{}, have: map[string]int{}, static: map[string]string{}, pending: map[string]*timer{},
		joinTimer: newTimer(), syncTimer: newTimer(), unsynced: map[string]bool{},
	}
	g.grow(len(id))
	return g
}

func (g *liveGroup) add(mb *member) {
	g.members = append(g.members, mb)
	g.byID[mb.id] = mb
	if mb.static {
		g.static[mb.instance] = mb.id
	}
	if g.leader == "" {
		g.leader = mb.id
	}
	mb.group = g
	if mb.join != nil {
		g.joining++
	}
	g.count(mb, 1)
}

// count counts a member's bytes and protocols in (1) or out (-1).
func (g *liveGroup) count(mb *member, n int) {
	g.grow(n * mb.bytes())
	for i, p := range mb.protocols {
		if slices.ContainsFunc(mb.protocols[:i], func(o protocol) bool { return o.name == p.name }) {
			continue
		}
		if g.have[p.name] += n; g.have[p.name] == 0 {
			delete(g.have, p.name)
		}
	}
}

// change lets fn give a member other properties.
func (g *liveGroup) change(mb *member, fn func()) {
	g.count(mb, -1)
	fn()
	g.count(mb, 1)
}

func (g *liveGroup) drop(mb *member) {
	g.members = slices.DeleteFunc(g.members, func(o *member) bool { return o == mb })
	delete(g.byID, mb.id)
	delete(g.unsynced, mb.id)
	if mb.static && g.static[mb.instance] == mb.id {
		delete(g.static, mb.instance)
	}
	if g.leader == mb.id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
	g.count(mb, -1)
	if mb.join != nil {
		g.joining--
	}
	mb.group = nil
}

// rename gives a member another ID (a static member that has come back).
func (g *liveGroup) rename(mb *member, id string) {
	delete(g.byID, mb.id)
	if g.unsynced[mb.id] {
		delete(g.unsynced, mb.id)
		g.unsynced[id] = true
	}
	if g.leader == mb.id {
		g.leader = id
	}
	g.grow(len(id) - len(mb.id))
	mb.id = id
	g.byID[id] = mb
	g.static[mb.instance] = id
}

func (g *liveGroup) allJoined() bool {
	return len(g.pending) == 0 && g.joining == len(g.members)
}

// rebalanceTimeout is the longest of the members'.
func (g *liveGroup) rebalanceTimeout() core.Tick {
	var most int32
	for _, mb := range g.members {
		most = max(most, mb.rebalanceMs)
	}
	return core.Tick(most) * core.Millisecond
}

// supports says whether a member with these protocols can be in the group: of
// the same type, and with one protocol that all members have.
func (g *liveGroup) supports(req *kmsg.JoinGroupRequest) bool {
	if g.state == stateEmpty {
		return req.ProtocolType != "" && len(req.Protocols) > 0
	}
	if g.protocolType != req.ProtocolType {
		return false
	}
	return slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return g.have[p.Name] == len(g.members) })
}

// selectProtocol takes the one with the most votes: each member votes for the
// first of its protocols that all support. Of equals, the one voted for first.
func (g *liveGroup) selectProtocol() string {
	votes := make(map[string]int)
	var order []string
	for _, mb := range g.members {
		for _, p := range mb.protocols {
			if g.have[p.name] == len(g.members) {
				if votes[p.name] == 0 {
					order = append(order, p.name)
				}
				votes[p.name]++
				break
			}
		}
	}
	best := ""
	for _, name := range order {
		if votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

const (
	// subscribedMax is how many topics of a group are known by name; of a group with
	// more, every topic counts as one that it reads.
	subscribedMax      = 20_000
	subscribedOverhead = 64 // of a name in the set
)

// learnSubscriptions notes the topics of the generation's members.
func (g *liveGroup) learnSubscriptions() {
	g.grow(-g.subscribedBytes)
	g.subscribed, g.subscribedKnown, g.subscribedBytes = nil, false, 0
	if g.protocolType != consumerProtocol {
		return
	}
	found, bytes := make(map[string]bool), 0
	for _, mb := range g.members {
		ok := subscribedTopics(mb.metadata(g.protocol), func(topic []byte) bool {
			if !found[string(topic)] {
				found[string(topic)] = true
				bytes += len(topic) + subscribedOverhead
			}
			return len(found) <= subscribedMax
		})
		if !ok {
			return
		}
	}
	g.subscribed, g.subscribedKnown, g.subscribedBytes = found, true, bytes
	g.grow(bytes)
}

// usesTopic says whether members of a consumer group read the topic; where that
// is not known, they might.
func (g *liveGroup) usesTopic(topic string) bool {
	if g.subscribedKnown {
		return g.subscribed[topic]
	}
	return g.protocolType == consumerProtocol
}

// record is the group's metadata as it goes to the log.
func (g *liveGroup) record() core.Record {
	v := kmsg.NewGroupMetadataValue()
	v.Version = groupValueVersion
	v.ProtocolType, v.Generation, v.CurrentStateTimestamp = g.protocolType, g.generation, g.stateMs
	if g.protocol != "" {
		v.Protocol = &g.protocol
	}
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, mb := range g.members {
		vm := kmsg.NewGroupMetadataValueMember()
		vm.MemberID, vm.InstanceID, vm.ClientID, vm.ClientHost = mb.id, mb.instanceID(), mb.clientID, mb.clientHost
		vm.RebalanceTimeoutMillis, vm.SessionTimeoutMillis = mb.rebalanceMs, mb.sessionMs
		vm.Subscription, vm.Assignment = mb.metadata(g.protocol), mb.assignment
		v.Members = append(v.Members, vm)
	}
	return core.Record{Key: groupKey(g.id), Value: v.AppendTo(nil)}
}

// restore makes a group out of its metadata in the log. No record that a group wrote
// has a member without an ID, or two with one ID or one instance ID: of these the first
// counts.
func restore(id string, v *kmsg.GroupMetadataValue, total *int) *liveGroup {
	g := newLiveGroup(id, total)
	g.protocolType, g.generation, g.stateMs = v.ProtocolType, v.Generation, v.CurrentStateTimestamp
	if len(v.Members) == 0 {
		g.learnSubscriptions()
		return g
	}
	if v.Protocol != nil {
		g.protocol = *v.Protocol
	}
	for i := range v.Members {
		vm := &v.Members[i]
		mb := &member{
			id: vm.MemberID, clientID: vm.ClientID, clientHost: vm.ClientHost,
			rebalanceMs: vm.RebalanceTimeoutMillis, sessionMs: vm.SessionTimeoutMillis,
			protocols:  []protocol{{g.protocol, vm.Subscription}},
			assignment: vm.Assignment, session: newTimer(),
		}
		if mb.rebalanceMs < 0 {
			mb.rebalanceMs = mb.sessionMs
		}
		if vm.InstanceID != nil {
			mb.static, mb.instance = true, *vm.InstanceID
		}
		_, taken := g.static[mb.instance]
		if mb.id != "" && g.byID[mb.id] == nil && !(mb.static && taken) {
			g.add(mb)
		}
	}
	if len(g.members) > 0 {
		g.state = stateStable
	}
	if v.Leader != nil && g.byID[*v.Leader] != nil {
		g.leader = *v.Leader
	}
	g.learnSubscriptions()
	return g
}
