package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/shard"
)

// fakeLoop is a Loop over shards that a function plays. Requests are answered
// when run is called, in the order they were submitted, as in later turns.
type fakeLoop struct {
	t      testing.TB
	shards int
	now    core.Tick
	arena  *arena.Arena
	image  *meta.Image
	// answer sets the results of a request; false leaves it unanswered.
	answer    func(to core.ShardID, q shard.Request) bool
	submitted []shard.Request
	queue     []submitted
	held      []shard.Request
	cancelled []shard.Request
	timers    []*fakeTimer
}

type submitted struct {
	to core.ShardID
	q  shard.Request
}

type fakeTimer struct {
	at core.Tick
	fn func()
}

func (t *fakeTimer) Stop() { t.fn = nil }

func (l *fakeLoop) Shard() core.ShardID { return 0 }
func (l *fakeLoop) Shards() int         { return l.shards }
func (l *fakeLoop) Now() core.Tick      { return l.now }
func (l *fakeLoop) Arena() *arena.Arena { return l.arena }
func (l *fakeLoop) Image() *meta.Image  { return l.image }

func (l *fakeLoop) After(at core.Tick, fn func()) Timer {
	t := &fakeTimer{at, fn}
	l.timers = append(l.timers, t)
	return t
}

func (l *fakeLoop) Submit(to core.ShardID, q shard.Request) {
	l.submitted = append(l.submitted, q)
	l.queue = append(l.queue, submitted{to, q})
}

func (l *fakeLoop) Cancel(_ core.ShardID, q shard.Request) {
	l.cancelled = append(l.cancelled, q)
	for i, h := range l.held {
		if h == q {
			l.held = append(l.held[:i], l.held[i+1:]...)
			l.queue = append(l.queue, submitted{-1, q})
			return
		}
	}
}

// run answers what was submitted until nothing more comes.
func (l *fakeLoop) run() {
	for len(l.queue) > 0 {
		s := l.queue[0]
		l.queue = l.queue[1:]
		if p, ok := s.q.(*shard.Produce); ok {
			p.Records.Release()
		}
		if s.to >= 0 && !l.answer(s.to, s.q) {
			l.held = append(l.held, s.q)
			continue
		}
		s.q.Base().Owner.(Continuation).Resume(s.q)
	}
}

// advance moves the time and calls the timers that are due.
func (l *fakeLoop) advance(d core.Tick) {
	l.now += d
	for _, t := range l.timers {
		if t.fn != nil && t.at <= l.now {
			fn := t.fn
			t.fn = nil
			fn()
		}
	}
	l.run()
}

// fakeConn keeps what it is given.
type fakeConn struct {
	t       testing.TB
	info    ConnInfo
	replies map[uint64][]byte
	closed  string
	parked  int
	waiter  Waiter // of the last Parked
	next    uint64
}

func (c *fakeConn) Info() *ConnInfo    { return &c.info }
func (c *fakeConn) Expect(uint64, int) {}
func (c *fakeConn) Parked(_ uint64, by Waiter) {
	c.parked++
	c.waiter = by
}

func (c *fakeConn) Close(reason string) { c.closed = reason }
func (c *fakeConn) Reply(place uint64, r Reply) {
	if _, twice := c.replies[place]; twice {
		c.t.Fatalf("place %d is filled twice", place)
	}
	b := bytes.Clone(r.Head)
	for _, t := range r.Tail {
		b = append(b, t...)
	}
	for _, buf := range r.Bufs {
		buf.Release()
	}
	if len(b) > 0 && int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		c.t.Fatalf("a frame of %d bytes says that it has %d", len(b)-4, binary.BigEndian.Uint32(b))
	}
	c.replies[place] = b
}

// fixture is a Worker over a fakeLoop, with one broker and topic "t" of four
// partitions that this node leads in epoch 3.
type fixture struct {
	t      *testing.T
	loop   *fakeLoop
	server *Server
	worker *Worker
	conn   *fakeConn
}

const fixtureEpoch = 3

func testOptions() Options {
	return Options{
		Node: 1, AutoCreateTopics: true, NumPartitions: 1, DefaultReplicationFactor: 1,
		OffsetsTopicPartitions: 4, OffsetsTopicReplicationFactor: 1,
		FetchMaxBytes: 1 << 20, ParkedBytesMax: 1 << 20, FetchSessionsMax: 4, FetchSessionBytesMax: 1 << 20, PartitionsPerDescribeMax: 100,
		Config:    func() *config.Config { return config.Defaults() },
		Logf:      func(string, ...any) {},
		DiskSpace: func() (int64, int64) { return 1 << 30, 1 << 31 },
	}
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t}
	f.loop = &fakeLoop{t: t, shards: 2, now: 1_000_000 * core.Second, arena: arena.NewHeap(8 << 20)}
	f.loop.image = testImage(testTopic("t", 1, 4))
	f.loop.answer = func(core.ShardID, shard.Request) bool { return true }
	f.server = NewServer(testOptions())
	f.worker = f.server.NewWorker(f.loop)
	f.conn = &fakeConn{t: t, info: ConnInfo{Listener: "PLAINTEXT", Host: "/127.0.0.1"}, replies: make(map[uint64][]byte)}
	t.Cleanup(func() {
		f.loop.arena.Seal()
		if _, live := f.loop.arena.Stats(); live != 0 {
			t.Errorf("%d bytes of payload memory are still referred to", live)
		}
	})
	return f
}

func testTopic(name string, id byte, partitions int) *meta.Topic {
	t := &meta.Topic{ID: core.TopicID{15: id}, Name: name}
	for i := range partitions {
		p := &meta.Partition{
			ID: core.PartitionID(16 + int(id)*100 + i), Num: int32(i),
			Replicas: []core.NodeID{1}, Leader: new(meta.LeaderCell),
		}
		p.Leader.Set(1, fixtureEpoch)
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

func testImage(topics ...*meta.Topic) *meta.Image {
	im := &meta.Image{Version: 7, ClusterID: "cluster-of-tests", Controller: 1,
		Brokers: []meta.Broker{{ID: 1, Host: "broker.test", Port: 9092}}}
	for _, t := range topics {
		im = im.WithTopic(t)
	}
	return im
}

// frameBytes is a request frame without its length.
func frameBytes(req kmsg.Request, version int16) []byte {
	req.SetVersion(version)
	b := binary.BigEndian.AppendUint16(nil, uint16(req.Key()))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, 42)
	b = append(b, 0, 4, 't', 'e', 's', 't')
	if req.IsFlexible() {
		b = append(b, 0)
	}
	return req.AppendTo(b)
}

// serve hands a frame to the worker; Produce frames in arena memory, as the
// listener does. It returns the frame's place.
func (f *fixture) serve(b []byte) uint64 {
	f.t.Helper()
	place := f.conn.next
	f.conn.next++
	frame := Frame{Bytes: b, Place: place}
	if binary.BigEndian.Uint16(b) == 0 {
		buf, err := f.loop.arena.Alloc(len(b))
		if err != nil {
			f.t.Fatal(err)
		}
		copy(buf.Bytes(), b)
		frame.Bytes, frame.Buf = buf.Bytes(), buf
	}
	f.worker.Serve(f.conn, frame)
	return place
}

// ask serves a request, lets the shards answer and decodes the response.
func (f *fixture) ask(req kmsg.Request, version int16) kmsg.Response {
	f.t.Helper()
	place := f.serve(frameBytes(req, version))
	f.loop.run()
	return f.response(place, req)
}

func (f *fixture) response(place uint64, req kmsg.Request) kmsg.Response {
	f.t.Helper()
	b, ok := f.conn.replies[place]
	if !ok {
		f.t.Fatalf("no reply to %s version %d (closed: %q)", kmsg.Key(req.Key()).Name(), req.GetVersion(), f.conn.closed)
	}
	b = b[4:]
	if binary.BigEndian.Uint32(b) != 42 {
		f.t.Fatalf("correlation id %d", binary.BigEndian.Uint32(b))
	}
	b = b[4:]
	if req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if b[0] != 0 {
			f.t.Fatalf("%d tagged fields in the response header", b[0])
		}
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		f.t.Fatalf("decoding the response: %v", err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		f.t.Fatalf("the response has bytes that do not decode:\n%x\n%x", b, again)
	}
	return resp
}
