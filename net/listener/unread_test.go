package listener

import (
	"bytes"
	"crypto/tls"
	"strings"
	"testing"
	"time"
)

// TestClientsThatReadNothingGiveWayWhileMemoryIsShort has one client that reads
// nothing and one that reads slowly.
func TestClientsThatReadNothingGiveWayWhileMemoryIsShort(t *testing.T) {
	const n, size = 3, 12 << 20
	for _, protocol := range []Protocol{Plaintext, SSL} {
		t.Run(protocol.String(), func(t *testing.T) {
			t.Parallel()
			edit := func(o *Options) { o.ConnOutBytesMax, o.ArenaBytes = 64<<20, 128<<20 }
			var ts *testServer
			var dial func() *client
			if protocol == SSL {
				var a *authority
				ts, a, _ = startTLS(t, edit)
				dial = func() *client { c, _ := ts.dialTLS(&tls.Config{RootCAs: a.pool()}); return c }
			} else {
				ts = start(t, edit)
				dial = ts.dial
			}
			still, slow := dial(), dial()
			for i := range n {
				still.send(request(opBig, uint32(i), u32(size)))
				slow.send(request(opBig, uint32(i), u32(size)))
			}
			const grace, check = time.Duration(unreadGrace), time.Duration(unreadCheck)
			time.Sleep(grace + 2*check)
			l := ts.loops[0]
			if got := l.stats.connections.Load(); got != 2 {
				t.Fatalf("%d connections of 2 while there is memory", got)
			}
			// The slow one has stood still as well; it begins to read.
			var got bytes.Buffer
			buf := make([]byte, 64<<10)
			read := func() {
				k, err := slow.conn.Read(buf)
				if err != nil {
					t.Fatalf("the slow reader after %d bytes: %v", got.Len(), err)
				}
				got.Write(buf[:k])
			}
			deadline := time.Now().Add(20 * time.Second)
			for end := time.Now().Add(grace + 3*check); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				read()
				if time.Until(end) < grace+2*check {
					l.Post(func() { l.waiting.refused = true })
				}
			}
			for l.stats.connections.Load() != 1 && time.Now().Before(deadline) {
				l.Post(func() { l.waiting.refused = true })
				read()
				time.Sleep(10 * time.Millisecond)
			}
			if open := l.stats.connections.Load(); open != 1 {
				t.Fatalf("%d connections, want that of the slow reader alone", open)
			}
			ts.mu.Lock()
			said := strings.Join(ts.log, "\n")
			ts.mu.Unlock()
			if !strings.Contains(said, "payload memory was short") {
				t.Errorf("the log does not tell: %q", said)
			}
			const frame = size + 8 // length and correlation ID
			for got.Len() < n*frame {
				read()
			}
			if got.Len() != n*frame {
				t.Errorf("the slow reader got %d bytes, want %d", got.Len(), n*frame)
			}
		})
	}
}

// TestUnreadRepliesOfTheHeapAreBounded lets clients ask and read nothing, while
// another one goes on.
func TestUnreadRepliesOfTheHeapAreBounded(t *testing.T) {
	const size, most, silent = 100_000, 4 << 20, 30
	ts := start(t, func(o *Options) { o.ReplyBytesMax = most })
	l := ts.loops[0]
	for range silent {
		c := ts.dial()
		go func() {
			for i := range uint32(400) {
				if _, err := c.conn.Write(request(opEcho, i, make([]byte, size))); err != nil {
					return // its connection is closed, as it should be
				}
			}
		}()
	}
	honest := ts.dial()
	highest := int64(0)
	deadline := time.Now().Add(20 * time.Second)
	for i := uint32(0); l.stats.unread.Load() == 0 || l.stats.replyBytes.Load() > most; i++ {
		honest.send(request(opEcho, i, []byte("x")))
		honest.want(i, []byte("x"))
		highest = max(highest, l.stats.replyBytes.Load())
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes of replies and %d connections closed", l.stats.replyBytes.Load(), l.stats.unread.Load())
		}
		time.Sleep(time.Millisecond)
	}
	// A turn's requests of each that were admitted before the limit was met come on top.
	if limit := int64(most + silent*2*size); highest > limit {
		t.Errorf("%d bytes of replies, at most %d were expected", highest, limit)
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if said := strings.Join(ts.log, "\n"); !strings.Contains(said, "queued.max.reply.bytes") {
		t.Errorf("the log does not tell: %q", said)
	}
}
