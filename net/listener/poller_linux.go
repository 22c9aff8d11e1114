package listener

import (
	"fmt"
	"reflect"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// poller stops and starts the reading of single sockets in a gnet loop.
//
// gnet reads whatever is readable and keeps what its handler leaves, without a
// bound, and has no call to stop that. So the socket's interest is changed in the
// loop's own epoll set: with no events asked for, the bytes stay with the kernel,
// the TCP window closes, and only hang-ups and errors are still reported (gnet
// closes the connection on those). gnet itself changes the interest only when it
// writes, and it never writes here. At most one read buffer of bytes, what was
// read before the pause, is left in gnet's buffer, and one in plain.ahead. Rejected:
// SO_RCVLOWAT, which the kernel ignores once the window is full, and closing and
// enrolling the socket again, which costs a hundred times as much.
type poller struct{ fd int }

// newPoller finds the poller of the loop that c lives on. Its number is only
// read, by reflection, since gnet does not give it out; the interest of c is
// changed and changed back to make sure that it is the right one.
func newPoller(c gnet.Conn) (p poller, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("this version of gnet keeps its poller elsewhere: %v", r)
		}
	}()
	v := reflect.ValueOf(c).Elem().FieldByName("loop").Elem().FieldByName("poller").Elem().FieldByName("fd")
	p = poller{fd: int(v.Int())}
	if err := p.pause(c.Fd()); err != nil {
		return p, err
	}
	return p, p.resume(c.Fd())
}

func (p poller) pause(fd int) error { return p.set(fd, 0) }

func (p poller) resume(fd int) error { return p.set(fd, unix.EPOLLIN|unix.EPOLLPRI) }

func (p poller) set(fd int, events uint32) error {
	if err := unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Fd: int32(fd), Events: events}); err != nil {
		return fmt.Errorf("changing what epoll reports of a socket: %w", err)
	}
	return nil
}

// kernelHas is how many bytes of a socket can be read now.
func kernelHas(fd int) int {
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
