package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// cut is what the proxy does to a connection.
type cut int

const (
	// cutAnswer: the broker gets the request, the client not its answer.
	cutAnswer cut = iota + 1
	// cutRequest: the broker gets half of the request.
	cutRequest
	// cutHalf: the client gets half of the answer.
	cutHalf
)

const (
	// frameMax is the longest frame that the proxy takes, in bytes.
	frameMax = 16 << 20
	// recordsMin is below what an answer to Fetch has that holds a record of ours,
	// and above what one of a single partition has that holds none, in bytes.
	recordsMin = 250
)

// cuts says which exchanges of a proxy are cut, by their number from 1 on: of the
// Produce requests, or of the answers to Fetch that hold records.
type cuts struct {
	key int16 // of Produce or Fetch
	at  map[int]cut
}

func produceCuts(at map[int]cut) cuts { return cuts{int16(kmsg.Produce), at} }

// fetchCuts has no cutRequest: an answer is there.
func fetchCuts(at map[int]cut) cuts { return cuts{int16(kmsg.Fetch), at} }

// proxy passes a client's connections on to one broker, names itself in place of
// the broker, and cuts connections at chosen exchanges.
type proxy struct {
	// Immutable.
	listener net.Listener
	broker   string
	host     string
	port     int32
	cuts     cuts

	mu struct {
		sync.Mutex
		seen, cut int
		conns     map[net.Conn]bool // nil: closed
		err       error
	}
	wg sync.WaitGroup
}

func newProxy(broker string, cuts cuts) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := l.Addr().(*net.TCPAddr)
	p := &proxy{listener: l, broker: broker, host: "127.0.0.1", port: int32(a.Port), cuts: cuts}
	p.mu.conns = map[net.Conn]bool{}
	p.wg.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return net.JoinHostPort(p.host, strconv.Itoa(int(p.port))) }

// counts are the connections cut and the exchanges seen that might have been.
func (p *proxy) counts() (cuts, seen int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.cut, p.mu.seen
}

// err is the first answer that the proxy could not read, or nil.
func (p *proxy) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.mu.conns {
		_ = c.Close()
	}
	p.mu.conns = nil
	p.mu.Unlock()
	p.wg.Wait()
}

// hold registers a connection to be closed with the proxy; false: it is closed.
func (p *proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.conns == nil {
		_ = c.Close()
		return false
	}
	p.mu.conns[c] = true
	return true
}

func (p *proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.hold(c) {
			return
		}
		b, err := net.Dial("tcp", p.broker)
		if err != nil || !p.hold(b) {
			_ = c.Close()
			continue
		}
		l := &link{p: p, client: c, broker: b}
		l.mu.asked = map[int32]asked{}
		p.wg.Go(l.requests)
		p.wg.Go(l.answers)
	}
}

// link is one connection of a client with its counterpart.
type link struct {
	p              *proxy
	client, broker net.Conn
	mu             struct {
		sync.Mutex
		asked map[int32]asked // by correlation ID
	}
}

// asked is what the answer to a request is read by.
type asked struct {
	key, version int16
	cut          cut
}

func (l *link) close() { _, _ = l.client.Close(), l.broker.Close() }

func (l *link) requests() {
	defer l.close()
	for {
		frame, err := readFrame(l.client)
		if err != nil || len(frame) < 12 {
			return
		}
		a := asked{key: int16(binary.BigEndian.Uint16(frame[4:])), version: int16(binary.BigEndian.Uint16(frame[6:]))}
		if a.key == int16(kmsg.Produce) && l.p.cuts.key == a.key {
			a.cut = l.p.next()
		}
		l.mu.Lock()
		l.mu.asked[int32(binary.BigEndian.Uint32(frame[8:]))] = a
		l.mu.Unlock()
		if a.cut == cutRequest {
			_, _ = l.broker.Write(frame[:len(frame)/2])
			return
		}
		if _, err := l.broker.Write(frame); err != nil {
			return
		}
	}
}

// next counts an exchange and says whether its connection is to be cut.
func (p *proxy) next() cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.seen++
	c := p.cuts.at[p.mu.seen]
	if c != 0 {
		p.mu.cut++
	}
	return c
}

func (l *link) answers() {
	defer l.close()
	for {
		frame, err := readFrame(l.broker)
		if err != nil || len(frame) < 8 {
			return
		}
		id := int32(binary.BigEndian.Uint32(frame[4:]))
		l.mu.Lock()
		a := l.mu.asked[id]
		delete(l.mu.asked, id)
		l.mu.Unlock()
		if a.key == int16(kmsg.Fetch) && l.p.cuts.key == a.key && len(frame) >= recordsMin {
			a.cut = l.p.next()
		}
		switch a.cut {
		case cutAnswer:
			return
		case cutHalf:
			_, _ = l.client.Write(frame[:len(frame)/2])
			return
		}
		if frame, err = l.p.rename(frame, a); err != nil {
			l.p.mu.Lock()
			l.p.mu.err = errors.Join(l.p.mu.err, err)
			l.p.mu.Unlock()
			return
		}
		if _, err := l.client.Write(frame); err != nil {
			return
		}
	}
}

// rename puts the proxy's address into the answers that name brokers.
func (p *proxy) rename(frame []byte, a asked) ([]byte, error) {
	resp := kmsg.ResponseForKey(a.key)
	switch resp.(type) {
	case *kmsg.MetadataResponse, *kmsg.FindCoordinatorResponse, *kmsg.DescribeClusterResponse:
	default:
		return frame, nil
	}
	resp.SetVersion(a.version)
	head := 8
	if resp.IsFlexible() {
		head++ // no tagged fields in the header
	}
	if err := resp.ReadFrom(frame[head:]); err != nil {
		return nil, fmt.Errorf("answer of key %d version %d: %w", a.key, a.version, err)
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = p.host, p.port
		}
	case *kmsg.FindCoordinatorResponse:
		if r.Port > 0 {
			r.Host, r.Port = p.host, p.port
		}
		for i := range r.Coordinators {
			if c := &r.Coordinators[i]; c.Port > 0 {
				c.Host, c.Port = p.host, p.port
			}
		}
	case *kmsg.DescribeClusterResponse:
		for i := range r.Brokers {
			r.Brokers[i].Host, r.Brokers[i].Port = p.host, p.port
		}
	}
	out := resp.AppendTo(append([]byte(nil), frame[:head]...))
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out, nil
}

// readFrame returns a frame with its length.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > frameMax {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	frame := make([]byte, 4+n)
	copy(frame, size[:])
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
