package listener

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// TestFramesReadAheadSurvivePauses sends frames of all sizes in one go, to a
// connection that may have two requests under way: each time it is paused, parts of
// the next frames have been read already.
func TestFramesReadAheadSurvivePauses(t *testing.T) {
	ts := start(t, func(o *Options) { o.InflightMax = 2 })
	h, c := ts.handlers[0], ts.dial()
	rng := rand.New(rand.NewPCG(3, 4))
	var all []byte
	var want []string
	for i := range 300 {
		p := make([]byte, []int{1, 300, 5_000, 30_000, 70_000, 1_200_000}[i*i%7%6])
		sum := 0
		for k := range p {
			p[k] = byte(rng.Uint32())
			sum += int(p[k])
		}
		all, want = append(all, request(opProduce, uint32(i), p)...), append(want, fmt.Sprint(sum))
	}
	go func() {
		if _, err := c.conn.Write(all); err != nil {
			t.Errorf("writing: %v", err)
		}
	}()
	for i := range want {
		for served, _ := h.counts(); served <= i; served, _ = h.counts() {
			eventually(t, "the next request", func() bool { n, _ := h.counts(); return n > i })
		}
		h.letGo()
		c.want(uint32(i), []byte(want[i]))
	}
	if n := ts.loops[0].stats.paused[pauseInflight].Load(); n < 10 {
		t.Errorf("the connection was paused %d times", n)
	}
}

// TestLargeFramesAreReadInOnePiece counts the bytes that pass through gnet's buffer
// or the spill, which are copied once more.
func TestLargeFramesAreReadInOnePiece(t *testing.T) {
	ts := start(t, nil)
	c := ts.dial()
	const n, size = 50, 100_000
	frame := request(opEcho, 7, bytes.Repeat([]byte{9}, size))
	c.send(frame)
	c.want(7, frame[12:])
	l := ts.loops[0]
	before := l.stats.bytesCopied.Load()
	go func() {
		for range n {
			if _, err := c.conn.Write(frame); err != nil {
				t.Errorf("writing: %v", err)
				return
			}
		}
	}()
	for range n {
		c.want(7, frame[12:])
	}
	if got, all := l.stats.bytesCopied.Load()-before, uint64(n*len(frame)); got*4 > all {
		t.Errorf("%d of %d bytes were copied", got, all)
	}
}

// TestWhatWasReadAheadIsFreedOnceItIsTaken: a connection that was paused once keeps
// no buffer for it.
func TestWhatWasReadAheadIsFreedOnceItIsTaken(t *testing.T) {
	p := &plain{s: &session{loop: &Loop{}}, ahead: []byte("abc")}
	b := make([]byte, 2)
	for _, want := range []int{2, 1} {
		if n, err := p.Read(b); n != want || err != nil {
			t.Fatalf("read %d bytes, %v, want %d", n, err, want)
		}
	}
	if p.ahead != nil {
		t.Error("the memory is kept")
	}
}

// TestWhatIsReadAheadIsBounded has many connections send more than may be under way,
// so that each is paused with the next frames read already.
func TestWhatIsReadAheadIsBounded(t *testing.T) {
	const conns, node = 120, 1 << 20
	ts := start(t, func(o *Options) { o.InflightMax, o.NodeBytesMax, o.ShardBytesMax = 30, node, node })
	l, h := ts.loops[0], ts.handlers[0]
	var all []byte
	for i := range uint32(400) {
		all = append(all, request(opProduce, i, make([]byte, 200))...)
	}
	var clients []*client
	for i := range conns {
		c := ts.dial()
		clients = append(clients, c)
		go func() { _, _ = c.conn.Write(all) }() // what is not taken is not missed
		eventually(t, "a paused connection", func() bool { return l.stats.paused[pauseInflight].Load() > uint64(i) })
	}
	ahead := make(chan int, 1)
	l.force(message{kind: msgFunc, fn: func() {
		n := 0
		for s := range l.sessions {
			n += cap(s.transport.(*plain).ahead)
		}
		ahead <- n
	}})
	// The first have the most: of a share that was divided by fewer.
	if n, limit := <-ahead, node/spillShare*6+conns*spillLargeBytes; n > limit || n == 0 {
		t.Errorf("%d bytes are read ahead, at most %d were expected", n, limit)
	}
	for _, c := range clients {
		if err := c.conn.(*net.TCPConn).SetLinger(0); err != nil { // what is still to be sent does not hold it
			t.Error(err)
		}
		_ = c.conn.Close()
	}
	eventually(t, "the end of the connections", func() bool { return l.stats.connections.Load() == 0 })
	h.letGo()
}
