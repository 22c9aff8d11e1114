package listener

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// gnet reads once for every event, into a buffer of its loop, from where frames
// are copied. That suits small requests. What follows of larger ones is read here,
// straight to where the frame is kept: half the copies, and one event takes in all
// that has come, up to readEventBytes, so that a turn has more of it to write at
// once.
const (
	// gnetReadBytes is what gnet reads for an event; the least that it is good for.
	gnetReadBytes = 4 << 10
	// readEventBytes bounds what one connection reads for one event, so that others
	// get their turn. The event comes again as long as there is more.
	readEventBytes = 1 << 20
	// spillSmallBytes of the frames behind the one that is read come along with it
	// where frames are small, spillLargeBytes where they are large: the spill is
	// copied once more, and the start of a frame tells what is to be reserved for it.
	spillSmallBytes = 64 << 10
	spillLargeBytes = 512
	largeFrameBytes = 16 << 10
	// spillShare of the bytes for requests is what the spills of all connections of a
	// loop may keep while these are paused, or spillLargeBytes each.
	spillShare = 8
)

// read takes what gnet has read and what else the socket has.
func (p *plain) read() {
	p.budget = 0
	if n := p.c.InboundBuffered(); n >= gnetReadBytes || n == 0 {
		p.budget = readEventBytes // gnet's buffer was full, or this is after a pause
	}
	p.s.pump(p)
	if len(p.ahead) > 0 {
		// The session is paused or closing; the loop's buffer is not its own.
		p.ahead = append([]byte(nil), p.ahead...)
	}
}

// Read implements source: first what was read ahead, then what gnet has, then the
// socket. gnet's buffer is empty whenever the socket is read here, so this is the
// order in which the bytes came.
func (p *plain) Read(b []byte) (int, error) {
	if len(p.ahead) > 0 {
		n := copy(b, p.ahead)
		if p.ahead = p.ahead[n:]; len(p.ahead) == 0 {
			p.ahead = nil // an empty slice would keep its memory
		}
		p.s.loop.stats.bytesCopied.Add(uint64(n))
		return n, nil
	}
	if n, _ := p.c.Read(b); n > 0 || p.budget <= 0 {
		p.s.loop.stats.bytesCopied.Add(uint64(n))
		return n, nil
	}
	return p.readSocket(b), nil
}

// readSocket fills b from the socket and takes a little more along. Whatever ends
// the connection is left for gnet to find.
func (p *plain) readSocket(b []byte) int {
	spill := p.s.loop.spill[:p.spillBytes()]
	p.in[0], p.in[1] = b, spill
	n, err := unix.Readv(p.fd, p.in[:])
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Readv(p.fd, p.in[:])
	}
	p.in[0], p.in[1] = nil, nil
	if err != nil || n <= 0 {
		p.budget = 0
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			p.s.Close(readFault(err))
		}
		return 0
	}
	p.budget -= n
	if n < len(b)+len(spill) {
		p.budget = 0 // that was all
	}
	if n > len(b) {
		p.ahead = spill[:n-len(b)]
		return len(b)
	}
	return n
}

// spillBytes is how much of the frames to come may be read along.
func (p *plain) spillBytes() int {
	if p.s.lastSize >= largeFrameBytes {
		return spillLargeBytes
	}
	l := p.s.loop
	fair := l.budget.LimitBytes() / spillShare / int64(max(len(l.sessions), 1))
	return int(min(max(fair, spillLargeBytes), spillSmallBytes))
}

// readFault is what the log says of a failed read; nothing where the client is
// just gone.
func readFault(err error) string {
	if errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.ETIMEDOUT) {
		return ""
	}
	return fmt.Sprintf("reading requests: %v", err)
}
