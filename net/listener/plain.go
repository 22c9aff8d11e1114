package listener

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// iovMax is how many pieces one writev takes; the kernel's own limit is 1024.
const iovMax = 256

// plain is the transport of a plaintext connection: gnet tells when there is
// something to read, and large reads and all writes go straight to the socket. gnet's
// own writes are not used: what a socket does not take at once they copy, without a
// bound, and nothing tells when it has left.
type plain struct {
	s  *session
	c  gnet.Conn
	fd int

	// Reading; see read.go. ahead is what was read of frames to come: in the loop's
	// buffer while the session reads, in memory of its own while it is paused.
	ahead  []byte
	budget int // bytes that may still be read from the socket for this event
	in     [2][]byte

	// Writing.
	iov     [][]byte
	blocked bool // the socket takes no more; a goroutine waits until it does
	writer  *os.File
}

func (p *plain) pause() {
	if err := p.s.loop.poller.pause(p.fd); err != nil {
		p.s.Close(err.Error())
	}
}

func (p *plain) resume() {
	if err := p.s.loop.poller.resume(p.fd); err != nil {
		p.s.Close(err.Error())
		return
	}
	p.read()
}

// flush writes pieces until there are none left or the socket is full.
func (p *plain) flush() {
	for len(p.s.out) > 0 && !p.blocked {
		p.iov = p.iov[:0]
		for i := range p.s.out[:min(len(p.s.out), iovMax)] {
			p.iov = append(p.iov, p.s.out[i].b)
		}
		n, err := unix.Writev(p.fd, p.iov)
		clear(p.iov)
		switch {
		case err == nil:
			p.s.sent(n)
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			p.wait()
		case errors.Is(err, unix.EPIPE), errors.Is(err, unix.ECONNRESET):
			p.s.Close("") // the client is gone, which needs no log line
			return
		default:
			p.s.Close(fmt.Sprintf("writing replies: %v", err))
			return
		}
	}
}

// wait calls writable on the loop when the socket takes bytes again. A goroutine
// waits in the runtime's poller, on a duplicate of the socket; it exists only
// while the client is slow, and closing the duplicate ends it.
func (p *plain) wait() {
	p.s.loop.stats.blockedSends.Add(1)
	if p.writer == nil {
		fd, err := p.c.Dup()
		if err != nil {
			p.s.Close(fmt.Sprintf("duplicating the socket: %v", err))
			return
		}
		p.writer = os.NewFile(uintptr(fd), "socket")
	}
	raw, err := p.writer.SyscallConn()
	if err != nil {
		p.s.Close(fmt.Sprintf("waiting for the socket: %v", err))
		return
	}
	p.blocked = true
	p.s.loop.srv.background.Go(func() { p.waitWritable(raw) })
}

func (p *plain) waitWritable(raw syscall.RawConn) {
	err := raw.Write(func(fd uintptr) bool {
		ev := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		n, err := unix.Poll(ev, 0)
		return err == nil && n > 0
	})
	p.s.loop.force(message{kind: msgFunc, fn: func() { p.writable(err) }})
}

func (p *plain) writable(err error) {
	p.blocked = false
	if p.s.closed {
		return
	}
	if err != nil {
		p.s.Close(fmt.Sprintf("waiting for the socket: %v", err))
		return
	}
	p.flush()
}

// atHand looks into the kernel's buffer too.
func (p *plain) atHand(n int) bool {
	if n -= len(p.ahead) + p.c.InboundBuffered(); n <= 0 {
		return true
	}
	return kernelHas(p.fd) >= n
}

// written is nothing: sent hears of every byte.
func (p *plain) written() int64 { return 0 }

func (p *plain) close() {
	if err := p.s.loop.el.Close(p.c); err != nil && !errors.Is(err, net.ErrClosed) {
		p.s.loop.srv.opts.Logf("closing a connection of %s: %v", p.s.info.Host, err)
	}
}

// ended is called when gnet has closed the socket.
func (p *plain) ended() {
	if p.writer != nil {
		// The only error of closing a duplicate is that it was closed before.
		_ = p.writer.Close()
	}
	p.s.ended()
}
