package kafka

import (
	"slices"

	"millrace/core"
	"millrace/core/arena"
	"millrace/shard"
)

// fetchReply builds the response of a Fetch: pieces of our own between the
// records, which are sent from where they lie.
type fetchReply struct {
	encoder
	begin  int // of the piece being built, in encoder.b
	pieces [][]byte
	bufs   []arena.Buf
	bytes  int
	room   int // bytes of records that still fit
}

// encode answers with the partitions that the session says are to be told. Data
// beyond the request's maximum is dropped: several shards may each have found
// as much as one was allowed to.
func (f *fetch) encode() Reply {
	r := f.r
	flexible := r.Version >= fetchFlexible
	e := &f.answer
	e.room = int(max(min(f.req.MaxBytes, r.Options().FetchMaxBytes), 0))
	e.flexible = flexible
	e.b = appendReplyHeader(make([]byte, 0, 128+64*len(f.items)), r.CorrelationID, flexible)
	e.int32(0) // throttle
	if r.Version >= fetchSessions {
		e.int16(codeNone)
		e.int32(f.session.id)
	}
	told := f.told(e)
	e.makeRoom(f, told)
	if r.Version < fetchTopicIDs {
		e.b = slices.Grow(e.b, bytesOfNames(told))
	}
	e.length(countTopics(told))
	leaders := false
	for begin := 0; begin < len(told); {
		end := begin + 1
		for end < len(told) && told[end].want.topic == told[begin].want.topic {
			end++
		}
		topic := told[begin].want.topic
		if r.Version >= fetchTopicIDs {
			e.b = append(e.b, topic.id[:]...)
		} else {
			e.string(topic.name)
		}
		e.length(end - begin)
		for _, it := range told[begin:end] {
			leaders = f.encodePart(e, it) || leaders
		}
		e.noTags()
		begin = end
	}
	if r.Version >= fetchLeaders && leaders {
		r.encodeEndpoints(&e.encoder)
	} else {
		e.noTags()
	}
	return e.reply()
}

// told lists the items that go into the answer and fits their records into the
// maximum.
func (f *fetch) told(e *fetchReply) []*fetchItem {
	told := f.one.told[:0]
	if len(f.items) != 1 {
		told = make([]*fetchItem, 0, len(f.items))
	}
	for i := range f.items {
		it := &f.items[i]
		res := f.result(it)
		if res != nil {
			if n := res.Data.Bytes; n > 0 && (it.code != codeNone || n > e.room && e.bytes > 0) {
				releaseBufs(res.Data.Bufs)
				res.Data.Bufs, res.Data.Bytes = nil, 0
			} else {
				e.room -= n
				e.bytes += n
			}
		}
		if f.session.tell(it, res) {
			told = append(told, it)
		}
	}
	f.session.finish(told)
	return told
}

// bytesOfNames is what the names of topics take: a buffer that grows with thousands of
// long ones is copied again and again.
func bytesOfNames(told []*fetchItem) (n int) {
	for i, it := range told {
		if i == 0 || it.want.topic != told[i-1].want.topic {
			n += len(it.want.topic.name)
		}
	}
	return n
}

// countTopics counts the runs of partitions of one topic.
func countTopics(told []*fetchItem) int {
	n := 0
	for i, it := range told {
		if i == 0 || it.want.topic != told[i-1].want.topic {
			n++
		}
	}
	return n
}

// encodePart writes one partition and says whether it names a leader.
func (f *fetch) encodePart(e *fetchReply, it *fetchItem) (leader bool) {
	v := f.r.Version
	high, stable, start := core.Offset(-1), core.Offset(-1), core.Offset(-1)
	res := f.result(it)
	if res == nil {
		res = &shard.FetchPart{}
	} else if it.code == codeNone {
		high, stable, start = res.HighWatermark, res.LastStable, res.LogStart
	}
	e.int32(it.want.num)
	e.int16(it.code)
	e.int64(int64(high))
	e.int64(int64(stable))
	if v >= 5 {
		e.int64(int64(start))
	}
	diverging := res.Diverging != nil && it.code == codeNone
	if it.shard < 0 || f.req.IsolationLevel == 1 && it.code == codeNone && !diverging {
		e.length(0) // none: batches of transactions are not taken
	} else {
		e.length(-1)
	}
	if v >= 11 {
		e.int32(-1) // preferred read replica
	}
	e.length(res.Data.Bytes)
	e.records(res.Data.Bufs)
	if v < fetchFlexible {
		return false
	}
	leader = v >= fetchLeaders && res.Leader > 0 && (it.code == codeNotLeaderOrFollower || it.code == codeFencedLeaderEpoch)
	var tags byte
	if diverging {
		tags++
	}
	if leader {
		tags++
	}
	e.b = append(e.b, tags)
	if diverging {
		e.uvarint(0)
		e.uvarint(13)
		e.int32(int32(res.Diverging.Epoch))
		e.int64(int64(res.Diverging.End))
		e.b = append(e.b, 0)
	}
	if leader {
		e.leaderTag(1, int32(res.Leader), int32(res.LeaderEpoch))
	}
	return leader
}

// makeRoom makes the lists of pieces and buffers as long as they will be. Where
// all records are one partition's, its own list of buffers serves.
func (e *fetchReply) makeRoom(f *fetch, told []*fetchItem) {
	bufs, parts := 0, 0
	for _, it := range told {
		res := f.result(it)
		if res == nil || len(res.Data.Bufs) == 0 {
			continue
		}
		if parts++; parts == 1 {
			e.bufs = res.Data.Bufs[:0]
		}
		bufs += len(res.Data.Bufs)
	}
	if parts > 1 {
		e.bufs = make([]arena.Buf, 0, bufs)
	}
	e.pieces = make([][]byte, 0, 1+parts+bufs) // before, between and behind the records
}

// records ends the piece being built and adds the records after it.
func (e *fetchReply) records(bufs []arena.Buf) {
	if len(bufs) == 0 {
		return
	}
	e.cut()
	for _, b := range bufs {
		e.pieces = append(e.pieces, b.Bytes())
	}
	e.bufs = append(e.bufs, bufs...)
}

// cut ends the piece being built. What is appended later may move to another
// array; the piece keeps its own.
func (e *fetchReply) cut() {
	if n := len(e.b); n > e.begin {
		e.pieces = append(e.pieces, e.b[e.begin:n:n])
		e.begin = n
	}
}

func (e *fetchReply) reply() Reply {
	e.cut()
	r := Reply{Head: e.pieces[0], Tail: e.pieces[1:], Bufs: e.bufs}
	setFrameLength(r.Head, r.Len())
	return r
}

// encodeError answers with an error of the request as a whole.
func (f *fetch) encodeError(code int16) Reply {
	flexible := f.r.Version >= fetchFlexible
	e := encoder{b: appendReplyHeader(nil, f.r.CorrelationID, flexible), flexible: flexible}
	e.int32(0)
	e.int16(code)
	e.int32(0)
	e.length(0)
	e.noTags()
	setFrameLength(e.b, len(e.b))
	return Reply{Head: e.b}
}

func releaseBufs(bufs []arena.Buf) {
	for _, b := range bufs {
		b.Release()
	}
}
