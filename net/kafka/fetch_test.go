package kafka

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/arena"
	"millrace/shard"
)

type fetchPart struct {
	num    int32
	offset int64
}

func fetchRequest(name string, session, epoch int32, parts ...fetchPart) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 1<<20
	req.SessionID, req.SessionEpoch = session, epoch
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = name, core.TopicID{15: 1}
	if name != "t" {
		t.TopicID = core.TopicID{15: 99}
	}
	for _, p := range parts {
		rp := kmsg.NewFetchRequestTopicPartition()
		rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p.num, p.offset, 1<<20
		rp.CurrentLeaderEpoch, rp.LastFetchedEpoch = -1, -1
		t.Partitions = append(t.Partitions, rp)
	}
	if len(parts) > 0 {
		req.Topics = append(req.Topics, t)
	}
	return req
}

// logs answers fetches out of one high watermark per partition: records are as
// many bytes as there are offsets.
type logs struct {
	f    *fixture
	high map[int32]core.Offset
}

func newLogs(f *fixture) *logs {
	l := &logs{f, map[int32]core.Offset{}}
	f.loop.answer = l.answer
	return l
}

func (l *logs) answer(_ core.ShardID, q shard.Request) bool {
	fq := q.(*shard.Fetch)
	fq.Have, fq.AtOnce = 0, true
	for i := range fq.Parts {
		p := &fq.Parts[i]
		place, _ := l.f.loop.image.Locate(p.Partition)
		high := l.high[place.Num]
		p.HighWatermark, p.LastStable, p.LogStart = high, high, 0
		if p.Offset > high {
			p.Err = core.ErrOffsetOutOfRange
			continue
		}
		if n := int(high - p.Offset); n > 0 {
			buf, err := l.f.loop.arena.Alloc(n)
			if err != nil {
				l.f.t.Fatal(err)
			}
			for k := range buf.Bytes() {
				buf.Bytes()[k] = byte(place.Num)
			}
			p.Data.Bufs, p.Data.Bytes, p.Data.Next = []arena.Buf{buf}, n, high
			fq.Have += n
		}
	}
	return true
}

// told lists the partitions of a response: number, error, bytes.
func told(resp *kmsg.FetchResponse) string {
	s := ""
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			s += fmt.Sprintf("[%d e%d hw%d %db]", p.Partition, p.ErrorCode, p.HighWatermark, len(p.RecordBatches))
		}
	}
	return s
}

func TestFetchAnswersInEveryVersion(t *testing.T) {
	for v := int16(4); v <= 18; v++ {
		f := newFixture(t)
		l := newLogs(f)
		l.high[0], l.high[2] = 10, 7
		resp := f.ask(fetchRequest("t", 0, -1, fetchPart{2, 4}, fetchPart{0, 0}, fetchPart{1, 0}, fetchPart{3, 5}, fetchPart{9, 0}), v).(*kmsg.FetchResponse)
		if got, want := told(resp), "[2 e0 hw7 3b][0 e0 hw10 10b][1 e0 hw0 0b][3 e1 hw-1 0b][9 e3 hw-1 0b]"; got != want {
			t.Errorf("version %d: %s, want %s", v, got, want)
		}
		for _, p := range resp.Topics[0].Partitions {
			for _, b := range p.RecordBatches {
				if b != byte(p.Partition) {
					t.Fatalf("version %d: partition %d got records of another", v, p.Partition)
				}
			}
		}
		unknown := f.ask(fetchRequest("nope", 0, -1, fetchPart{0, 0}), v).(*kmsg.FetchResponse)
		want := codeUnknownTopicOrPartition
		if v >= 13 {
			want = codeUnknownTopicID
		}
		if got := unknown.Topics[0].Partitions[0].ErrorCode; got != want {
			t.Errorf("version %d: error %d for an unknown topic, want %d", v, got, want)
		}
	}
}

// waitingShards are two shards that answer a fetch when they have its minimum,
// out of one count of bytes each.
type waitingShards struct {
	f     *fixture
	have  map[core.ShardID]int
	waits map[core.ShardID]*shard.Fetch
	asked int
}

func newWaitingShards(f *fixture) *waitingShards {
	w := &waitingShards{f: f, have: map[core.ShardID]int{}, waits: map[core.ShardID]*shard.Fetch{}}
	f.loop.answer = func(to core.ShardID, q shard.Request) bool {
		w.asked++
		w.waits[to] = q.(*shard.Fetch)
		w.fill(to)
		return w.waits[to].Have >= w.waits[to].MinBytes
	}
	return w
}

// fill puts a shard's bytes into the first part of its fetch.
func (w *waitingShards) fill(id core.ShardID) {
	q := w.waits[id]
	p := &q.Parts[0]
	releaseBufs(p.Data.Bufs)
	p.Data.Bufs, p.Data.Bytes, q.Have = nil, w.have[id], w.have[id]
	if n := w.have[id]; n > 0 {
		buf, err := w.f.loop.arena.Alloc(n)
		if err != nil {
			w.f.t.Fatal(err)
		}
		p.Data.Bufs = []arena.Buf{buf}
	}
}

// append adds bytes to a shard, which answers if that is enough.
func (w *waitingShards) append(id core.ShardID, n int) {
	w.have[id] += n
	w.fill(id)
	if q := w.waits[id]; q.Have >= q.MinBytes {
		w.f.loop.held = slices.DeleteFunc(w.f.loop.held, func(h shard.Request) bool { return h == shard.Request(q) })
		q.Base().Owner.(Continuation).Resume(q)
	}
	w.f.loop.run()
}

func TestFetchOverShardsWatchesTheSum(t *testing.T) {
	f := newFixture(t)
	w := newWaitingShards(f)
	req := fetchRequest("t", 0, -1, fetchPart{0, 0}, fetchPart{1, 0}, fetchPart{2, 0}, fetchPart{3, 0})
	req.MinBytes = 100
	place := f.serve(frameBytes(req, 12))
	f.loop.run()
	if len(w.waits) != 2 {
		t.Fatalf("%d shards were asked, want 2", len(w.waits))
	}
	for _, q := range w.waits {
		if d := q.Deadline - f.loop.now; d != 500*core.Millisecond || q.MinBytes != 50 {
			t.Errorf("a shard waits for %d bytes, %d ns", q.MinBytes, d)
		}
	}
	w.append(1, 30)
	w.append(0, 60) // its share: the sum is taken, and the next round begins
	w.append(1, 9)
	if len(f.conn.replies) > 0 {
		t.Fatal("answered with 99 bytes, 100 are the minimum")
	}
	if w.asked > 8 {
		t.Errorf("the shards were asked %d times for 99 bytes", w.asked)
	}
	w.append(1, 1)
	if len(f.loop.held) > 0 {
		t.Errorf("%d shards still wait", len(f.loop.held))
	}
	resp := f.response(place, req).(*kmsg.FetchResponse)
	n := 0
	for _, p := range resp.Topics[0].Partitions {
		n += len(p.RecordBatches)
	}
	if n != 100 {
		t.Errorf("%d bytes are answered, want 100", n)
	}
}

// What a shard must tell at once ends the fetch, however little there is, and so
// does the deadline.
func TestFetchOverShardsEndsAtOnce(t *testing.T) {
	for _, ends := range []func(f *fixture, q *shard.Fetch){
		func(_ *fixture, q *shard.Fetch) { q.AtOnce = true },
		func(_ *fixture, q *shard.Fetch) { q.Err = core.ErrStorageFailed },
		func(f *fixture, _ *shard.Fetch) { f.loop.now += 500 * core.Millisecond },
	} {
		f := newFixture(t)
		w := newWaitingShards(f)
		req := fetchRequest("t", 0, -1, fetchPart{0, 0}, fetchPart{1, 0}, fetchPart{2, 0}, fetchPart{3, 0})
		req.MinBytes = 100
		place := f.serve(frameBytes(req, 12))
		f.loop.run()
		q := f.loop.held[0].(*shard.Fetch)
		f.loop.held = f.loop.held[1:]
		ends(f, q)
		q.Base().Owner.(Continuation).Resume(q)
		f.loop.run()
		f.response(place, req)
		if w.asked != 2 {
			t.Errorf("the shards were asked %d times, want once each", w.asked)
		}
	}
}

func TestFetchMinimumIsAtMostItsMaximum(t *testing.T) {
	f := newFixture(t)
	newLogs(f)
	req := fetchRequest("t", 0, -1, fetchPart{0, 0})
	req.MinBytes, req.MaxBytes = 1<<30, 100
	f.ask(req, 12)
	if q := f.loop.submitted[0].(*shard.Fetch); q.MinBytes != 100 {
		t.Errorf("the shard waits for %d bytes, no more than 100 can come", q.MinBytes)
	}
}

func TestFetchWithAnErrorDoesNotWait(t *testing.T) {
	f := newFixture(t)
	newLogs(f)
	f.ask(fetchRequest("t", 0, -1, fetchPart{0, 0}, fetchPart{9, 0}), 12)
	q := f.loop.submitted[0].(*shard.Fetch)
	if q.MinBytes != 0 || q.Deadline != f.loop.now {
		t.Errorf("the shard waits for %d bytes until %d", q.MinBytes, q.Deadline-f.loop.now)
	}
}

func TestFetchKeepsToItsMaximum(t *testing.T) {
	f := newFixture(t)
	l := newLogs(f)
	for i := range int32(4) {
		l.high[i] = 1000
	}
	req := fetchRequest("t", 0, -1, fetchPart{0, 0}, fetchPart{1, 0}, fetchPart{2, 0}, fetchPart{3, 500})
	req.MaxBytes = 1500
	resp := f.ask(req, 12).(*kmsg.FetchResponse)
	if got, want := told(resp), "[0 e0 hw1000 1000b][1 e0 hw1000 0b][2 e0 hw1000 0b][3 e0 hw1000 500b]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	req.MaxBytes = 10
	resp = f.ask(req, 12).(*kmsg.FetchResponse)
	if got := len(resp.Topics[0].Partitions[0].RecordBatches); got != 1000 {
		t.Errorf("the first batch has %d bytes, it must come whole", got)
	}
}

func TestFetchSessionTellsOnlyWhatIsNew(t *testing.T) {
	f := newFixture(t)
	l := newLogs(f)
	l.high[0] = 5
	full := f.ask(fetchRequest("t", 0, 0, fetchPart{0, 5}, fetchPart{1, 0}), 12).(*kmsg.FetchResponse)
	if got := told(full); got != "[0 e0 hw5 0b][1 e0 hw0 0b]" || full.SessionID == 0 {
		t.Fatalf("full fetch: %s, session %d", got, full.SessionID)
	}
	epoch := int32(0)
	next := func(parts ...fetchPart) string {
		t.Helper()
		epoch++
		resp := f.ask(fetchRequest("t", full.SessionID, epoch, parts...), 12).(*kmsg.FetchResponse)
		if resp.ErrorCode != 0 || resp.SessionID != full.SessionID {
			t.Fatalf("error %d, session %d", resp.ErrorCode, resp.SessionID)
		}
		return told(resp)
	}
	if got := next(); got != "" {
		t.Errorf("nothing is new: %s", got)
	}
	q := f.loop.submitted[len(f.loop.submitted)-1].(*shard.Fetch)
	if q.Parts[0].KnownHighWatermark < 0 {
		t.Error("the shard is not told which high watermark the client knows")
	}
	l.high[1] = 3
	if got := next(); got != "[1 e0 hw3 3b]" {
		t.Errorf("records of 1 are new: %s", got)
	}
	if got := next(fetchPart{1, 3}); got != "" {
		t.Errorf("the client moved on: %s", got)
	}
	l.high[0], l.high[1] = 6, 4
	if got := next(fetchPart{0, 6}); got != "[1 e0 hw4 1b][0 e0 hw6 0b]" && got != "[0 e0 hw6 0b][1 e0 hw4 1b]" {
		t.Errorf("records of 1 and a high watermark of 0 are new: %s", got)
	}
	if got := next(fetchPart{1, 50}); got != "[1 e1 hw-1 0b]" {
		t.Errorf("an error is told: %s", got)
	}
	if got := next(); got != "[1 e1 hw-1 0b]" {
		t.Errorf("an error is told as long as it lasts: %s", got)
	}
	if got := next(fetchPart{1, 4}, fetchPart{2, 0}); got != "[1 e0 hw4 0b][2 e0 hw0 0b]" && got != "[2 e0 hw0 0b][1 e0 hw4 0b]" {
		t.Errorf("the error is over and 2 is new: %s", got)
	}
}

func TestFetchSessionForgetsTopics(t *testing.T) {
	f := newFixture(t)
	l := newLogs(f)
	full := f.ask(fetchRequest("t", 0, 0, fetchPart{0, 0}, fetchPart{1, 0}), 13).(*kmsg.FetchResponse)
	l.high[0], l.high[1] = 1, 1
	req := fetchRequest("t", full.SessionID, 1)
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.TopicID, forgotten.Partitions = core.TopicID{15: 1}, []int32{0}
	req.ForgottenTopics = append(req.ForgottenTopics, forgotten)
	if got := told(f.ask(req, 13).(*kmsg.FetchResponse)); got != "[1 e0 hw1 1b]" {
		t.Errorf("partition 0 was to be forgotten: %s", got)
	}
}

// TestFetchSessionRemembersTopicsThatAreGone compares with a topic ID that the
// session has never found.
func TestFetchSessionRemembersTopicsThatAreGone(t *testing.T) {
	for v, want := range map[int16]string{12: "[0 e3 hw-1 0b]", 13: "[0 e3 hw-1 0b]", 17: "[0 e3 hw-1 0b]"} {
		f := newFixture(t)
		newLogs(f)
		full := f.ask(fetchRequest("t", 0, 0, fetchPart{0, 0}), v).(*kmsg.FetchResponse)
		f.loop.image = testImage()
		for epoch, req := range []*kmsg.FetchRequest{
			fetchRequest("t", full.SessionID, 1),
			fetchRequest("t", full.SessionID, 2, fetchPart{0, 5}), // asked for anew
		} {
			if got := told(f.ask(req, v).(*kmsg.FetchResponse)); got != want {
				t.Errorf("version %d, epoch %d: %s, want %s", v, epoch+1, got, want)
			}
		}
		never := want
		if v >= 13 {
			never = "[0 e100 hw-1 0b]"
		}
		full = f.ask(fetchRequest("t", 0, 0, fetchPart{0, 0}), v).(*kmsg.FetchResponse)
		for _, resp := range []*kmsg.FetchResponse{full, f.ask(fetchRequest("t", full.SessionID, 1), v).(*kmsg.FetchResponse)} {
			if got := told(resp); got != never {
				t.Errorf("version %d, never found: %s, want %s", v, got, never)
			}
		}
	}
}

func TestFetchSessionEndsWithItsLastPartition(t *testing.T) {
	for _, v := range []int16{7, 12, 13, 16} {
		f := newFixture(t)
		l := newLogs(f)
		l.high[0], l.high[1], l.high[2] = 1, 1, 1
		next := func(session, epoch int32, forget []int32, parts ...fetchPart) (*kmsg.FetchResponse, string) {
			req := fetchRequest("t", session, epoch, parts...)
			if forget != nil {
				ft := kmsg.NewFetchRequestForgottenTopic()
				ft.Topic, ft.TopicID, ft.Partitions = "t", core.TopicID{15: 1}, forget
				req.ForgottenTopics = append(req.ForgottenTopics, ft)
			}
			resp := f.ask(req, v).(*kmsg.FetchResponse)
			return resp, fmt.Sprintf("e%d session %v %s", resp.ErrorCode, resp.SessionID != 0, told(resp))
		}
		want := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("version %d: %s: %s, want %s", v, what, got, want)
			}
		}
		full, _ := next(0, 0, nil, fetchPart{0, 0}, fetchPart{1, 0})
		_, got := next(full.SessionID, 1, []int32{0}, fetchPart{1, 1}, fetchPart{2, 0})
		want("one forgotten", got, "e0 session true [2 e0 hw1 1b]")
		_, got = next(full.SessionID, 2, []int32{1, 2})
		want("all forgotten", got, "e0 session false ")
		_, got = next(full.SessionID, 3, nil, fetchPart{0, 0})
		want("afterwards", got, "e70 session false ")

		full, _ = next(0, 0, nil, fetchPart{0, 0})
		_, got = next(full.SessionID, 1, []int32{0}, fetchPart{0, 0})
		want("asked for and forgotten", got, "e0 session false [0 e0 hw1 1b]")

		full, got = next(0, 0, nil)
		want("a session of nothing", got, "e0 session true ")
		_, got = next(full.SessionID, 1, nil)
		want("and still of nothing", got, "e0 session false ")
		if n := len(f.worker.sessions.byID); n != 0 {
			t.Errorf("version %d: %d sessions are kept", v, n)
		}
	}
}

func TestFetchSessionErrors(t *testing.T) {
	f := newFixture(t)
	newLogs(f)
	full := f.ask(fetchRequest("t", 0, 0, fetchPart{0, 0}), 12).(*kmsg.FetchResponse)
	code := func(id, epoch int32, v int16) int16 {
		return f.ask(fetchRequest("t", id, epoch, fetchPart{0, 0}), v).(*kmsg.FetchResponse).ErrorCode
	}
	if got := code(full.SessionID+1, 1, 12); got != codeFetchSessionIDNotFound {
		t.Errorf("unknown session: %d", got)
	}
	if got := code(full.SessionID, 2, 12); got != codeInvalidFetchSessionEpoch {
		t.Errorf("epoch ahead: %d", got)
	}
	if got := code(full.SessionID, 1, 13); got != codeFetchSessionTopicID {
		t.Errorf("topic ids in a session of names: %d", got)
	}
	if got := code(full.SessionID, 1, 12); got != 0 {
		t.Errorf("right epoch after the wrong ones: %d", got)
	}
	if got := code(full.SessionID, 1, 12); got != codeInvalidFetchSessionEpoch {
		t.Errorf("epoch used twice: %d", got)
	}
	if got := code(full.SessionID, -1, 12); got != 0 {
		t.Errorf("closing: %d", got)
	}
	if got := code(full.SessionID, 2, 12); got != codeFetchSessionIDNotFound {
		t.Errorf("closed session: %d", got)
	}
}

func TestFetchSessionsAreBoundedInBytes(t *testing.T) {
	f := newFixture(t)
	newLogs(f)
	f.worker.sessions.bytesMax = 2*sessionBytes + 5*sessionWantBytes + 100
	parts := func(n int) (out []fetchPart) {
		for i := range n {
			out = append(out, fetchPart{int32(i), 0})
		}
		return out
	}
	open := func(n int) int32 {
		return f.ask(fetchRequest("t", 0, 0, parts(n)...), 12).(*kmsg.FetchResponse).SessionID
	}
	a, b := open(2), open(2)
	if a == 0 || b == 0 {
		t.Fatal("two sessions have room")
	}
	used := f.worker.sessions.bytes.Load()
	code := func(id, epoch int32, parts ...fetchPart) int16 {
		return f.ask(fetchRequest("t", id, epoch, parts...), 12).(*kmsg.FetchResponse).ErrorCode
	}
	// One partition more has room, two have not: the client is to begin anew.
	if got := code(a, 1, parts(3)...); got != 0 {
		t.Errorf("a partition more: code %d", got)
	}
	if got := code(b, 1, parts(4)...); got != codeFetchSessionIDNotFound {
		t.Errorf("too many partitions: code %d", got)
	}
	if got := f.worker.sessions.bytes.Load(); got >= used {
		t.Errorf("%d bytes after the end of a session, %d before", got, used)
	}
	if open(4) != 0 {
		t.Error("a session was given beyond the bound")
	}
	f.loop.now += sessionIdleMin
	if open(4) == 0 {
		t.Error("an idle session was not given up")
	}
	stats := f.worker.server.FetchSessions()
	if stats.Sessions != 1 || stats.Bytes == 0 || stats.Lost < 3 {
		t.Errorf("counted: %+v", stats)
	}
	f.worker.sessions.drop(f.worker.sessions.lru.Front().Value.(*fetchSession).id)
	if n := f.worker.sessions.bytes.Load(); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}

func TestFetchSessionsAreBounded(t *testing.T) {
	f := newFixture(t) // four on the node, two on this loop
	newLogs(f)
	open := func() int32 {
		return f.ask(fetchRequest("t", 0, 0, fetchPart{0, 0}), 12).(*kmsg.FetchResponse).SessionID
	}
	a, b := open(), open()
	if a == 0 || b == 0 || open() != 0 {
		t.Fatal("two sessions were to be given and a third not")
	}
	f.loop.now += sessionIdleMin
	f.ask(fetchRequest("t", a, 1), 12)
	c := open()
	if c == 0 {
		t.Fatal("an idle session was not given up")
	}
	if got := f.ask(fetchRequest("t", b, 1), 12).(*kmsg.FetchResponse).ErrorCode; got != codeFetchSessionIDNotFound {
		t.Errorf("the idle session answers %d", got)
	}
	if got := f.ask(fetchRequest("t", a, 2), 12).(*kmsg.FetchResponse).ErrorCode; got != 0 {
		t.Errorf("the used session answers %d", got)
	}
}

func TestFetchTellsDivergenceAndLeader(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		for i := range q.(*shard.Fetch).Parts {
			p := &q.(*shard.Fetch).Parts[i]
			if place, _ := f.loop.image.Locate(p.Partition); place.Num == 0 {
				p.Diverging = &shard.EpochEndOffset{Epoch: 2, End: 77}
				p.HighWatermark = 100
			} else {
				p.Err, p.Leader, p.LeaderEpoch = core.ErrNotLeader, 1, 9
			}
		}
		return true
	}
	resp := f.ask(fetchRequest("t", 0, -1, fetchPart{0, 80}, fetchPart{1, 0}), 17).(*kmsg.FetchResponse)
	ps := resp.Topics[0].Partitions
	if d := ps[0].DivergingEpoch; d.Epoch != 2 || d.EndOffset != 77 || ps[0].CurrentLeader.LeaderID != -1 {
		t.Errorf("partition 0: %+v", ps[0])
	}
	if c := ps[1].CurrentLeader; ps[1].ErrorCode != codeNotLeaderOrFollower || c.LeaderID != 1 || c.LeaderEpoch != 9 {
		t.Errorf("partition 1: %+v", ps[1])
	}
	if len(resp.Brokers) != 1 || resp.Brokers[0].Port != 9092 {
		t.Errorf("brokers %+v", resp.Brokers)
	}
}

// TestFetchesThatWaitGiveTheirBytesBackAndAreBounded has more of them than memory is
// kept for.
func TestFetchesThatWaitGiveTheirBytesBackAndAreBounded(t *testing.T) {
	f := newFixture(t)
	f.loop.shards = 1
	f.server.opts.ParkedBytesMax = 5 * (2*fetchPartBytes + 200)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		return q.(*shard.Fetch).Deadline <= f.loop.now // the others wait
	}
	var places []uint64
	for range 8 {
		places = append(places, f.serve(frameBytes(fetchRequest("t", 0, 0, fetchPart{0, 1}, fetchPart{1, 1}), 12)))
		f.loop.run()
	}
	waiting := 0
	for _, p := range places {
		if _, ok := f.conn.replies[p]; !ok {
			waiting++
		}
	}
	bytes, most, unparked := f.server.Parked()
	if waiting < 4 || waiting > 6 || f.conn.parked != waiting || bytes > most || bytes == 0 || unparked != uint64(8-waiting) {
		t.Errorf("%d wait, %d gave their bytes back, %d of %d bytes are parked, %d did not wait", waiting, f.conn.parked, bytes, most, unparked)
	}
	for _, q := range f.loop.held {
		q.Base().Owner.(Continuation).Resume(q)
	}
	if bytes, _, _ := f.server.Parked(); bytes != 0 {
		t.Errorf("%d bytes are parked after the last answer", bytes)
	}
}

// TestAFetchWhoseClientIsGoneWaitsNoMore, in any of the shards that it asked.
func TestAFetchWhoseClientIsGoneWaitsNoMore(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(core.ShardID, shard.Request) bool { return false } // all wait
	f.serve(frameBytes(fetchRequest("t", 0, 0, fetchPart{0, 1}, fetchPart{1, 1}, fetchPart{2, 1}, fetchPart{3, 1}), 12))
	f.loop.run()
	if n := len(f.loop.held); n != 2 || f.conn.waiter == nil {
		t.Fatalf("%d shards are asked", n)
	}
	f.conn.waiter.Gone()
	f.loop.run()
	if bytes, _, _ := f.server.Parked(); len(f.loop.cancelled) < 2 || len(f.loop.held) != 0 || bytes != 0 || len(f.loop.submitted) != 2 {
		t.Errorf("%d are cancelled, %d wait, %d bytes are parked, %d rounds", len(f.loop.cancelled), len(f.loop.held), bytes, len(f.loop.submitted)/2)
	}
}
