package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// loads are the attacks by amount.
func loads() []attack {
	var all []attack
	for _, list := range [][]attack{connectionLoads(), tlsLoads(), readerLoads(), groupLoads(), requestLoads(), stateLoads()} {
		all = append(all, list...)
	}
	for i := range all {
		all[i].load = true
	}
	return all
}

// clientTLS trusts anybody: the certificate is made for this run.
var clientTLS = &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}

// n scales a number.
func (e *env) n(n int) int { return max(1, int(float64(n)*e.o.scale)) }

// dialersMax is how many connections are being made at a time.
const dialersMax = 64

// swarm is a number of connections. Closing resets them, so that their ports can
// be used again at once.
type swarm struct{ conns []*conn }

// connect opens n connections to addr. Those that are not accepted are missing.
func connect(ctx context.Context, addr string, n int) (*swarm, error) {
	s := &swarm{conns: make([]*conn, n)}
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range min(n, dialersMax) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
				if err != nil {
					failed.Store(&err)
					continue
				}
				s.conns[i] = &conn{Conn: c}
			}
		})
	}
	group.Wait()
	open := s.conns[:0]
	for _, c := range s.conns {
		if c != nil {
			open = append(open, c)
		}
	}
	s.conns = open
	if len(open) == 0 && failed.Load() != nil {
		return nil, *failed.Load()
	}
	return s, nil
}

func (s *swarm) close() {
	for _, c := range s.conns {
		reset(c.Conn)
	}
}

func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		// Only a socket that is closed refuses.
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

// each calls fn for every connection, so many at a time, and counts what it says.
func (s *swarm) each(atATime int, fn func(i int, c *conn) string) counts {
	var next atomic.Int64
	var group sync.WaitGroup
	var mu sync.Mutex
	total := counts{}
	for range min(atATime, len(s.conns)) {
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.conns) {
					return
				}
				said := fn(i, s.conns[i])
				mu.Lock()
				total[said]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return total
}

// counts are outcomes by how often they came.
type counts map[string]int

// only gives the outcome if there is just one.
func (c counts) only() (string, bool) {
	if len(c) != 1 {
		return "", false
	}
	for s := range c {
		return s, true
	}
	return "", false
}

func (c counts) String() string {
	if s, ok := c.only(); ok {
		return "all: " + s
	}
	return fmt.Sprint(map[string]int(c))
}

// check refuses outcomes that do not begin like one of these.
func (c counts) check(allowed ...string) error {
	for said, n := range c {
		if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(said, a) }) {
			return fmt.Errorf("%d got %q, allowed is %q", n, said, allowed)
		}
	}
	return nil
}

// told is an outcome that is allowed, with its figures.
func (c counts) told(more string, allowed ...string) (outcome, error) {
	return outcome{figures: c.String() + more}, c.check(allowed...)
}

// send writes without reading, for at most wait.
func (c *conn) send(b []byte, wait time.Duration) error {
	if err := c.SetWriteDeadline(time.Now().Add(wait)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// state says whether the broker has closed the connection, as far as can be told
// without waiting.
func (c *conn) state() string {
	if err := c.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		return closedText
	}
	var b [1]byte
	_, err := c.Read(b[:])
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		return "open"
	}
	return closedText
}

func (s *swarm) states() counts {
	return s.each(256, func(_ int, c *conn) string { return c.state() })
}

// become waits for what is allowed, where a busy machine has not got round to it: of 500
// handshakes that begin with garbage one was still open after a second with six
// processes for two cores.
func (s *swarm) become(allowed ...string) counts {
	got := s.states()
	for end := time.Now().Add(becomeMax); got.check(allowed...) != nil && time.Now().Before(end); got = s.states() {
		time.Sleep(100 * time.Millisecond)
	}
	return got
}

// becomeMax is half of what a handshake may take: who is closed for that counts as open.
const becomeMax = 5 * time.Second

// openFiles says whether this process may have so many connections; the broker,
// which inherits the limit, needs as many.
func openFiles(n int) error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	if need := uint64(n) + 500; l.Cur < need {
		return fmt.Errorf("%d open files are allowed, %d are needed: raise the limit (ulimit -n), or lower -scale", l.Cur, need)
	}
	return nil
}

// connectionLoads are many connections.
func connectionLoads() []attack {
	const many, hold = 10_000, time.Second
	held := func(name string, n int, what func(i int) []byte, allowed ...string) attack {
		return attack{name: name, do: func(ctx context.Context, e *env) (outcome, error) {
			n := e.n(n)
			if err := openFiles(n); err != nil {
				return outcome{}, err
			}
			s, err := connect(ctx, e.broker.Addr(), n)
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			if accepted := len(s.conns); accepted < n {
				return outcome{}, fmt.Errorf("%d of %d connections are accepted", accepted, n)
			}
			if what != nil {
				s.each(64, func(i int, c *conn) string { return fmt.Sprint(c.send(what(i), time.Second) == nil) })
			}
			time.Sleep(hold)
			return s.states().told("", allowed...)
		}}
	}
	half := func(announced int) func(int) []byte {
		q := produceOf(-1, topicName, 0, make([]byte, announced))
		frame := encode(q, produceVersion).frame
		return func(int) []byte { return frame[:min(len(frame)/2, 600)] }
	}
	other := func(announced int) func(int) []byte {
		frame := sized(append(header(3, 9, true), make([]byte, announced)...))
		return func(int) []byte { return frame[:min(len(frame)/2, 600)] }
	}
	return []attack{
		held("10,000 idle connections at once", many, nil, "open"),
		held("5,000 connections with half a length", many/2, func(int) []byte { return []byte{0, 0} }, "open"),
		held("5,000 connections with half a request of 1 KiB", many/2, half(1<<10), "open", closedText),
		held("5,000 connections that announce 1 MiB of Produce", many/2, half(1<<20), "open", closedText),
		held("5,000 connections that announce 1 MiB of Metadata", many/2, other(1<<20), "open", closedText),
		held("500 connections that announce 90 MiB", 500, half(90<<20), "open", closedText),
		{name: "10,000 connections opened and closed", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.storm(ctx, 10_000, nil)
		}},
		{name: "5,000 connections with one bad request each", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.storm(ctx, 5_000, sized(append(header(3, 1, false), 0x7f, 0xff, 0xff, 0xff)))
		}},
	}
}

// storm opens and closes connections, as fast as it can.
func (e *env) storm(ctx context.Context, n int, say []byte) (outcome, error) {
	n = e.n(n)
	var next, refused atomic.Int64
	var group sync.WaitGroup
	for range dialersMax {
		group.Go(func() {
			for next.Add(1) <= int64(n) && ctx.Err() == nil {
				c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", e.broker.Addr())
				if err != nil {
					refused.Add(1)
					continue
				}
				if say != nil {
					k := conn{Conn: c}
					if k.send(say, time.Second) == nil {
						_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
						var b [1]byte
						_, _ = c.Read(b[:])
					}
				}
				reset(c)
			}
		})
	}
	group.Wait()
	if refused.Load() > 0 {
		return outcome{}, fmt.Errorf("%d of %d connections were refused", refused.Load(), n)
	}
	return outcome{text: "all accepted"}, ctx.Err()
}

// tlsLoads are for the TLS port.
func tlsLoads() []attack {
	held := func(name string, n int, hold time.Duration, say []byte, allowed ...string) attack {
		return attack{name: name, tls: true, do: func(ctx context.Context, e *env) (outcome, error) {
			s, err := connect(ctx, e.tlsAddr, e.n(n))
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			if say != nil {
				s.each(64, func(_ int, c *conn) string { return fmt.Sprint(c.send(say, time.Second) == nil) })
			}
			time.Sleep(hold)
			return s.become(allowed...).told("", allowed...)
		}}
	}
	hello := []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}
	garbage := make([]byte, 1000)
	for i := range garbage {
		garbage[i] = byte(i * 7)
	}
	shaken := func(name string, n int, then func(i int, c *conn) string, hold time.Duration) attack {
		return attack{name: name, tls: true, do: func(ctx context.Context, e *env) (outcome, error) {
			s, err := connect(ctx, e.tlsAddr, e.n(n))
			if err != nil {
				return outcome{}, err
			}
			defer s.close()
			got := s.each(16, func(i int, c *conn) string {
				t := tls.Client(c.Conn, clientTLS)
				hctx, cancel := context.WithTimeout(ctx, 20*time.Second)
				defer cancel()
				if err := t.HandshakeContext(hctx); err != nil {
					return "no handshake"
				}
				c.Conn = t
				if then == nil {
					return "handshake"
				}
				return then(i, c)
			})
			time.Sleep(hold)
			return got.told("", "handshake", "no handshake", "taken", "not taken") // 10 s are over on a slow machine
		}}
	}
	metadata := metadataOfAll()
	return []attack{
		held("500 TLS connections with garbage", 500, time.Second, garbage, closedText),
		held("1,000 TLS handshakes that do not begin", 1000, time.Second, nil, "open", closedText),
		held("1,000 TLS handshakes that stall", 1000, time.Second, hello, "open", closedText),
		shaken("500 TLS connections that idle", 500, nil, time.Second),
		shaken("200 TLS connections that ask and do not read", 200, func(_ int, c *conn) string {
			if c.send(repeated(metadata.frame, 100), time.Second) != nil {
				return "not taken"
			}
			return "taken"
		}, 2*time.Second),
	}
}

func repeated(b []byte, n int) []byte {
	out := make([]byte, 0, n*len(b))
	for range n {
		out = append(out, b...)
	}
	return out
}
