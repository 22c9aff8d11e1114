package sim

import (
	"errors"
	"fmt"

	"millrace/core"
	"millrace/core/arena"
	"millrace/shard"
)

var (
	errDown    = errors.New("the node is down")
	errTimeout = errors.New("no answer in time")
	errLost    = errors.New("the connection was lost")
)

// conn is a client's connection: it ends on one loop of the node.
type conn struct {
	s      *Sim
	origin int // of the loop; modulo the number of shards
	up     link
	down   link
}

func (s *Sim) connect() *conn { return &conn{s: s, origin: s.rng.IntN(8)} }

// call is one request on its way.
type call struct {
	n        *node
	conn     *conn
	req      shard.Request
	target   *shardProc
	cb       func(err error)
	settled  bool // the client has its answer, or has given up
	returned bool // the shard has given the request back
	sentAt   core.Tick
}

// build makes a request on the loop that the connection ends on; its error is
// what the loop answers without asking a shard.
type build func(p *shardProc) (shard.Request, error)

// send brings a request to the shard of a partition. cb is called exactly once:
// with nil when the request came back (its results are set), with an error when
// the node is down, when the process died, or after timeout.
func (c *conn) send(target core.PartitionID, timeout core.Tick, b build, cb func(err error)) {
	s := c.s
	n := s.node
	if n == nil || n.dead || n.store == nil {
		s.after(s.between(core.Millisecond, 30*core.Millisecond), func() { cb(errDown) })
		return
	}
	k := &call{n: n, conn: c, cb: cb, sentAt: s.now}
	n.calls = append(n.calls, k)
	s.after(timeout, func() { k.settle(errTimeout) })
	origin := n.shards[c.origin%len(n.shards)]
	n.via(&c.up, s.between(20_000, 400_000), "socket", func() {
		req, err := b(origin)
		if err != nil {
			k.returned = true
			n.forget(k)
			s.via(&c.down, s.between(20_000, 400_000), func() { k.settle(err) })
			return
		}
		k.req = req
		req.Base().Origin, req.Base().Owner = origin.id, k
		k.target = n.shards[core.ShardOf(target, len(n.shards))]
		hop := core.Tick(0)
		if k.target != origin {
			hop = s.between(1000, 100_000)
		}
		n.via(&origin.toShards[k.target.id], hop, "request", func() {
			k.target.post(shard.Event{Kind: shard.EventRequest, Request: req})
		})
	})
}

// cancel asks the shard to answer a waiting request with what there is, as the
// loop does when a connection closes.
func (k *call) cancel() {
	if k.target == nil || k.returned || k.n.dead {
		return
	}
	origin := k.n.shards[k.req.Base().Origin]
	k.n.via(&origin.toShards[k.target.id], 1000, "cancel", func() {
		if !k.returned {
			k.target.post(shard.Event{Kind: shard.EventCancel, Request: k.req})
		}
	})
}

func (k *call) settle(err error) {
	if k.settled {
		return
	}
	k.settled = true
	if err == nil {
		s := k.n.s
		if rerr := k.req.Base().Err; isStorageFailed(rerr) && !s.damageKnown() {
			s.fail(fmt.Errorf("%T is refused though nothing is damaged: %w", k.req, rerr))
			return
		}
	}
	if err == errTimeout {
		k.n.s.stats.Timeouts++
		k.cancel()
	}
	k.cb(err)
}

// answer brings a request that a shard has given back to its client.
func (n *node) answer(p *shardProc, req shard.Request) {
	k, ok := req.Base().Owner.(*call)
	if !ok || k.returned {
		n.s.fail(fmt.Errorf("a request came back twice: %T", req))
		return
	}
	k.returned = true
	origin := n.shards[req.Base().Origin]
	n.via(&p.toShards[origin.id], n.s.between(0, 100_000), "answer", func() {
		// What the socket has, the client gets, whatever becomes of the process.
		n.forget(k)
		n.s.via(&k.conn.down, n.s.between(20_000, 400_000), func() {
			k.settle(nil)
			if f, ok := req.(*shard.Fetch); ok {
				for i := range f.Parts {
					for _, b := range f.Parts[i].Data.Bufs {
						b.Release()
					}
				}
			}
		})
	})
}

func (n *node) forget(k *call) {
	for i, c := range n.calls {
		if c == k {
			n.calls[i] = n.calls[len(n.calls)-1]
			n.calls = n.calls[:len(n.calls)-1]
			return
		}
	}
}

// allocPayload copies bytes into the loop's arena, evicting what it caches.
func (p *shardProc) allocPayload(b []byte) (arena.Buf, error) {
	buf, err := p.arena.Alloc(len(b))
	if errors.Is(err, arena.ErrFull) {
		p.n.s.stats.Evictions++
		p.arena.Seal()                 // as the listener does
		for _, o := range p.n.shards { // its buffers are held by whichever shard has the partition
			if o != p {
				p.n.via(&p.toShards[o.id], p.n.s.between(0, 100_000), "evict", func() { o.logs.Evict(p.arena, len(b)) })
			}
		}
		p.sh.MakeRoom(len(b))
		buf, err = p.arena.Alloc(len(b))
	}
	if err != nil {
		p.n.s.stats.ArenaFull++
		return buf, err
	}
	copy(buf.Bytes(), b)
	return buf, nil
}

// command hands a body to the state machine of a partition and waits for its reply.
func (s *Sim) command(id core.PartitionID, body any, timeout core.Tick, cb func(reply any, err error)) {
	s.connect().command(id, body, timeout, cb)
}

func (c *conn) command(id core.PartitionID, body any, timeout core.Tick, cb func(reply any, err error)) {
	req := &shard.Coordinate{Partition: id, Command: core.Command{
		Body:   body,
		Client: core.ClientInfo{ClientID: "sim", Host: "/10.0.0.1", Principal: "User:ANONYMOUS", Listener: "SIM"},
	}}
	c.send(id, timeout, func(*shardProc) (shard.Request, error) { return req, nil }, func(err error) {
		switch {
		case err != nil:
			cb(nil, err)
		case req.Err != nil:
			cb(nil, req.Err)
		case req.Command.Err != nil:
			cb(nil, req.Command.Err)
		default:
			cb(req.Command.Reply, nil)
		}
	})
}
