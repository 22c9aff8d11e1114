package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/core"
	"millrace/net/kafka"
)

// acceptor takes connections from one listening socket. Both protocols are
// accepted the same way, so that limits hold for both; a plaintext connection is
// then enrolled with gnet, a TLS connection gets a goroutine.
type acceptor struct {
	// Immutable.
	srv  *Server
	conf Listen
	ln   net.Listener
	tls  *tls.Config // nil for plaintext
	done chan struct{}
	// Owned by whoever starts and stops the Server.
	started bool
}

// Listen opens the sockets of all listeners and tells their addresses. Nobody is
// served before Accept. When one cannot be opened, none is.
func (srv *Server) Listen() ([]Bound, error) {
	var bound []Bound
	for _, conf := range srv.opts.Listens {
		a, err := srv.open(conf)
		if err != nil {
			for _, a := range srv.listeners {
				err = errors.Join(err, a.ln.Close())
			}
			srv.listeners = nil
			return nil, err
		}
		srv.listeners = append(srv.listeners, a)
		b := Bound{Name: conf.Name, Protocol: conf.Protocol, Host: conf.Host}
		if at, ok := a.ln.Addr().(*net.TCPAddr); ok {
			b.Port = int32(at.Port)
		}
		bound = append(bound, b)
	}
	return bound, nil
}

func (srv *Server) open(conf Listen) (*acceptor, error) {
	a := &acceptor{srv: srv, conf: conf, done: make(chan struct{})}
	if conf.Protocol == SSL {
		certs, err := loadCertificates(*conf.TLS, srv.opts.Logf)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", conf.Name, err)
		}
		srv.certs = append(srv.certs, certs)
		a.tls = certs.config()
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(conf.Host, strconv.Itoa(conf.Port)))
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", conf.Name, err)
	}
	a.ln = ln
	return a, nil
}

func (a *acceptor) start() {
	a.started = true
	go a.run()
}

// stop closes the socket and waits until nothing more is accepted.
func (a *acceptor) stop() {
	if err := a.ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		a.srv.opts.Logf("closing listener %s: %v", a.conf.Name, err)
	}
	if a.started {
		<-a.done
	}
}

func (a *acceptor) run() {
	defer close(a.done)
	for {
		c, err := a.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of file descriptors, most often: connections stay with the
			// kernel until some are closed.
			a.srv.complaints.say("accept", fmt.Sprintf("listener %s cannot accept: %v", a.conf.Name, err), a.srv.clock.now())
			time.Sleep(acceptPause)
			continue
		}
		a.take(c)
	}
}

const acceptPause = 50 * time.Millisecond

// take hands a connection on, or closes it when there are too many.
func (a *acceptor) take(c net.Conn) {
	host, port := remote(c)
	if !a.srv.arrive(host) {
		a.drop(c)
		return
	}
	if a.tls != nil {
		a.srv.serveTLS(a, c, host, port)
		return
	}
	ctx := &plainOpen{listener: a.conf.Name, host: host, remotePort: port}
	// EnrollContext closes c, of which gnet keeps a duplicate.
	if _, err := a.srv.client.EnrollContext(c, ctx); err != nil {
		a.srv.left(host)
		a.srv.complaints.say(host, fmt.Sprintf("a connection of %s cannot be served: %v", host, err), a.srv.clock.now())
	}
}

func (a *acceptor) drop(c net.Conn) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		a.srv.opts.Logf("closing a refused connection: %v", err)
	}
}

// remote gives the address of a client as Kafka prints it.
func remote(c net.Conn) (host string, port int32) {
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		return "/" + at.IP.String(), int32(at.Port)
	}
	return "/" + c.RemoteAddr().String(), 0
}

// arrive counts a connection in, unless there are too many.
func (srv *Server) arrive(host string) bool {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	switch {
	case srv.mu.connections >= srv.opts.ConnectionsMax:
		srv.refuse.max.Add(1)
		srv.complaints.say("max.connections", fmt.Sprintf("connections are refused: there are %d (max.connections)", srv.mu.connections), srv.clock.now())
		return false
	case srv.mu.perHost[host] >= srv.opts.ConnectionsPerIPMax:
		srv.refuse.perIP.Add(1)
		srv.complaints.say(host, fmt.Sprintf("connections of %s are refused: there are %d (max.connections.per.ip)", host, srv.mu.perHost[host]), srv.clock.now())
		return false
	}
	srv.mu.connections++
	srv.mu.perHost[host]++
	return true
}

// left counts a connection out.
func (srv *Server) left(host string) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.mu.connections--
	if srv.mu.perHost[host]--; srv.mu.perHost[host] == 0 {
		delete(srv.mu.perHost, host)
	}
}

func (srv *Server) connectionCount() int {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	return srv.mu.connections
}

// newSession makes the session of a connection that lives on l; on the loop.
func (l *Loop) newSession(listener, host string, port int32, isTLS bool) *session {
	s := &session{loop: l, lastActive: l.now}
	s.info = kafka.ConnInfo{
		ID: l.srv.connID.Add(1), Listener: listener, Host: host, RemotePort: port, TLS: isTLS,
	}
	l.sessions[s] = struct{}{}
	l.stats.connections.Add(1)
	l.stats.opened.Add(1)
	return s
}

// opened is called once the transport is set; a connection that comes while the
// broker stops is not read.
func (s *session) opened() {
	if s.loop.shut {
		s.closing = true
		s.loop.closing = append(s.loop.closing, s)
		s.loop.arm()
	} else if s.loop.srv.stopping.Load() {
		s.pause(pauseStop)
	}
}

// sweepLater looks for idle connections from time to time.
func (l *Loop) sweepLater() {
	every := min(l.srv.opts.IdleMax, l.srv.opts.StallMax) / 4
	every = max(min(every, 10*time.Second), 10*time.Millisecond)
	l.After(l.now+core.Tick(every), func() {
		l.sweep()
		l.sweepLater()
	})
}

// sweep closes connections that nothing was heard of for too long: idle ones
// (connections.max.idle.ms), and those that stopped in the middle of a request,
// which holds a ticket. A connection that waits for an answer of ours is neither.
func (l *Loop) sweep() {
	idleMax, stallMax := core.Tick(l.srv.opts.IdleMax), core.Tick(l.srv.opts.StallMax)
	for s := range l.sessions {
		quiet := l.now - s.lastActive
		switch {
		case s.closing:
		case quiet > idleMax && (s.slots.len() == 0 || len(s.out) > 0) && s.paused != pauseStop:
			s.Close("")
		case quiet > stallMax && s.hasTicket:
			s.Close(fmt.Sprintf("a request of %d bytes stopped after %d", s.size, len(s.frame)))
		}
	}
}

// complaints keeps the log readable when clients misbehave: one line per subject,
// kind of fault and minute, of a bounded number of them. Texts that differ only in
// their numbers are of one kind.
type complaints struct {
	logf func(format string, args ...any)

	mu struct {
		sync.Mutex
		last map[string]core.Tick
	}
}

const (
	complaintsMax  = 1024
	complaintEvery = 60 * core.Second
	// complaintKindBytes is how much of two texts is compared.
	complaintKindBytes = 128
)

func (c *complaints) say(subject, text string, now core.Tick) {
	about := subject + " " + kindOf(text)
	c.mu.Lock()
	last, known := c.mu.last[about]
	if known && now-last < complaintEvery {
		c.mu.Unlock()
		return
	}
	if len(c.mu.last) >= complaintsMax || c.mu.last == nil {
		c.mu.last = make(map[string]core.Tick)
	}
	c.mu.last[about] = now
	c.mu.Unlock()
	c.logf("%s", text)
}

// kindOf is a text without its numbers, cut to a bounded length.
func kindOf(text string) string {
	kind := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
	return kind[:min(len(kind), complaintKindBytes)]
}

// complain logs why a connection is closed; an empty reason needs no line.
func (srv *Server) complain(s *session, reason string) {
	if reason == "" {
		return
	}
	who := s.info.Host
	srv.complaints.say(who, fmt.Sprintf("closing a connection of %s to listener %s: %s", who, s.info.Listener, reason), s.loop.now)
}
