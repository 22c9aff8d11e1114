package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	handshakeMax = 10 * time.Second
	// tlsChunkBytes is what a TLS connection reads ahead of its loop: one record.
	tlsChunkBytes = 16 << 10
	// tlsBatchBytes gathers small replies into one record.
	tlsBatchBytes = 16 << 10
	// tlsSliceBytes is what is written at once, so that a client that reads slowly
	// is told from one that does not.
	tlsSliceBytes = 64 << 10
	// tlsCloseMax bounds the sending of a close_notify.
	tlsCloseMax = time.Second
	// tlsWriteMax bounds one write to a client that reads nothing.
	tlsWriteMax = 5 * time.Minute
)

// secure is the transport of a TLS connection. Two goroutines do the blocking
// and the cryptography: the reader hands each chunk of decrypted bytes to the
// loop and waits until it is used up, so that a paused session stops the reading;
// the writer sends what flush hands over and tells the loop what has left.
// Framing, limits and handlers are the session's, the same as for plaintext.
type secure struct {
	// Immutable.
	s    *session
	conn *tls.Conn
	used chan struct{} // the loop has used the chunk up; capacity 1
	quit chan struct{} // closed when the connection ends
	more chan struct{} // out has something; capacity 1

	// Atomic.
	wrote atomic.Int64 // bytes that the writer got rid of

	// Owned by the loop.
	chunk   []byte // the rest of what the reader handed over
	holding bool   // the reader waits for used
	handed  int    // pieces of session.out given to the writer

	mu struct {
		sync.Mutex
		out    [][]byte
		closed bool
	}
}

// serveTLS runs a TLS connection until it ends.
func (srv *Server) serveTLS(a *acceptor, raw net.Conn, host string, port int32) {
	srv.background.Go(func() {
		conn := tls.Server(raw, a.tls)
		if err := srv.handshake(conn); err != nil {
			srv.refuse.handshake.Add(1)
			srv.complaints.say(host, fmt.Sprintf("TLS handshake with %s on listener %s: %v", host, a.conf.Name, explainHandshake(err)), srv.clock.now())
			srv.left(host)
			a.drop(raw)
			return
		}
		t := &secure{conn: conn, used: make(chan struct{}, 1), quit: make(chan struct{}), more: make(chan struct{}, 1)}
		l := srv.leastLoaded()
		opened := make(chan struct{})
		l.force(message{kind: msgFunc, fn: func() {
			t.s = l.newSession(a.conf.Name, host, port, true)
			t.s.transport = t
			t.s.opened()
			close(opened)
		}})
		<-opened
		srv.background.Go(t.writeLoop)
		t.readLoop()
	})
}

// explainHandshake adds the usual cause to an error that does not tell it.
func explainHandshake(err error) error {
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		return fmt.Errorf("plaintext was spoken to a TLS listener: %w", err)
	}
	return err
}

func (srv *Server) handshake(conn *tls.Conn) error {
	ctx, cancel := context.WithTimeout(srv.serving, handshakeMax)
	defer cancel()
	return conn.HandshakeContext(ctx)
}

// leastLoaded is the loop with the fewest connections.
func (srv *Server) leastLoaded() *Loop {
	best := srv.loops[0]
	for _, l := range srv.loops[1:] {
		if l.stats.connections.Load() < best.stats.connections.Load() {
			best = l
		}
	}
	return best
}

// readLoop ends when the socket does, whichever side closed it.
func (t *secure) readLoop() {
	buf := make([]byte, tlsChunkBytes)
	for {
		n, err := t.conn.Read(buf)
		if n > 0 {
			b := buf[:n]
			t.s.loop.force(message{kind: msgFunc, fn: func() { t.arrived(b) }})
			select {
			case <-t.used:
			case <-t.quit:
				return
			}
		}
		if err != nil {
			t.s.loop.force(message{kind: msgFunc, fn: func() { t.finish(err) }})
			return
		}
	}
}

// arrived takes a chunk in; on the loop.
func (t *secure) arrived(b []byte) {
	t.chunk, t.holding = b, true
	t.work()
}

// work serves what the chunk holds and lets the reader go on when it is used up.
func (t *secure) work() {
	if t.s.closed {
		return
	}
	t.s.pump(t)
	if t.holding && len(t.chunk) == 0 && !t.s.closing {
		t.holding = false
		t.used <- struct{}{} // the reader waits for exactly this
	}
}

// Read implements source over the chunk at hand.
func (t *secure) Read(p []byte) (int, error) {
	n := copy(p, t.chunk)
	t.chunk = t.chunk[n:]
	return n, nil
}

// atHand knows of what is decrypted.
func (t *secure) atHand(n int) bool { return len(t.chunk) >= n }

// pause needs no call: the reader waits while the chunk is not used up.
func (t *secure) pause() {}

func (t *secure) resume() { t.work() }

// flush hands the new pieces to the writer.
func (t *secure) flush() {
	if t.handed == len(t.s.out) {
		return
	}
	t.mu.Lock()
	for _, p := range t.s.out[t.handed:] {
		t.mu.out = append(t.mu.out, p.b)
	}
	t.mu.Unlock()
	t.handed = len(t.s.out)
	t.wakeWriter()
}

func (t *secure) wakeWriter() {
	select {
	case t.more <- struct{}{}:
	default:
	}
}

// writeLoop writes until the connection ends; pieces are released by the loop,
// once this goroutine no longer touches them.
func (t *secure) writeLoop() {
	var batch []byte
	stalled := false
	for {
		select {
		case <-t.more:
		case <-t.quit:
			// A close_notify that cannot be sent is of no interest to a client
			// that is gone. One that takes nothing would hold it up, and with it
			// the memory of its replies.
			if !stalled {
				late := time.AfterFunc(tlsCloseMax, func() { _ = t.conn.NetConn().Close() })
				_ = t.conn.Close()
				late.Stop()
			}
			_ = t.conn.NetConn().Close()
			t.s.loop.force(message{kind: msgFunc, fn: t.s.ended})
			return
		}
		t.mu.Lock()
		out := t.mu.out
		t.mu.out = nil
		t.mu.Unlock()
		n, pieces, err := t.writeAll(out, &batch)
		stalled = stalled || errors.Is(err, os.ErrDeadlineExceeded)
		t.s.loop.force(message{kind: msgFunc, fn: func() { t.left(n, pieces, err) }})
	}
}

// writeAll sends pieces, small ones gathered into one record.
func (t *secure) writeAll(out [][]byte, batch *[]byte) (n, pieces int, err error) {
	if err := t.extendWrites(); err != nil {
		return 0, 0, err
	}
	b := (*batch)[:0]
	for _, p := range out {
		n += len(p)
		pieces++
		if len(b)+len(p) <= tlsBatchBytes {
			b = append(b, p...)
			continue
		}
		if len(b) > 0 {
			if err = t.write(b); err != nil {
				return n, pieces, err
			}
			b = b[:0]
		}
		if err = t.write(p); err != nil {
			return n, pieces, err
		}
	}
	err = t.write(b)
	*batch = b[:0]
	return n, pieces, err
}

// write writes in slices and counts them.
func (t *secure) write(b []byte) error {
	for len(b) > 0 {
		n, err := t.conn.Write(b[:min(len(b), tlsSliceBytes)])
		t.wrote.Add(int64(n))
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (t *secure) written() int64 { return t.wrote.Load() }

// extendWrites gives the next writes their time, unless the connection ends.
func (t *secure) extendWrites() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return net.ErrClosed
	}
	return t.conn.SetWriteDeadline(time.Now().Add(tlsWriteMax))
}

// left notes what the writer has sent; on the loop.
func (t *secure) left(n, pieces int, err error) {
	if t.s.closed {
		return
	}
	if err != nil {
		reason := ""
		if !isReset(err) && !errors.Is(err, net.ErrClosed) {
			reason = fmt.Sprintf("writing replies: %v", err)
		}
		t.s.Close(reason)
		return
	}
	t.handed -= pieces
	t.s.sent(n)
}

// finish is called on the loop when the reader has met the end of the stream.
func (t *secure) finish(err error) {
	reason := ""
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !isReset(err) {
		reason = fmt.Sprintf("reading: %v", err)
	}
	t.s.Close(reason)
}

// isReset says whether the client just went away, which needs no log line.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// close ends both goroutines; the writer's last message ends the session.
func (t *secure) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	t.mu.closed = true
	close(t.quit)
	// Deadlines end a read and a write that are under way; they fail only on a
	// socket that is closed already.
	now := time.Now()
	_ = t.conn.SetReadDeadline(now)
	_ = t.conn.SetWriteDeadline(now.Add(time.Second))
}
