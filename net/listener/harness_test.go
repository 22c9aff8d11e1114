package listener

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/core"
	"millrace/core/arena"
	"millrace/net/kafka"
	"millrace/raftlog"
	"millrace/shard"
)

// The API keys that testHandler gives a meaning to.
const (
	opProduce = 0  // held until the test lets it go; its payload is arena memory
	opBig     = 1  // replies with as many bytes as the payload says
	opWait    = 2  // waits until its connection is gone
	opShard   = 3  // answered by the shard that the payload names
	opLate    = 4  // answered by a timer after as many milliseconds as the payload says
	opHeap    = 5  // replies with as many bytes of the heap as the payload says
	opEcho    = 18 // echoed at once
	opClose   = 99 // closes the connection
)

// echoShard answers every request in the turn it came in.
type echoShard struct {
	mu      sync.Mutex
	stepped []shard.EventKind
	done    []shard.Request
}

func (s *echoShard) Step(_ core.Tick, ev shard.Event, out *shard.Effects) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stepped = append(s.stepped, ev.Kind)
	if ev.Kind == shard.EventRequest {
		s.done = append(s.done, ev.Request)
	}
}

// MakeRoom has nothing to give back.
func (s *echoShard) MakeRoom(int) bool { return false }

func (s *echoShard) Finish(_ core.Tick, out *shard.Effects) {
	out.Done = append(out.Done, s.done...)
	s.done = nil
}

// idleJournal takes turns and writes nothing.
type idleJournal struct{}

func (idleJournal) Submit(*raftlog.Turn)                             {}
func (idleJournal) Run(ctx context.Context, _ func([]*raftlog.Turn)) { <-ctx.Done() }
func (idleJournal) CheckSpace() raftlog.SpaceState                   { return raftlog.SpaceOK }

// testHandler serves test frames: key, version, correlation id, payload.
type testHandler struct {
	loop *Loop
	t    *testing.T

	mu     sync.Mutex
	held   []func() // opProduce requests that wait, each to be called on the loop
	served int
	order  []uint64    // connections of the opHeap and opBig requests, as they were served
	onHeap func(n int) // called with how many are in order, on the loop
	gone   atomic.Int32
}

func (h *testHandler) Serve(c kafka.Conn, f kafka.Frame) {
	defer h.count() // last: who has seen the count finds the request among the held
	key := binary.BigEndian.Uint16(f.Bytes)
	corr, payload := f.Bytes[4:8], f.Bytes[8:]
	switch key {
	case opProduce:
		h.mu.Lock()
		h.held = append(h.held, func() {
			sum := 0
			for _, b := range payload {
				sum += int(b)
			}
			c.Reply(f.Place, frameOf(corr, []byte(fmt.Sprint(sum))))
			f.Buf.Release()
		})
		h.mu.Unlock()
	case opBig:
		h.mu.Lock()
		h.order = append(h.order, c.Info().ID)
		h.mu.Unlock()
		n := int(binary.BigEndian.Uint32(payload))
		c.Expect(f.Place, n)
		buf, err := h.loop.Arena().Alloc(n)
		if err != nil {
			h.t.Errorf("memory for a reply: %v", err)
		}
		for i := range buf.Bytes() {
			buf.Bytes()[i] = corr[3]
		}
		r := frameOf(corr, nil)
		r.Tail, r.Bufs = [][]byte{buf.Bytes()[:n/2], buf.Bytes()[n/2:]}, []arena.Buf{buf}
		binary.BigEndian.PutUint32(r.Head, uint32(r.Len()-4))
		c.Reply(f.Place, r)
	case opWait:
		c.Parked(f.Place, goneFunc(func() {
			h.gone.Add(1)
			h.loop.After(h.loop.Now(), func() { c.Reply(f.Place, frameOf(corr, nil)) })
		}))
	case opShard:
		q := &shard.Describe{}
		q.Owner = resume(func() { c.Reply(f.Place, frameOf(corr, payload)) })
		h.loop.Submit(core.ShardID(payload[0])%core.ShardID(h.loop.Shards()), q)
	case opLate:
		ms := core.Tick(binary.BigEndian.Uint32(payload))
		h.loop.After(h.loop.Now()+ms*core.Millisecond, func() { c.Reply(f.Place, frameOf(corr, payload)) })
	case opHeap:
		h.mu.Lock()
		h.order = append(h.order, c.Info().ID)
		n, then := len(h.order), h.onHeap
		h.mu.Unlock()
		if then != nil {
			then(n)
		}
		c.Reply(f.Place, frameOf(corr, make([]byte, binary.BigEndian.Uint32(payload))))
	case opEcho:
		c.Reply(f.Place, frameOf(corr, payload))
	case opClose:
		c.Close("asked to")
	default:
		h.t.Errorf("frame with key %d", key)
	}
}

func (h *testHandler) count() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served++
}

type goneFunc func()

func (f goneFunc) Gone() { f() }

type resume func()

func (f resume) Resume(shard.Request) { f() }

// letGo answers the held requests.
func (h *testHandler) letGo() {
	h.mu.Lock()
	held := h.held
	h.held = nil
	h.mu.Unlock()
	h.loop.force(message{kind: msgFunc, fn: func() {
		for _, fn := range held {
			fn()
		}
	}})
}

func (h *testHandler) counts() (served, held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.served, len(h.held)
}

func frameOf(corr, payload []byte) kafka.Reply {
	b := binary.BigEndian.AppendUint32(nil, uint32(4+len(payload)))
	b = append(append(b, corr...), payload...)
	return kafka.Reply{Head: b}
}

type testServer struct {
	*Server
	t        *testing.T
	handlers []*testHandler
	shards   []*echoShard
	addr     string
	mu       sync.Mutex
	log      []string
}

// start runs a Server over fake shards on a free port; edit changes its options.
func start(t *testing.T, edit func(*Options)) *testServer {
	t.Helper()
	ts := &testServer{t: t}
	o := DefaultOptions()
	o.Listens = []Listen{{Name: "PLAINTEXT", Host: "127.0.0.1"}}
	o.ArenaBytes = 64 << 20
	o.Logf = func(format string, args ...any) {
		ts.mu.Lock()
		defer ts.mu.Unlock()
		ts.log = append(ts.log, fmt.Sprintf(format, args...))
	}
	if edit != nil {
		edit(&o)
	}
	if err := o.validate(); err != nil {
		t.Fatal(err)
	}
	ts.Server = newServer(o)
	ts.Server.journal, ts.Server.store = idleJournal{}, idleJournal{}
	for _, l := range ts.loops {
		h, s := &testHandler{loop: l, t: t}, &echoShard{}
		l.worker, l.shard = h, s
		ts.handlers, ts.shards = append(ts.handlers, h), append(ts.shards, s)
	}
	bound, err := ts.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ts.addr = bound[0].Addr()
	if err := ts.Start(); err != nil {
		t.Fatal(err)
	}
	ts.Accept()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := ts.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		ts.checkEmpty()
	})
	return ts
}

// checkEmpty makes sure that a stopped server holds nothing any more.
func (ts *testServer) checkEmpty() {
	if n := ts.budget.UsedBytes(); n != 0 {
		ts.t.Errorf("%d bytes of tickets are not given back", n)
	}
	if n := ts.connectionCount(); n != 0 {
		ts.t.Errorf("%d connections are left", n)
	}
	for _, l := range ts.loops {
		l.arena.Seal()
		if _, live := l.arena.Stats(); live != 0 {
			ts.t.Errorf("shard %d: %d bytes of payload memory are still referred to", l.id, live)
		}
	}
}

func (ts *testServer) dial() *client {
	ts.t.Helper()
	c, err := net.DialTimeout("tcp", ts.addr, 5*time.Second)
	if err != nil {
		ts.t.Fatal(err)
	}
	return newClient(ts.t, c)
}

// client writes test frames and reads replies.
type client struct {
	t    *testing.T
	conn net.Conn
}

func newClient(t *testing.T, c net.Conn) *client {
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &client{t, c}
}

func request(key int16, corr uint32, payload []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(payload)))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint32(b, corr)
	return append(b, payload...)
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatalf("writing: %v", err)
	}
}

func (c *client) receive() (corr uint32, payload []byte) {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		c.t.Fatalf("reading a length: %v", err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, b); err != nil {
		c.t.Fatalf("reading a reply: %v", err)
	}
	return binary.BigEndian.Uint32(b), b[4:]
}

// want reads one reply and compares it.
func (c *client) want(corr uint32, payload []byte) {
	c.t.Helper()
	gotCorr, got := c.receive()
	if gotCorr != corr || !bytes.Equal(got, payload) {
		c.t.Fatalf("reply %d of %d bytes, want %d of %d bytes", gotCorr, len(got), corr, len(payload))
	}
}

// wantClosed reads until the server closes.
func (c *client) wantClosed() {
	c.t.Helper()
	if b, err := io.ReadAll(c.conn); len(b) > 0 {
		c.t.Fatalf("%d bytes before the end, error %v", len(b), err)
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		c.t.Fatal("the connection is not closed")
	}
}

// eventually waits for a condition, with a generous deadline.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}

func u32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
