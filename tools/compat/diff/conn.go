package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// answer is what came back for one request: a frame without its length prefix,
// or the end of the connection.
type answer struct {
	frame []byte
	err   error
}

// link is one connection to a broker with a goroutine that reads its answers. It
// is used by one goroutine.
type link struct {
	c       net.Conn
	answers chan answer
	dead    bool
}

// writeLimit bounds one write; the brokers read all the time.
const writeLimit = 10 * time.Minute

func dial(addr string) (*link, error) {
	c, err := net.DialTimeout("tcp", addr, 5*time.Minute)
	if err != nil {
		return nil, err
	}
	l := &link{c: c, answers: make(chan answer, 64)}
	go l.read()
	return l, nil
}

// read ends when the connection does, which close brings about. The channel
// holds more answers than there may be requests under way.
func (l *link) read() {
	defer close(l.answers)
	for {
		var head [4]byte
		if _, err := io.ReadFull(l.c, head[:]); err != nil {
			l.answers <- answer{err: err}
			return
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > 64<<20 {
			l.answers <- answer{err: fmt.Errorf("an answer of %d bytes", n)}
			return
		}
		frame := make([]byte, n)
		if _, err := io.ReadFull(l.c, frame); err != nil {
			l.answers <- answer{err: err}
			return
		}
		l.answers <- answer{frame: frame}
	}
}

// send writes a frame; that the other side has closed shows in the answers.
func (l *link) send(frame []byte) {
	if err := l.c.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return // closed; the reader has told
	}
	if _, err := l.c.Write(frame); err != nil {
		l.c.Close() // the reader tells
	}
}

func (l *link) close() {
	l.dead = true
	l.c.Close()
	for range l.answers {
	}
}

// errEnded is read from a connection that ended before.
var errEnded = errors.New("the connection has ended")
