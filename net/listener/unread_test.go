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
