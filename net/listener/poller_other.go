//go:build !linux

package listener

import (
	"fmt"
	"reflect"

	"github.com/panjf2000/gnet/v2"
	"golang.org/x/sys/unix"
)

// poller stops and starts the reading of single sockets in a gnet loop, by
// disabling their read filter in the loop's own kqueue. See poller_linux.go.
type poller struct{ fd int }

// newPoller finds the kqueue of the loop that c lives on.
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

func (p poller) pause(fd int) error { return p.set(fd, unix.EV_DISABLE) }

func (p poller) resume(fd int) error { return p.set(fd, unix.EV_ENABLE) }

func (p poller) set(fd, flags int) error {
	var ev unix.Kevent_t
	unix.SetKevent(&ev, fd, unix.EVFILT_READ, flags)
	if _, err := unix.Kevent(p.fd, []unix.Kevent_t{ev}, nil, nil); err != nil {
		return fmt.Errorf("changing what kqueue reports of a socket: %w", err)
	}
	return nil
}

// kernelHas is how many bytes of a socket can be read now; here nobody is asked.
func kernelHas(int) int { return 0 }
