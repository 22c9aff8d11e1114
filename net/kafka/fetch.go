package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
	"millrace/raftlog"
	"millrace/shard"
)

const (
	fetchSessions = 7  // KIP-227
	fetchFlexible = 12 // KIP-482
	fetchTopicIDs = 13 // KIP-516
	fetchLeaders  = 16 // KIP-951
)

// fetchWaitMax bounds how long a fetch waits, whatever it asks for.
const fetchWaitMax = 5 * 60 * core.Second

// fetch is one Fetch request under way. Stages: session (which partitions, from
// where), route (one shard.Fetch for each shard concerned), and when they come
// back again or reply.
//
// What the shards have in sum is compared with the request's minimum. Of the n
// shards, each waits until it has its share more than in the round before: what
// is missing, divided by n and rounded up. Once the sum is there at least one
// has its share. The first to have it ends the others' wait; the sum is taken,
// and where it is below the minimum the next round begins. A round ends with new
// bytes only, and at least the n-th part of what is missing, so that there are
// few. Rejected: shards that tell each other of their bytes, which costs a
// message for each append.
type fetch struct {
	r       *Request
	req     *kmsg.FetchRequest
	session fetchAccess
	items   []fetchItem
	asked   []askedShard
	waiting int
	failed  bool // an item failed without asking a shard: nothing waits then

	minBytes int
	deadline core.Tick
	parked   int64
	met      bool // the shard that ended the round has its share
	gone     bool // so has the client

	answer fetchReply
	// one is the room for what most requests need: one partition of one shard.
	one struct {
		item  [1]fetchItem
		told  [1]*fetchItem
		asked [1]askedShard
		place [1]int
		ask   shard.Fetch
		part  [1]shard.FetchPart
	}
}

// fetchItem is one partition of the answer, in order.
type fetchItem struct {
	want  *fetchWant
	code  int16
	shard int  // of asked; -1 if no shard was asked
	part  int  // of the shard's Parts
	gave  bool // records
}

// fetchWant is what a client wants of one partition: of this request, or kept by
// its session.
type fetchWant struct {
	topic        fetchTopic
	num          int32
	offset       core.Offset
	maxBytes     int32
	currentEpoch int32
	lastEpoch    int32

	// What the client was last told; sessions only.
	knownHigh  core.Offset
	knownStart core.Offset
	// met is set when the topic's ID has been found; sessions only.
	met bool
}

// fetchTopic names a topic as the request does: by name, or from version 13 by
// ID.
type fetchTopic struct {
	name string
	id   core.TopicID
}

type askedShard struct {
	id    core.ShardID
	q     *shard.Fetch
	items []int
}

// serveFetch answers Fetch.
func serveFetch(r *Request) {
	f := &fetch{r: r, req: r.Body.(*kmsg.FetchRequest)}
	access, code := r.w.sessions.open(r.Now(), f.req, r.Version)
	if code != codeNone {
		f.session = fetchAccess{}
		r.Failed(code)
		r.ReplyFrame(f.encodeError(code))
		return
	}
	f.session = access
	f.route()
	if f.waiting == 0 {
		f.reply()
	}
}

// route asks the shards.
func (f *fetch) route() {
	r, im := f.r, f.r.Image()
	f.items = f.one.item[:]
	if n := len(f.session.wants); n != 1 {
		f.items = make([]fetchItem, n)
	}
	maxBytes := min(f.req.MaxBytes, r.Options().FetchMaxBytes)
	for i, w := range f.session.wants {
		it := &f.items[i]
		it.want, it.shard = w, -1
		p, code := w.find(im, r.Version)
		if code != codeNone {
			it.code, f.failed = code, true
			continue
		}
		a := f.ask(core.ShardOf(p.ID, r.w.loop.Shards()))
		it.shard, it.part = a, len(f.asked[a].q.Parts)
		f.asked[a].items = append(f.asked[a].items, i)
		f.asked[a].q.Parts = append(f.asked[a].q.Parts, shard.FetchPart{
			Partition: p.ID, Offset: w.offset, MaxBytes: int(max(w.maxBytes, 0)),
			CurrentEpoch: max(w.currentEpoch, -1), LastEpoch: w.lastEpoch,
			KnownHighWatermark: w.knownHigh,
		})
	}
	if len(f.asked) == 0 {
		return
	}
	r.conn.Expect(r.place, int(max(maxBytes, 0)))
	f.minBytes = int(max(min(f.req.MinBytes, maxBytes), 0)) // more cannot come
	f.deadline = r.Now() + min(core.Tick(max(f.req.MaxWaitMillis, 0))*core.Millisecond, fetchWaitMax)
	if f.failed {
		f.minBytes, f.deadline = 0, r.Now()
	}
	f.park()
	for _, a := range f.asked {
		q := a.q
		q.MaxBytes, q.Deadline = int(max(maxBytes, 0)), f.deadline
		q.ReadCommitted = f.req.IsolationLevel == 1
		q.Owner = f
	}
	f.submit(f.minBytes)
}

// fetchPartBytes is what a partition of a fetch that waits takes, about: its want,
// item, part, waiter, and its share of the request.
const fetchPartBytes = 512

// park counts what a fetch that waits keeps. Beyond ParkedBytesMax it does not
// wait, and is answered with what there is.
func (f *fetch) park() {
	w := f.r.w
	if f.deadline <= f.r.Now() || f.minBytes == 0 {
		return
	}
	n := int64(len(f.items))*fetchPartBytes + int64(f.r.bytes)
	if w.parked.Load()+n > w.server.opts.ParkedBytesMax/int64(w.loop.Shards()) {
		w.unparked.Add(1)
		f.minBytes, f.deadline = 0, f.r.Now()
		return
	}
	f.parked = n
	w.parked.Add(n)
	f.r.Parked(f)
}

// submit begins a round: each shard waits for its share of what is missing above
// what it had.
func (f *fetch) submit(missing int) {
	f.waiting = len(f.asked)
	share := (missing + len(f.asked) - 1) / len(f.asked)
	for _, a := range f.asked {
		a.q.MinBytes = a.q.Have + share
	}
	for _, a := range f.asked {
		f.r.w.loop.Submit(a.id, a.q)
	}
}

// again begins another round where the round that is over found too little and
// nothing that the client must hear of at once.
func (f *fetch) again() bool {
	if !f.met || f.gone {
		return false // whatever the reason, it would not wait the next time either
	}
	missing := f.minBytes
	for _, a := range f.asked {
		if a.q.Err != nil || a.q.AtOnce {
			return false
		}
		missing -= a.q.Have
	}
	if missing <= 0 || f.r.Now() >= f.deadline {
		return false
	}
	for _, a := range f.asked {
		for i := range a.q.Parts {
			releaseBufs(a.q.Parts[i].Data.Bufs)
			a.q.Parts[i].Data = raftlog.ReadResult{}
		}
	}
	f.submit(missing)
	return true
}

// ask finds or adds the question to a shard.
func (f *fetch) ask(id core.ShardID) int {
	for i := range f.asked {
		if f.asked[i].id == id {
			return i
		}
	}
	a := askedShard{id: id}
	switch n := len(f.items); {
	case len(f.asked) > 0:
		a.q = new(shard.Fetch)
	case n == 1:
		f.asked = f.one.asked[:0]
		a.q, a.items = &f.one.ask, f.one.place[:0]
		a.q.Parts = f.one.part[:0]
	default:
		f.asked = f.one.asked[:0]
		a.q, a.items = &f.one.ask, make([]int, 0, n)
		a.q.Parts = make([]shard.FetchPart, 0, n)
	}
	f.asked = append(f.asked, a)
	return len(f.asked) - 1
}

func (w *fetchWant) find(im *meta.Image, version int16) (*meta.Partition, int16) {
	var t *meta.Topic
	if version >= fetchTopicIDs {
		t = im.TopicByID(w.topic.id)
		switch {
		case t != nil:
			w.met = true
		case w.met: // deleted since; as in Kafka, whose sessions remember the name
			return nil, codeUnknownTopicOrPartition
		default:
			return nil, codeUnknownTopicID
		}
	} else if t = im.Topic(w.topic.name); t == nil {
		return nil, codeUnknownTopicOrPartition
	}
	if w.num < 0 || int(w.num) >= len(t.Partitions) {
		return nil, codeUnknownTopicOrPartition
	}
	return t.Partitions[w.num], codeNone
}

// Resume implements Continuation: one shard has answered.
func (f *fetch) Resume(q shard.Request) {
	if f.waiting == len(f.asked) {
		own := q.(*shard.Fetch)
		f.met = own.Have >= own.MinBytes
	}
	f.waiting--
	if f.waiting == 0 {
		if !f.again() {
			f.reply()
		}
		return
	}
	if f.waiting == len(f.asked)-1 {
		for _, a := range f.asked {
			if shard.Request(a.q) != q {
				f.r.w.loop.Cancel(a.id, a.q)
			}
		}
	}
}

// Gone implements Waiter: what waits in the shards would keep others from waiting, for
// up to fetchWaitMax.
func (f *fetch) Gone() {
	f.gone = true
	for _, a := range f.asked {
		f.r.w.loop.Cancel(a.id, a.q)
	}
}

func (f *fetch) reply() {
	f.r.w.parked.Add(-f.parked)
	f.parked = 0
	for i := range f.items {
		it := &f.items[i]
		if it.shard >= 0 {
			it.code = ErrorCode(f.result(it).Err)
			if err := f.asked[it.shard].q.Err; err != nil {
				it.code = ErrorCode(err)
			}
		}
		f.r.Failed(it.code)
	}
	f.r.ReplyFrame(f.encode())
}

// result is what the shard answered for an item; nil if none was asked.
func (f *fetch) result(it *fetchItem) *shard.FetchPart {
	if it.shard < 0 {
		return nil
	}
	return &f.asked[it.shard].q.Parts[it.part]
}
