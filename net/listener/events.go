package listener

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// gnet keeps one handler for all loops; it finds the Loop in the connection.
type events struct {
	gnet.BuiltinEventEngine
	srv *Server
}

// doorbell is the context of the local socket pair that every loop has: gnet
// tells which loop a connection lives on only once there is one, and a shard
// without clients must be reachable too.
type doorbell struct {
	loop chan gnet.Conn
}

// plainOpen is the context of a client connection until it is opened.
type plainOpen struct {
	listener   string
	host       string
	remotePort int32
}

// OnOpen implements gnet.EventHandler.
func (e *events) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	defer e.srv.guard()
	switch ctx := c.Context().(type) {
	case *doorbell:
		ctx.loop <- c
	case *plainOpen:
		l := e.srv.byEventLoop[c.EventLoop()]
		l.enter()
		s := l.newSession(ctx.listener, ctx.host, ctx.remotePort, false)
		p := &plain{s: s, c: c, fd: c.Fd()}
		s.transport = p
		c.SetContext(p)
		s.opened()
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler.
func (e *events) OnTraffic(c gnet.Conn) gnet.Action {
	defer e.srv.guard()
	p, ok := c.Context().(*plain)
	if !ok {
		if _, err := c.Discard(-1); err == nil {
			if l := e.srv.byEventLoop[c.EventLoop()]; l != nil {
				l.enter()
				l.answerBell()
			}
		}
		return gnet.None
	}
	l := p.s.loop
	l.enter()
	p.read()
	if p.s.closing {
		return gnet.None // closed at the end of the turn, after what can be sent
	}
	if p.s.unsent && !l.dirty {
		p.flush() // answered without the shard: no need to wait for the turn's end
	}
	return gnet.None
}

// OnClose implements gnet.EventHandler.
func (e *events) OnClose(c gnet.Conn, _ error) gnet.Action {
	defer e.srv.guard()
	if p, ok := c.Context().(*plain); ok {
		p.s.loop.enter()
		p.ended()
	}
	return gnet.None
}

// enrolLoops gives every loop its doorbell and learns gnet's name for it.
func (srv *Server) enrolLoops() error {
	srv.byEventLoop = make(map[gnet.EventLoop]*Loop, len(srv.loops))
	for _, l := range srv.loops {
		near, far, err := socketPair()
		if err != nil {
			return err
		}
		srv.doorbells = append(srv.doorbells, far)
		bell := &doorbell{loop: make(chan gnet.Conn, 1)}
		// gnet enrols on the loop with the fewest connections: one each.
		if _, err := srv.client.EnrollContext(near, bell); err != nil {
			return fmt.Errorf("enrolling a loop: %w", err)
		}
		select {
		case c := <-bell.loop:
			l.el, l.bell = c.EventLoop(), far
			if l.poller, err = newPoller(c); err != nil {
				return err
			}
		case <-time.After(10 * time.Second):
			return errors.New("an event loop does not start")
		}
		if srv.byEventLoop[l.el] != nil {
			return errors.New("BUG: two shards were given the same event loop")
		}
		srv.byEventLoop[l.el] = l
	}
	return nil
}

func socketPair() (near, far net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a socket pair: %w", err)
	}
	var conns [2]net.Conn
	for i, fd := range fds {
		unix.CloseOnExec(fd)
		f := os.NewFile(uintptr(fd), "doorbell")
		c, cerr := net.FileConn(f) // duplicates the descriptor
		err = errors.Join(err, cerr, f.Close())
		conns[i] = c
	}
	if err != nil {
		return nil, nil, err
	}
	return conns[0], conns[1], nil
}

// gnetLog passes on what gnet says that matters.
type gnetLog struct{ logf func(string, ...any) }

// Debugf implements gnet's Logger.
func (gnetLog) Debugf(string, ...any) {}

// Infof implements gnet's Logger.
func (gnetLog) Infof(string, ...any) {}

// Warnf implements gnet's Logger. Its one warning is about an event for a
// socket that was closed in the same batch of events, which is expected.
func (gnetLog) Warnf(string, ...any) {}

// Errorf implements gnet's Logger.
func (g gnetLog) Errorf(format string, args ...any) { g.logf("gnet: "+format, args...) }

// Fatalf implements gnet's Logger.
func (g gnetLog) Fatalf(format string, args ...any) { panic("FATAL: " + fmt.Sprintf(format, args...)) }
