package kafka

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/shard"
)

// Request is one client request on its way through a handler. It is used on its
// connection's loop only. Exactly one of Reply, ReplyFrame, ReplyNothing and
// CloseConn ends it.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      string
	// Body is the decoded request; nil for handlers that decode Payload.
	Body kmsg.Request
	// Payload is what follows the header.
	Payload []byte

	w        *Worker
	conn     Conn
	api      *api
	place    uint64
	buf      arena.Buf // holds Payload, if arena memory
	received core.Tick
	bytes    int // of Payload as it came
	replied  bool
}

// Serve takes one request frame in: decode the header, find the handler, decode
// the body, call the handler. What cannot be decoded closes the connection, as
// Kafka does, since nothing after it can be trusted.
func (w *Worker) Serve(c Conn, f Frame) {
	h, rest, err := parseKeyVersion(f.Bytes)
	if err != nil {
		w.refuse(c, f, err.Error())
		return
	}
	a := w.server.table.find(h.key)
	if a == nil {
		w.server.stats.unsupported.Add(1)
		w.refuse(c, f, fmt.Sprintf("API key %d (%s) is not served", h.key, kmsg.NameForKey(h.key)))
		return
	}
	r := &Request{
		Key: h.key, Version: h.version, CorrelationID: h.correlationID,
		w: w, conn: c, api: a, place: f.Place, buf: f.Buf, received: w.loop.Now(),
	}
	if rest, err = h.parseClientID(rest, h.version >= a.flexibleFrom); err != nil {
		w.refuse(c, f, err.Error())
		return
	}
	if h.version < a.min || h.version > a.max {
		w.server.stats.unsupported.Add(1)
		r.refuseVersion()
		return
	}
	r.ClientID, r.Payload, r.bytes = h.clientID, rest, len(rest)
	if !a.raw {
		r.Body = kmsg.RequestForKey(h.key)
		r.Body.SetVersion(h.version)
		if err := r.Body.ReadFrom(rest); err != nil {
			w.refuse(c, f, fmt.Sprintf("%s version %d: %v", a.key.Name(), h.version, err))
			return
		}
		if err := checkElements(r.Body, len(rest)); err != nil {
			w.refuse(c, f, fmt.Sprintf("%s version %d: %v", a.key.Name(), h.version, err))
			return
		}
		if err := checkTexts(r.Body, len(rest)); err != nil {
			w.refuse(c, f, fmt.Sprintf("%s version %d: %v", a.key.Name(), h.version, err))
			return
		}
		if w.hasNullArray(r.Body, rest) {
			w.refuse(c, f, fmt.Sprintf("%s version %d: null in place of an array", a.key.Name(), h.version))
			return
		}
	}
	a.serve(r)
}

// refuse closes a connection whose bytes make no sense.
func (w *Worker) refuse(c Conn, f Frame, reason string) {
	w.server.stats.malformed.Add(1)
	f.Buf.Release()
	c.Close(reason)
}

// refuseVersion answers a version outside the table. Only ApiVersions has a
// form for it, so that clients can find a version that both sides know.
func (r *Request) refuseVersion() {
	if r.Key == int16(kmsg.ApiVersions) {
		replyUnknownApiVersion(r)
		return
	}
	r.CloseConn(fmt.Sprintf("%s version %d is not served", r.api.key.Name(), r.Version))
}

// Reply sends resp in the request's version.
func (r *Request) Reply(resp kmsg.Response) {
	resp.SetVersion(r.Version)
	eachError(resp, r.Failed)
	if r.bytes > textBytesMax/quotedGrowth {
		cutTexts(resp)
	}
	flexible := r.Version >= r.api.flexibleFrom && r.Key != int16(kmsg.ApiVersions)
	b := resp.AppendTo(appendReplyHeader(r.w.scratch[:0], r.CorrelationID, flexible))
	setFrameLength(b, len(b))
	if cap(b) > scratchBytesMax {
		r.w.scratch = nil
	} else {
		r.w.scratch, b = b, bytes.Clone(b)
	}
	r.ReplyFrame(Reply{Head: b})
}

// ReplyFrame sends a frame that the handler encoded by itself.
func (r *Request) ReplyFrame(reply Reply) {
	r.end()
	r.conn.Reply(r.place, reply)
}

// Parked gives the request's bytes back while it waits for others: what is kept of
// it is bounded where it waits. Payload is gone then. by may be nil.
func (r *Request) Parked(by Waiter) {
	r.Payload = nil
	r.conn.Parked(r.place, by)
}

// ReplyNothing ends a request that has no response (Produce with acks=0).
func (r *Request) ReplyNothing() { r.ReplyFrame(Reply{}) }

// CloseConn ends the request by closing its connection.
func (r *Request) CloseConn(reason string) {
	r.end()
	r.conn.Close(reason)
}

func (r *Request) end() {
	if r.replied {
		panic("BUG: a second reply to one request")
	}
	r.replied = true
	r.w.stats[r.api.row].observe(r.Now() - r.received)
	r.buf.Release()
	r.buf, r.Payload, r.Body = arena.Buf{}, nil, nil
}

// slice is bytes [begin, end) of Payload with a reference of its own, which
// outlives the request.
func (r *Request) slice(begin, end int) arena.Buf {
	if r.buf.Len() == 0 {
		return arena.Foreign(r.Payload[begin:end:end])
	}
	skip := r.buf.Len() - len(r.Payload) // the header
	return r.buf.Slice(skip+begin, skip+end).Retain()
}

// encodeEndpoints writes the tagged section with the addresses of the brokers
// (tag 0), for answers that name a leader (KIP-951).
func (r *Request) encodeEndpoints(e *encoder) {
	in := encoder{flexible: true}
	brokers := r.Image().Brokers
	in.length(len(brokers))
	for _, b := range brokers {
		host, port := r.BrokerAddr(b)
		in.int32(int32(b.ID))
		in.string(host)
		in.int32(port)
		in.nullableString(b.Rack)
		in.noTags()
	}
	e.b = append(e.b, 1, 0)
	e.uvarint(uint32(len(in.b)))
	e.b = append(e.b, in.b...)
}

// Options are the server's settings.
func (r *Request) Options() *Options { return &r.w.server.opts }

// Image is the newest metadata; an empty one before the first is published.
func (r *Request) Image() *meta.Image {
	if im := r.w.loop.Image(); im != nil {
		return im
	}
	return &emptyImage
}

var emptyImage = meta.Image{Controller: core.NoNode}

// Now is the time of the current turn.
func (r *Request) Now() core.Tick { return r.w.loop.Now() }

// After calls fn on the loop at or after at.
func (r *Request) After(at core.Tick, fn func()) Timer { return r.w.loop.After(at, fn) }

// BrokerAddr is how the client, which came through one of the listeners,
// reaches broker b.
func (r *Request) BrokerAddr(b meta.Broker) (host string, port int32) {
	if o := r.Options(); b.ID == o.Node && o.Advertised != nil {
		if e, ok := o.Advertised(r.conn.Info().Listener); ok {
			return e.Host, e.Port
		}
	}
	return b.Host, b.Port
}

// Client tells state machines who asks.
func (r *Request) Client() core.ClientInfo {
	info := r.conn.Info()
	principal := info.Client.Principal
	if principal == "" {
		principal = AnonymousPrincipal
	}
	return core.ClientInfo{
		ClientID: r.ClientID, Host: info.Host, Principal: principal, Listener: info.Listener,
		APIKey: r.Key, APIVersion: r.Version,
	}
}

// AnonymousPrincipal is who sends requests where nobody has authenticated.
const AnonymousPrincipal = "User:ANONYMOUS"

// resumeFunc is a Continuation that needs no request.
type resumeFunc func()

// Resume implements Continuation.
func (f resumeFunc) Resume(shard.Request) { f() }

// Submit sends q to the owner shard of p; done runs on this loop once q's
// results are set.
func (r *Request) Submit(p core.PartitionID, q shard.Request, done func()) {
	q.Base().Owner = resumeFunc(done)
	r.w.loop.Submit(core.ShardOf(p, r.w.loop.Shards()), q)
}

// Coordinator hands body to the state machine of partition p; done gets the
// machine's reply, or the error that kept it from being asked or recorded.
func (r *Request) Coordinator(p core.PartitionID, body any, done func(reply any, err error)) {
	q := &shard.Coordinate{Partition: p, Command: core.Command{Client: r.Client(), Body: body}}
	r.Submit(p, q, func() {
		err := q.Err
		if err == nil {
			err = q.Command.Err
		}
		done(q.Command.Reply, err)
	})
}

// Controller hands body to the cluster controller's state machine.
func (r *Request) Controller(body any, done func(reply any, err error)) {
	r.Coordinator(core.MetadataPartition, body, done)
}

// AwaitPartitions calls done when this node has applied image version and each
// of parts has a leader that takes appends, or at deadline with an error that
// wraps core.ErrNoLeader.
func (r *Request) AwaitPartitions(version uint64, parts []core.PartitionID, deadline core.Tick, done func(err error)) {
	n := r.w.loop.Shards()
	byShard := make(map[core.ShardID][]core.PartitionID)
	for _, p := range parts {
		s := core.ShardOf(p, n)
		byShard[s] = append(byShard[s], p)
	}
	if len(byShard) == 0 {
		byShard[r.w.loop.Shard()] = nil
	}
	var failed error
	one := Gather(len(byShard), func() { done(failed) })
	for s := range core.ShardID(n) {
		ps, ok := byShard[s]
		if !ok {
			continue
		}
		q := &shard.Await{MinVersion: version, Partitions: ps, Deadline: deadline}
		q.Owner = resumeFunc(func() {
			if failed == nil {
				failed = q.Err
			}
			one()
		})
		r.w.loop.Submit(s, q)
	}
}

// Gather returns a function that calls done when it has been called n times;
// with n = 0 done is called at once.
func Gather(n int, done func()) func() {
	if n == 0 {
		done()
		return func() { panic("BUG: an answer to nothing asked") }
	}
	return func() {
		if n--; n == 0 {
			done()
		} else if n < 0 {
			panic("BUG: more answers than were asked for")
		}
	}
}
