package kafka

import (
	"container/list"
	"math/rand/v2"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

const (
	sessionNone         int32 = 0
	sessionEpochFinal   int32 = -1
	sessionEpochInitial int32 = 0
	// sessionIdleMin is how long a session must have been idle to make room for a
	// new one (min.incremental.fetch.session.eviction.ms).
	sessionIdleMin = 120 * core.Second
	// sessionPartitionsMax bounds what one session keeps; a client with more
	// partitions fetches without a session.
	sessionPartitionsMax = 20_000
	// What a session and a partition of it take in memory, about; a topic's name
	// counts with each of its partitions.
	sessionBytes     = 512
	sessionWantBytes = 400
)

// fetchSessions are the incremental fetch sessions (KIP-227) of a loop's
// connections. A client that comes back on another loop is told that its
// session is unknown and starts over with a full fetch.
type fetchSessionCache struct {
	max      int
	bytesMax int64
	byID     map[int32]*fetchSession
	lru      list.List // of *fetchSession, the longest idle one first

	// Atomic; read by metrics.
	count atomic.Int64  // of byID
	bytes atomic.Int64  // of all sessions
	lost  atomic.Uint64 // sessions that were not given or ended for want of room
}

// fetchSession is what a client wants of a set of partitions, and what it was
// told of them.
type fetchSession struct {
	id       int32
	epoch    int32 // of the next request
	byID     bool  // its topics are named by ID
	wants    map[wantKey]*list.Element
	order    list.List // of *fetchWant; those that gave records go to the end
	bytes    int64
	lastUsed core.Tick
	place    *list.Element // in fetchSessionCache.lru
}

type wantKey struct {
	topic fetchTopic
	num   int32
}

// fetchAccess is one request's view of its session.
type fetchAccess struct {
	id      int32 // what the answer says; 0 for none
	session *fetchSession
	wants   []*fetchWant
	// incremental answers leave out what the client knows.
	incremental bool
}

func newFetchSessions(limit int, bytesMax int64) *fetchSessionCache {
	return &fetchSessionCache{max: limit, bytesMax: bytesMax, byID: make(map[int32]*fetchSession)}
}

func (k wantKey) bytes() int64 { return int64(sessionWantBytes + len(k.topic.name)) }

// open finds what a request wants: its own partitions, or those of its session
// as changed by it.
func (c *fetchSessionCache) open(now core.Tick, req *kmsg.FetchRequest, version int16) (fetchAccess, int16) {
	if version < fetchSessions || req.SessionEpoch == sessionEpochFinal {
		if version >= fetchSessions && req.SessionID != sessionNone {
			c.drop(req.SessionID)
		}
		return fetchAccess{wants: wantsOf(req, version)}, codeNone
	}
	if req.SessionEpoch == sessionEpochInitial {
		if req.SessionID != sessionNone {
			c.drop(req.SessionID)
		}
		a := fetchAccess{wants: wantsOf(req, version)}
		c.create(now, &a, version)
		return a, codeNone
	}
	s := c.byID[req.SessionID]
	switch {
	case s == nil:
		return fetchAccess{}, codeFetchSessionIDNotFound
	case s.epoch != req.SessionEpoch:
		return fetchAccess{}, codeInvalidFetchSessionEpoch
	case s.byID != (version >= fetchTopicIDs):
		return fetchAccess{}, codeFetchSessionTopicID
	}
	s.epoch = nextSessionEpoch(s.epoch)
	c.used(s, now)
	if !c.update(now, s, req, version) {
		// The client begins anew, with all its partitions and no session.
		c.drop(s.id)
		return fetchAccess{}, codeFetchSessionIDNotFound
	}
	if s.order.Len() == 0 {
		// As in Kafka the session is over, and the request is served for itself.
		c.drop(s.id)
		return fetchAccess{wants: wantsOf(req, version)}, codeNone
	}
	a := fetchAccess{id: s.id, session: s, incremental: true, wants: make([]*fetchWant, 0, s.order.Len())}
	for e := s.order.Front(); e != nil; e = e.Next() {
		a.wants = append(a.wants, e.Value.(*fetchWant))
	}
	return a, codeNone
}

func nextSessionEpoch(e int32) int32 {
	if e == 1<<31-1 {
		return 1
	}
	return e + 1
}

// wantsOf lists the partitions of a request.
func wantsOf(req *kmsg.FetchRequest, version int16) []*fetchWant {
	var wants []*fetchWant
	for i := range req.Topics {
		t := &req.Topics[i]
		for k := range t.Partitions {
			w := newWant(t, &t.Partitions[k], version)
			wants = append(wants, &w)
		}
	}
	return wants
}

func newWant(t *kmsg.FetchRequestTopic, p *kmsg.FetchRequestTopicPartition, version int16) fetchWant {
	return fetchWant{
		topic: topicOf(t.Topic, t.TopicID, version), num: p.Partition,
		offset: core.Offset(p.FetchOffset), maxBytes: p.PartitionMaxBytes,
		currentEpoch: p.CurrentLeaderEpoch, lastEpoch: p.LastFetchedEpoch,
		knownHigh: -1, knownStart: -1,
	}
}

func topicOf(name string, id [16]byte, version int16) fetchTopic {
	if version >= fetchTopicIDs {
		return fetchTopic{id: id}
	}
	return fetchTopic{name: name}
}

// create makes a session of a full fetch, if there is room for one.
func (c *fetchSessionCache) create(now core.Tick, a *fetchAccess, version int16) {
	need := int64(sessionBytes)
	for _, w := range a.wants {
		need += wantKey{w.topic, w.num}.bytes()
	}
	if len(a.wants) > sessionPartitionsMax || !c.makeRoom(now, need) {
		c.lost.Add(1)
		return
	}
	s := &fetchSession{epoch: 1, byID: version >= fetchTopicIDs, wants: make(map[wantKey]*list.Element, len(a.wants))}
	c.grow(s, sessionBytes)
	for s.id == sessionNone || c.byID[s.id] != nil {
		s.id = rand.Int32()
	}
	for _, w := range a.wants {
		key := wantKey{w.topic, w.num}
		if s.wants[key] == nil {
			s.wants[key] = s.order.PushBack(w)
			c.grow(s, key.bytes())
		}
	}
	s.lastUsed = now
	s.place = c.lru.PushBack(s)
	c.byID[s.id] = s
	c.count.Add(1)
	a.id, a.session = s.id, s
}

// grow counts n more bytes of a session.
func (c *fetchSessionCache) grow(s *fetchSession, n int64) {
	s.bytes += n
	c.bytes.Add(n)
}

// makeRoom drops sessions that are idle, the longest first, until there is room for
// one more of so many bytes; false when too many are in use.
func (c *fetchSessionCache) makeRoom(now core.Tick, bytes int64) bool {
	for len(c.byID) >= c.max || c.bytes.Load()+bytes > c.bytesMax {
		if !c.dropIdle(now) {
			return false
		}
	}
	return true
}

// dropIdle drops the longest idle session; false when it is in use.
func (c *fetchSessionCache) dropIdle(now core.Tick) bool {
	oldest := c.lru.Front()
	if oldest == nil || now-oldest.Value.(*fetchSession).lastUsed < sessionIdleMin {
		return false
	}
	c.lost.Add(1)
	c.drop(oldest.Value.(*fetchSession).id)
	return true
}

func (c *fetchSessionCache) used(s *fetchSession, now core.Tick) {
	s.lastUsed = now
	c.lru.MoveToBack(s.place)
}

func (c *fetchSessionCache) drop(id int32) {
	if s := c.byID[id]; s != nil {
		delete(c.byID, id)
		c.lru.Remove(s.place)
		c.count.Add(-1)
		c.grow(s, -s.bytes)
	}
}

// update applies an incremental request: partitions added, changed, forgotten. False
// when the session has no room for those that are added.
func (c *fetchSessionCache) update(now core.Tick, s *fetchSession, req *kmsg.FetchRequest, version int16) bool {
	for i := range req.Topics {
		t := &req.Topics[i]
		for k := range t.Partitions {
			w := newWant(t, &t.Partitions[k], version)
			key := wantKey{w.topic, w.num}
			if e := s.wants[key]; e != nil {
				old := e.Value.(*fetchWant)
				w.knownHigh, w.knownStart, w.met = old.knownHigh, old.knownStart, old.met
				*old = w
				continue
			}
			for c.bytes.Load()+key.bytes() > c.bytesMax {
				if !c.dropIdle(now) {
					c.lost.Add(1)
					return false
				}
			}
			if len(s.wants) >= sessionPartitionsMax {
				c.lost.Add(1)
				return false
			}
			s.wants[key] = s.order.PushBack(&w)
			c.grow(s, key.bytes())
		}
	}
	for _, t := range req.ForgottenTopics {
		for _, num := range t.Partitions {
			key := wantKey{topicOf(t.Topic, t.TopicID, version), num}
			if e := s.wants[key]; e != nil {
				s.order.Remove(e)
				delete(s.wants, key)
				c.grow(s, -key.bytes())
			}
		}
	}
	return true
}

// tell says whether an item goes into the answer, and notes what it tells. Full
// answers tell everything; incremental ones what is new: records, an error, a
// diverging epoch, or another high watermark or log start.
func (a *fetchAccess) tell(it *fetchItem, res *shard.FetchPart) bool {
	if a.session == nil {
		return true
	}
	w := it.want
	news := !a.incremental || it.code != codeNone
	if res != nil {
		news = news || res.Data.Bytes > 0 || res.Diverging != nil ||
			res.HighWatermark != w.knownHigh || res.LogStart != w.knownStart
		w.knownHigh, w.knownStart = res.HighWatermark, res.LogStart
		it.gave = res.Data.Bytes > 0
	}
	if it.code != codeNone {
		// Told again as long as it lasts, and once more when it is over.
		w.knownHigh, w.knownStart = -1, -1
	}
	return news
}

// finish moves the partitions that gave records behind the others, so that a
// small maximum does not starve them.
func (a *fetchAccess) finish(told []*fetchItem) {
	if a.session == nil {
		return
	}
	for _, it := range told {
		if it.gave {
			if e := a.session.wants[wantKey{it.want.topic, it.want.num}]; e != nil {
				a.session.order.MoveToBack(e)
			}
		}
	}
}
