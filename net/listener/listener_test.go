package listener

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/core"
	"millrace/core/arena"
	"millrace/shard"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// gnet's pool of helper goroutines lives as long as the process.
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).purgeStaleWorkers"),
		goleak.IgnoreTopFunction("github.com/panjf2000/ants/v2.(*poolCommon).ticktock"))
}

func TestFramesArriveHoweverTheBytesAreCut(t *testing.T) {
	ts := start(t, nil)
	var all []byte
	sizes := []int{0, 1, 7, 4096, 64 << 10, 200_000}
	for i, n := range sizes {
		all = append(all, request(opEcho, uint32(i), bytes.Repeat([]byte{byte(i)}, n))...)
	}
	for _, cut := range []int{1, 3, 5, 4096, len(all)} {
		c := ts.dial()
		go func() {
			step := cut
			for b := all; len(b) > 0; b = b[min(step, len(b)):] {
				if len(all)-len(b) > 200 {
					step = max(cut, 10_000) // single bytes only where the headers are
				}
				if _, err := c.conn.Write(b[:min(step, len(b))]); err != nil {
					return
				}
			}
		}()
		for i, n := range sizes {
			c.want(uint32(i), bytes.Repeat([]byte{byte(i)}, n))
		}
	}
}

func TestRepliesKeepTheOrderOfRequests(t *testing.T) {
	ts := start(t, func(o *Options) { o.Shards = 3 })
	c := ts.dial()
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 500
	kinds := make([]int16, n)
	go func() {
		for i := range n {
			payload := []byte{byte(i), 0, 0, 0}
			kinds[i] = []int16{opEcho, opShard, opLate}[rng.IntN(3)]
			if kinds[i] == opLate {
				payload = u32(rng.IntN(3))
			}
			if _, err := c.conn.Write(request(kinds[i], uint32(i), payload)); err != nil {
				return
			}
		}
	}()
	for i := range n {
		if corr, _ := c.receive(); corr != uint32(i) {
			t.Fatalf("reply %d in place of %d", corr, i)
		}
	}
}

func TestBadLengthsCloseTheConnection(t *testing.T) {
	for _, c := range []struct {
		name  string
		bytes []byte
		says  string
	}{
		{"negative", []byte{0xff, 0xff, 0xff, 0xff}, "outside"},
		{"zero", []byte{0, 0, 0, 0}, "outside"},
		{"too short for a header", []byte{0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7}, "outside"},
		{"huge", u32(1<<31 - 1), "socket.request.max.bytes"},
		{"one above the limit", u32(100<<20 + 1), "socket.request.max.bytes"},
		{"TLS", []byte{0x16, 0x03, 0x01, 0x02}, "TLS"},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), "HTTP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ts := start(t, nil)
			conn := ts.dial()
			conn.send(c.bytes)
			conn.wantClosed()
			ts.mu.Lock()
			defer ts.mu.Unlock()
			if len(ts.log) != 1 || !strings.Contains(ts.log[0], c.says) {
				t.Errorf("log %q, want one line with %q", ts.log, c.says)
			}
		})
	}
}

func TestComplaintsAreLoggedOncePerClient(t *testing.T) {
	ts := start(t, nil)
	for range 5 {
		c := ts.dial()
		c.send([]byte{0xff, 0xff, 0xff, 0xff})
		c.wantClosed()
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if len(ts.log) != 1 {
		t.Errorf("%d lines, want 1: %q", len(ts.log), ts.log)
	}
}

func TestComplaintsOfAnotherKindAreNotHidden(t *testing.T) {
	ts := start(t, nil)
	for range 2 {
		for _, first := range []string{"GET / HTTP/1.1", "\x16\x03\x01\x02\x00", "\xff\xff\xff\xff", "\xff\xff\xff\xfe"} {
			c := ts.dial()
			c.send([]byte(first))
			c.wantClosed()
		}
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	all := strings.Join(ts.log, "\n")
	if len(ts.log) != 3 || !strings.Contains(all, "HTTP") || !strings.Contains(all, "TLS") || !strings.Contains(all, "request length") {
		t.Errorf("%d lines, want one for each of HTTP, TLS and wrong lengths: %q", len(ts.log), ts.log)
	}
}

func TestRequestsOfASlowReaderAreNotReadAnyMore(t *testing.T) {
	ts := start(t, func(o *Options) { o.ConnOutBytesMax = 1 << 20; o.StallMax = time.Minute })
	c := ts.dial()
	const n, size = 60, 1 << 20
	for i := range n {
		c.send(request(opBig, uint32(i), u32(size)))
	}
	l, h := ts.loops[0], ts.handlers[0]
	eventually(t, "a pause", func() bool { return l.stats.paused[pauseSlow].Load() > 0 })
	time.Sleep(50 * time.Millisecond) // it must not go on
	if served, _ := h.counts(); served >= n/2 {
		t.Fatalf("%d of %d requests were served to a client that reads nothing", served, n)
	}
	if _, live := l.arena.Stats(); live > 20<<20 {
		t.Fatalf("%d bytes of replies wait for a client that reads nothing", live)
	}
	for i := range n {
		c.want(uint32(i), bytes.Repeat([]byte{byte(i)}, size))
	}
}

func TestRequestsWithoutATicketStayWithTheKernel(t *testing.T) {
	for name, edit := range map[string]func(*Options){
		"node":       func(o *Options) { o.NodeBytesMax = 1 << 20 },
		"shard":      func(o *Options) { o.ShardBytesMax = 1 << 20 },
		"connection": func(o *Options) { o.ConnBytesMax = 1 << 20 },
		"count":      func(o *Options) { o.InflightMax = 4 },
		"memory":     func(o *Options) { o.ArenaBytes = 1 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, edit)
			const n, size = 64, 200 << 10
			payload := bytes.Repeat([]byte{1}, size)
			c := ts.dial()
			sent := make(chan error, 1)
			go func() {
				for i := range n {
					if _, err := c.conn.Write(request(opProduce, uint32(i), payload)); err != nil {
						sent <- err
						return
					}
				}
				sent <- nil
			}()
			h := ts.handlers[0]
			eventually(t, "held requests", func() bool { _, held := h.counts(); return held >= 4 })
			time.Sleep(30 * time.Millisecond) // it must not go on
			if _, held := h.counts(); held > 5 {
				t.Fatalf("%d requests of %d bytes are held, the limit has room for 5", held, size)
			}
			select {
			case err := <-sent:
				t.Fatalf("all was taken off the client: %v", err)
			default:
			}
			stop := make(chan struct{})
			defer close(stop)
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						h.letGo()
					}
				}
			}()
			for i := range n {
				c.want(uint32(i), []byte("204800"))
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTicketsAreGivenInOrderOfArrival(t *testing.T) {
	ts := start(t, func(o *Options) { o.NodeBytesMax = 100_000; o.Shards = 2 })
	// One connection holds all; two on different loops wait, and both must get on.
	payload := make([]byte, 90_000)
	first := ts.dial()
	first.send(request(opProduce, 1, payload))
	heldNow := func() (n int) {
		for _, h := range ts.handlers {
			_, held := h.counts()
			n += held
		}
		return n
	}
	eventually(t, "the first request", func() bool { return heldNow() == 1 })
	second, third := ts.dial(), ts.dial()
	second.send(request(opProduce, 2, payload))
	third.send(request(opProduce, 3, payload))
	pausedNow := func() (n uint64) {
		for _, l := range ts.loops {
			n += l.stats.paused[pauseBudget].Load()
		}
		return n
	}
	eventually(t, "both wait", func() bool { return pausedNow() >= 2 })
	for range 3 {
		// Only the loop that holds it now: the other one may hold the next at once.
		var holder *testHandler
		eventually(t, "a held request", func() bool {
			for _, h := range ts.handlers {
				if _, held := h.counts(); held == 1 {
					holder = h
				}
			}
			return holder != nil
		})
		holder.letGo()
	}
	for i, c := range []*client{first, second, third} {
		c.want(uint32(i+1), []byte("0"))
	}
}

func TestRequestsThatDoNotComeMakeRoomForThoseThatWait(t *testing.T) {
	ts := start(t, func(o *Options) { o.NodeBytesMax = 1 << 20; o.StallMax = time.Hour; o.Shards = 2 })
	whole := request(opEcho, 1, make([]byte, 400<<10))
	for range 4 { // two get a ticket, two wait for theirs
		ts.dial().send(whole[:100])
	}
	eventually(t, "requests that wait", func() bool {
		return ts.loops[0].stats.paused[pauseBudget].Load()+ts.loops[1].stats.paused[pauseBudget].Load() == 2
	})
	patient := ts.dial()
	large := make([]byte, overtakeBytesMax+1) // one that may not overtake
	patient.send(request(opEcho, 7, large))
	patient.want(7, large)
}

// TestOnlyProduceMayBeLarge announces more than other requests may have.
func TestOnlyProduceMayBeLarge(t *testing.T) {
	ts := start(t, nil)
	c := ts.dial()
	c.send(request(opEcho, 1, make([]byte, otherBytesMax))[:100])
	c.wantClosed()
	c = ts.dial()
	c.send(request(opBig, 1, make([]byte, stateBytesMax))[:100]) // Fetch
	c.wantClosed()
	c = ts.dial()
	c.send(append(request(opBig, 1, append(u32(10), make([]byte, otherBytesMax)...)), request(opBig, 2, u32(0))...))
	c.want(1, bytes.Repeat([]byte{1}, 10))
	c.want(2, nil)
	c = ts.dial()
	c.send(request(opProduce, 1, make([]byte, stateBytesMax)))
	eventually(t, "the produce request", func() bool { _, held := ts.handlers[0].counts(); return held == 1 })
	ts.handlers[0].letGo()
	c.want(1, []byte("0"))
}

// TestWholeRequestsOvertakeThoseThatDoNotCome has more connections announce
// requests than there is room for, of both kinds of memory.
func TestWholeRequestsOvertakeThoseThatDoNotCome(t *testing.T) {
	for name, c := range map[string]struct {
		key  int16
		size int
		node int64
	}{
		"heap":           {opEcho, 500 << 10, 4 << 20},
		"payload":        {opProduce, 500 << 10, 4 << 20},
		"payload memory": {opProduce, 1<<20 + 100, 64 << 20}, // takes two chunks
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, func(o *Options) {
				o.NodeBytesMax, o.ArenaBytes, o.StallMax = c.node, 16<<20, time.Hour
			})
			announced := request(c.key, 1, make([]byte, c.size))
			for range 40 {
				ts.dial().send(announced[:100])
			}
			l := ts.loops[0]
			eventually(t, "requests that wait", func() bool {
				return l.stats.paused[pauseBudget].Load()+l.stats.paused[pauseArena].Load() > 20
			})
			c := ts.dial()
			for i := range uint32(20) {
				payload := make([]byte, 1000+i*1000)
				c.send(request(opEcho, i, payload))
				c.want(i, payload)
			}
			// One whose beginning came when there was no room is found later.
			late := request(opEcho, 77, make([]byte, 30_000))
			c.send(late[:5000])
			time.Sleep(20 * time.Millisecond)
			c.send(late[5000:])
			c.want(77, make([]byte, 30_000))
			for i := range uint32(20) {
				c.send(request(opProduce, 100+i, make([]byte, 1000+i*1000)))
				eventually(t, "a produce request", func() bool { _, held := ts.handlers[0].counts(); return held == 1 })
				ts.handlers[0].letGo()
				c.want(100+i, []byte("0"))
			}
			if closed := l.stats.closed.Load(); closed > 0 {
				t.Errorf("%d connections had to be closed first", closed)
			}
		})
	}
}

func TestRequestsForAnotherShardWaitForRoomInItsInbox(t *testing.T) {
	ts := start(t, func(o *Options) { o.Shards = 2; o.InboxMax = 2 })
	clients := []*client{ts.dial(), ts.dial(), ts.dial(), ts.dial()}
	const n = 300
	for k, c := range clients {
		go func() {
			for i := range n {
				if _, err := c.conn.Write(request(opShard, uint32(i), []byte{byte(k + i)})); err != nil {
					return
				}
			}
		}()
	}
	for k, c := range clients {
		for i := range n {
			c.want(uint32(i), []byte{byte(k + i)})
		}
	}
}

func TestConnectionsBeyondTheLimitsAreClosed(t *testing.T) {
	for name, edit := range map[string]func(*Options){
		"node":    func(o *Options) { o.ConnectionsMax = 2 },
		"address": func(o *Options) { o.ConnectionsPerIPMax = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			ts := start(t, edit)
			a, b := ts.dial(), ts.dial()
			for _, c := range []*client{a, b} {
				c.send(request(opEcho, 1, nil))
				c.want(1, nil)
			}
			ts.dial().wantClosed()
			a.conn.Close()
			eventually(t, "room", func() bool { return ts.connectionCount() == 1 })
			c := ts.dial()
			c.send(request(opEcho, 2, nil))
			c.want(2, nil)
		})
	}
}

func TestIdleConnectionsAreClosedAndWaitingOnesAreNot(t *testing.T) {
	ts := start(t, func(o *Options) { o.IdleMax, o.StallMax = 200*time.Millisecond, 200*time.Millisecond })
	idle, waiting, stalled := ts.dial(), ts.dial(), ts.dial()
	waiting.send(request(opLate, 5, u32(700)))
	stalled.send(request(opEcho, 6, make([]byte, 100))[:50])
	begin := time.Now()
	idle.wantClosed()
	stalled.wantClosed()
	if took := time.Since(begin); took > 650*time.Millisecond {
		t.Errorf("closed after %v, the limit is 200ms", took)
	}
	waiting.want(5, u32(700))
}

func TestCloseDropsTheConnectionAlone(t *testing.T) {
	ts := start(t, nil)
	a, b := ts.dial(), ts.dial()
	a.send(append(request(opProduce, 1, make([]byte, 1000)), request(opClose, 2, nil)...))
	a.wantClosed()
	b.send(request(opEcho, 3, []byte("x")))
	b.want(3, []byte("x"))
	ts.handlers[0].letGo() // replies to the closed connection are dropped
	b.send(request(opEcho, 4, []byte("y")))
	b.want(4, []byte("y"))
}

// TestWhoWaitsIsToldThatTheClientIsGone, and who has been answered is not.
func TestWhoWaitsIsToldThatTheClientIsGone(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var ts *testServer
		var c *client
		if secure {
			var a *authority
			ts, a, _ = startTLS(t, nil)
			c, _ = ts.dialTLS(&tls.Config{RootCAs: a.pool()})
		} else {
			ts = start(t, nil)
			c = ts.dial()
		}
		c.send(request(opEcho, 1, []byte("x")))
		c.want(1, []byte("x"))
		c.send(append(request(opWait, 2, nil), append(request(opWait, 3, nil), request(opEcho, 4, nil)...)...))
		h := ts.handlers[0]
		eventually(t, "the requests", func() bool { served, _ := h.counts(); return served == 4 })
		if n := h.gone.Load(); n != 0 {
			t.Fatalf("%d are told that the client is gone", n)
		}
		c.conn.Close()
		eventually(t, "the end", func() bool { return ts.loops[0].stats.connections.Load() == 0 })
		if n := h.gone.Load(); n != 2 {
			t.Errorf("TLS %v: %d are told that the client is gone, want 2", secure, n)
		}
	}
}

func TestConnectionsWithManyRequestsTakeTurns(t *testing.T) {
	overTLS := func(ts *testServer, a *authority) *client {
		c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()})
		return c
	}
	const n, size, clients = 40, turnBytesMax / 2, 3
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plaintext", true: "TLS"}[secure], func(t *testing.T) {
			var ts *testServer
			var a *authority
			if secure {
				ts, a, _ = startTLS(t, nil)
			} else {
				ts = start(t, nil)
			}
			var all []*client
			for range clients {
				if secure {
					all = append(all, overTLS(ts, a))
				} else {
					all = append(all, ts.dial())
				}
			}
			eventually(t, "the connections", func() bool { return ts.loops[0].stats.connections.Load() == clients })
			// The loop stands still until all have sent everything.
			held, free := make(chan struct{}), make(chan struct{})
			ts.loops[0].Post(func() { close(held); <-free })
			<-held
			for _, c := range all {
				var b []byte
				for i := range n {
					b = append(b, request(opHeap, uint32(i), u32(size))...)
				}
				c.send(b)
			}
			time.Sleep(20 * time.Millisecond) // TLS: the readers hand over what they decrypt
			close(free)
			for _, c := range all {
				for i := range n {
					c.want(uint32(i), make([]byte, size))
				}
			}
			h := ts.handlers[0]
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.order) != n*clients {
				t.Fatalf("%d requests served", len(h.order))
			}
			inRow := 0
			for i, id := range h.order[:n] {
				if i == 0 || id != h.order[i-1] {
					inRow = 0
				}
				if inRow++; inRow > 4 {
					t.Fatalf("a connection has more than its turn: %v", h.order)
				}
			}
		})
	}
}

func TestDataDoesNotWaitForTurns(t *testing.T) {
	ts := start(t, nil)
	const heavy, each = 20, 10
	held, free := make(chan struct{}), make(chan struct{})
	var others []*client
	for range heavy {
		others = append(others, ts.dial())
	}
	c := ts.dial()
	l := ts.loops[0]
	eventually(t, "the connections", func() bool { return l.stats.connections.Load() == heavy+1 })
	l.Post(func() { close(held); <-free })
	<-held
	for _, o := range others {
		var b []byte
		for i := range each {
			b = append(b, request(opHeap, uint32(i), u32(turnBytesMax))...)
		}
		o.send(b)
	}
	c.send(request(opBig, 1, u32(10)))
	time.Sleep(20 * time.Millisecond)
	close(free)
	c.want(1, bytes.Repeat([]byte{1}, 10))
	for _, o := range others {
		for i := range each {
			o.want(uint32(i), make([]byte, turnBytesMax))
		}
	}
	h := ts.handlers[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	at, count := 0, map[uint64]int{}
	for _, id := range h.order {
		count[id]++
	}
	for i, id := range h.order {
		if count[id] == 1 {
			at = i
		}
	}
	if at > 3 {
		t.Errorf("the request of the data path was served as number %d of %d", at, len(h.order))
	}
}

// TestDataComesBetweenTurns has a request of the data path arrive while others take
// their turns.
func TestDataComesBetweenTurns(t *testing.T) {
	ts := start(t, nil)
	const heavy, each, when = 20, 10, 50
	var others []*client
	for range heavy {
		others = append(others, ts.dial())
	}
	c := ts.dial()
	l, h := ts.loops[0], ts.handlers[0]
	eventually(t, "the connections", func() bool { return l.stats.connections.Load() == heavy+1 })
	held, free := make(chan struct{}), make(chan struct{})
	l.Post(func() { close(held); <-free })
	<-held
	h.mu.Lock()
	h.onHeap = func(n int) {
		if n == when {
			c.send(request(opBig, 1, u32(10)))
		}
	}
	h.mu.Unlock()
	for _, o := range others {
		var b []byte
		for i := range each {
			b = append(b, request(opHeap, uint32(i), u32(turnBytesMax))...)
		}
		o.send(b)
	}
	close(free)
	c.want(1, bytes.Repeat([]byte{1}, 10))
	for _, o := range others {
		for i := range each {
			o.want(uint32(i), make([]byte, turnBytesMax))
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	count := map[uint64]int{}
	for _, id := range h.order {
		count[id]++
	}
	at := slices.IndexFunc(h.order, func(id uint64) bool { return count[id] == 1 })
	if at > when+2 {
		t.Errorf("a request that came with number %d was served as number %d of %d", when, at, len(h.order))
	}
}

func TestFramesAreGivenMemoryAsTheyCome(t *testing.T) {
	const size = 7 << 20
	s := &session{size: size, frame: make([]byte, 0, frameStepBytes)}
	var got []int
	for len(s.frame) < size {
		s.frame = make([]byte, s.nextFrameBytes())
		got = append(got, len(s.frame))
	}
	if want := []int{8 * frameStepBytes, size}; !slices.Equal(got, want) {
		t.Errorf("room for %d, want %d", got, want)
	}
	s = &session{size: frameStepBytes + 1, frame: make([]byte, 0, frameStepBytes)}
	if n := s.nextFrameBytes(); n != frameStepBytes+1 {
		t.Errorf("%d for a frame of %d", n, s.size)
	}
}

// TestCostlyRequestsOfTheDataPathTakeTurns: those that are large, and those of a
// connection whose last answer was.
func TestCostlyRequestsOfTheDataPathTakeTurns(t *testing.T) {
	s := &session{loop: &Loop{turnBytes: turnBytesMax}}
	for _, c := range []struct {
		key            uint16
		size, lastHead int
		waits          bool
	}{
		{0, 100, 0, false}, {1, 100, 0, false}, {12, 100, 0, false}, {3, 100, 0, true},
		{0, 1 << 20, 0, false}, // its bytes are payload
		{1, cheapBytesMax, cheapBytesMax, false},
		{1, cheapBytesMax + 1, 0, true},
		{0, 100, cheapBytesMax + 1, true}, {1, 100, cheapBytesMax + 1, true},
	} {
		binary.BigEndian.PutUint16(s.prelude[4:], c.key)
		s.size, s.lastHead = c.size, c.lastHead
		if s.waitsForTurn() != c.waits {
			t.Errorf("key %d, %d bytes after an answer of %d: waits %v", c.key, c.size, c.lastHead, !c.waits)
		}
	}
	s.loop.turnBytes--
	if s.waitsForTurn() {
		t.Error("waits though there is room")
	}
}

func TestStopDoesNotWaitForALoopThatIsBusy(t *testing.T) {
	ts := start(t, nil)
	held, free := make(chan struct{}), make(chan struct{})
	ts.loops[0].Post(func() { close(held); <-free })
	<-held
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	quiet := make(chan struct{})
	go func() { ts.awaitQuiet(ctx); close(quiet) }()
	select {
	case <-quiet:
	case <-time.After(5 * time.Second):
		t.Error("the stop waits beyond its timeout")
	}
	close(free)
}

func TestStopAnswersWhatIsUnderWay(t *testing.T) {
	ts := start(t, nil)
	c := ts.dial()
	c.send(append(request(opLate, 1, u32(100)), request(opEcho, 2, nil)...))
	eventually(t, "both requests", func() bool { served, _ := ts.handlers[0].counts(); return served == 2 })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- ts.Stop(ctx) }()
	c.want(1, u32(100))
	c.want(2, nil)
	c.wantClosed()
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	if _, err := net.DialTimeout("tcp", ts.addr, time.Second); err == nil {
		t.Error("a stopped server accepts")
	}
	ts.shards[0].mu.Lock()
	defer ts.shards[0].mu.Unlock()
	shutdown := false
	for _, k := range ts.shards[0].stepped {
		shutdown = shutdown || k == shard.EventShutdown
	}
	if !shutdown {
		t.Error("the shard was not told")
	}
}

func TestTimersRunInOrderAndStop(t *testing.T) {
	ts := start(t, nil)
	l := ts.loops[0]
	got := make(chan int, 10)
	if !l.Post(func() {
		now := l.Now()
		l.After(now+30*core.Millisecond, func() { got <- 2; close(got) })
		l.After(now+10*core.Millisecond, func() { got <- 0 })
		l.After(now+20*core.Millisecond, func() { got <- 1 })
		l.After(now+15*core.Millisecond, func() { got <- 99 }).Stop()
	}) {
		t.Fatal("the inbox is full")
	}
	want := 0
	for n := range got {
		if n != want {
			t.Fatalf("timer %d in place of %d", n, want)
		}
		want++
	}
	if want != 3 {
		t.Fatalf("%d timers ran", want)
	}
}

func TestPinnedLoopsServe(t *testing.T) {
	ts := start(t, func(o *Options) { o.Pin = PinOn; o.Shards = 2 })
	for range 4 {
		c := ts.dial()
		c.send(request(opEcho, 7, []byte("pinned")))
		c.want(7, []byte("pinned"))
	}
}

// panickingShard does so at every event.
type panickingShard struct {
	echoShard
	text string
}

func (s *panickingShard) Step(core.Tick, shard.Event, *shard.Effects) { panic(s.text) }

func TestFatalPanicsOfALoopAreTold(t *testing.T) {
	for text, want := range map[string]string{"FATAL: a record does not decode": "a record does not decode", "BUG: we erred": ""} {
		o := DefaultOptions()
		o.Logf = func(string, ...any) {}
		told := ""
		o.Fatal = func(what string) { told = what }
		l := newServer(o).loops[0]
		l.armed.Store(true) // nobody runs the loop
		l.shard = &panickingShard{text: text}
		l.inbox.force(message{kind: msgRequest})
		func() {
			defer func() {
				if v := recover(); v != text {
					t.Errorf("%q went on as %v", text, v)
				}
			}()
			l.Run(t.Context())
		}()
		if told != want {
			t.Errorf("%q: told %q, want %q", text, told, want)
		}
	}
}

//fuzz:parses session.go:pump,readPrelude,badLength,admit,readFrame,serve,dropFrame
func FuzzFraming(f *testing.F) {
	f.Add(request(opEcho, 1, []byte("hello")), byte(3))
	f.Add(append(request(opEcho, 1, nil), 0, 0, 0, 8, 0, 18), byte(1))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff}, byte(2))
	f.Fuzz(func(t *testing.T, b []byte, step byte) {
		o := DefaultOptions()
		o.RequestBytesMax = 1 << 16
		o.ArenaBytes = 1 << 20
		o.Logf = func(string, ...any) {}
		srv := newServer(o)
		l := srv.loops[0]
		l.armed.Store(true) // nobody runs the loop
		h := &collector{}
		l.worker, l.shard, l.arena = h, &echoShard{}, arena.NewHeap(o.ArenaBytes)
		s := l.newSession("PLAINTEXT", "/127.0.0.1", 1, false)
		s.transport = stillTransport{}
		srv.arrive("/127.0.0.1")
		for rest := b; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			src := &chunk{rest[:n]}
			s.pump(src)
			rest = rest[n:]
		}
		// What was served is exactly what the bytes hold, up to the first fault.
		for _, got := range h.frames {
			size := int(int32(binary.BigEndian.Uint32(b)))
			if !bytes.Equal(got, b[4:4+size]) {
				t.Fatalf("frame %x, the bytes hold %x", got, b[4:4+size])
			}
			b = b[4+size:]
		}
		if !s.closing && len(b) >= 4 {
			if size := int(int32(binary.BigEndian.Uint32(b))); len(b) >= 4+size {
				t.Fatalf("a frame of %d bytes was not served", size)
			}
		}
		s.ended()
		if n := srv.budget.UsedBytes(); n != 0 {
			t.Fatalf("%d bytes are still reserved", n)
		}
	})
}
