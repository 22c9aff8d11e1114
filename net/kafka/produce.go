package kafka

import (
	"fmt"
	"slices"

	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

const (
	// Lower versions are advertised, since librdkafka takes a broker without them
	// for one without compression, and close the connection, as in Kafka.
	produceFirstServed  = 3
	produceFlexible     = 9  // KIP-482
	produceRecordErrors = 8  // KIP-467
	produceLeaderTags   = 10 // KIP-951
	produceTopicIDs     = 13 // KIP-516
	produceZstd         = 7  // KIP-110
)

// produce is one Produce request under way. Stages: decode -> route -> check (one
// shard.Produce per partition), and as each comes back Resume; reply when all have,
// or at the request's timeout. Records stay where the request was read to, in arena
// memory: every shard.Produce holds a reference to its piece of it.
type produce struct {
	r       *Request
	acks    int16
	timeout int32
	topics  []produceTopic
	waiting int
	timer   Timer
	done    bool

	// Most requests have one topic and one partition: they are here, and take no
	// allocation of their own.
	oneTopic [1]produceTopic
	onePart  [1]producePart
}

type produceTopic struct {
	name  []byte // up to version 12
	id    core.TopicID
	parts []producePart
}

type producePart struct {
	q     shard.Produce
	owner *produce
	num   int32
	// Records lie at [begin, end) of the request's payload; begin is -1 for null.
	begin, end int
	code       int16
	text       string
	answered   bool
}

// serveProduce answers Produce.
func serveProduce(r *Request) {
	if r.Version < produceFirstServed {
		r.CloseConn(fmt.Sprintf("Produce version %d is advertised and not served: the oldest is %d", r.Version, produceFirstServed))
		return
	}
	p := &produce{r: r}
	if err := p.decode(); err != nil {
		r.CloseConn(fmt.Sprintf("Produce version %d: %v", r.Version, err))
		return
	}
	p.route()
	if p.waiting == 0 {
		p.reply()
		return
	}
	if p.acks == -1 && p.timeout > 0 {
		p.timer = r.After(r.Now()+core.Tick(p.timeout)*core.Millisecond, p.onTimeout)
	}
}

func (p *produce) decode() error {
	r := p.r
	d := decoder{b: r.Payload, flexible: r.Version >= produceFlexible}
	_, transactional := d.string()
	p.acks, p.timeout = d.int16(), d.int32()
	if n := d.array(3); n == 1 {
		p.topics = p.oneTopic[:]
	} else {
		p.topics = make([]produceTopic, n)
	}
	for i := range p.topics {
		t := &p.topics[i]
		if r.Version >= produceTopicIDs {
			copy(t.id[:], d.take(len(t.id)))
		} else {
			t.name = d.mustString()
		}
		if n := d.array(5); n == 1 && len(p.topics) == 1 {
			t.parts = p.onePart[:]
		} else {
			t.parts = make([]producePart, n)
		}
		for k := range t.parts {
			part := &t.parts[k]
			part.owner, part.num = p, d.int32()
			part.begin, part.end = d.bytes(r.Payload)
			d.tags()
			if d.err != nil {
				break
			}
			part.q.Acks, part.q.Transactional = p.acks, transactional
			part.q.BaseOffset, part.q.AppendTimeMs, part.q.LogStart = -1, -1, -1
		}
		d.tags()
		if d.err != nil {
			break
		}
	}
	d.tags()
	// Topics without partitions are not answered.
	p.topics = slices.DeleteFunc(p.topics, func(t produceTopic) bool { return len(t.parts) == 0 })
	return d.err
}

// check admits one partition's records by what Produce itself asks of them, in
// Kafka's order; the shard verifies the batch. On success the part holds its
// piece of the request.
func (part *producePart) check(r *Request) {
	if part.begin < 0 || part.begin == part.end {
		part.refuse(codeInvalidRecord, "a produce request must have at least one record batch per partition")
		return
	}
	b, rest, err := core.NextBatch(r.Payload[part.begin:part.end])
	acks := part.q.Acks
	switch {
	case err != nil:
		part.refuse(codeInvalidRecord, err.Error()) // not one whole batch
	case b.Magic() != 2:
		part.refuse(codeInvalidRecord, fmt.Sprintf("record batches of format %d are not served, the format is 2", b.Magic()))
	case b.Codec() == 4 && r.Version < produceZstd:
		part.refuse(codeUnsupportedCompression, "zstd needs version 7 of the produce request")
	case len(rest) > 0:
		part.refuse(codeInvalidRecord, "a produce request may hold exactly one record batch per partition")
	case acks < -1 || acks > 1:
		part.refuse(codeInvalidRequiredAcks, "")
	default:
		part.q.Records = r.slice(part.begin, part.end)
	}
}

func (part *producePart) refuse(code int16, text string) {
	part.code, part.text, part.answered = code, text, true
}

// route sends each partition's records to its shard.
func (p *produce) route() {
	im := p.r.Image()
	for i := range p.topics {
		t := &p.topics[i]
		topic, unknown := p.find(im, t)
		for k := range t.parts {
			part := &t.parts[k]
			if topic == nil || part.num < 0 || int(part.num) >= len(topic.Partitions) {
				part.refuse(unknown, "")
				continue
			}
			if part.check(p.r); part.answered {
				continue
			}
			if topic.Internal {
				// Its log is a state machine's, which alone may write it.
				part.q.Records.Release()
				part.refuse(codeInvalidTopic, "cannot append to internal topic "+topic.Name)
				continue
			}
			part.q.Partition = topic.Partitions[part.num].ID
			part.q.Owner = part
			p.waiting++
		}
	}
	loop := p.r.w.loop
	// A shard answers in a later turn at the earliest, so waiting is complete.
	for i := range p.topics {
		parts := p.topics[i].parts
		for k := range parts {
			if part := &parts[k]; !part.answered {
				loop.Submit(core.ShardOf(part.q.Partition, loop.Shards()), &part.q)
			}
		}
	}
}

func (p *produce) find(im *meta.Image, t *produceTopic) (topic *meta.Topic, unknown int16) {
	if p.r.Version >= produceTopicIDs {
		if topic = im.TopicByID(t.id); topic == nil {
			return nil, codeUnknownTopicID
		}
	} else {
		topic = im.Topic(string(t.name))
	}
	return topic, codeUnknownTopicOrPartition
}

// Resume implements Continuation: one partition is answered.
func (part *producePart) Resume(shard.Request) {
	p := part.owner
	p.waiting--
	if p.done {
		return // its client was told that the request timed out
	}
	part.answered = true
	if err := part.q.Err; err != nil {
		part.code, part.text = ErrorCode(err), err.Error()
	}
	if p.waiting == 0 {
		p.reply()
	}
}

// onTimeout answers for the partitions that are not committed in time; they may
// still be (Kafka's REQUEST_TIMED_OUT says no more).
func (p *produce) onTimeout() {
	p.timer = nil
	for i := range p.topics {
		for k := range p.topics[i].parts {
			if part := &p.topics[i].parts[k]; !part.answered {
				part.code, part.text = codeRequestTimedOut, "not committed within the request's timeout"
			}
		}
	}
	p.reply()
}

func (p *produce) reply() {
	p.done = true
	if p.timer != nil {
		p.timer.Stop()
	}
	failed := codeNone
	for i := range p.topics {
		for k := range p.topics[i].parts {
			code := p.topics[i].parts[k].code
			p.r.Failed(code)
			if failed == codeNone {
				failed = code
			}
		}
	}
	if p.acks != 0 {
		p.r.ReplyFrame(Reply{Head: p.encode()})
		return
	}
	if failed != codeNone {
		// The only way to tell a client that waits for no answer.
		p.r.CloseConn(fmt.Sprintf("a produce request with acks=0 failed with %s", errorName(failed)))
		return
	}
	p.r.ReplyNothing()
}

func (p *produce) encode() []byte {
	r := p.r
	flexible := r.Version >= produceFlexible
	e := encoder{b: appendReplyHeader(make([]byte, 0, 64+96*len(p.topics)), r.CorrelationID, flexible), flexible: flexible}
	leaders := false
	e.length(len(p.topics))
	for i := range p.topics {
		t := &p.topics[i]
		if r.Version >= produceTopicIDs {
			e.b = append(e.b, t.id[:]...)
		} else {
			e.string(string(t.name))
		}
		e.length(len(t.parts))
		for k := range t.parts {
			leaders = t.parts[k].encode(&e, r.Version) || leaders
		}
		e.noTags()
	}
	e.int32(0) // throttle
	if flexible && leaders {
		r.encodeEndpoints(&e)
	} else {
		e.noTags()
	}
	setFrameLength(e.b, len(e.b))
	return e.b
}

// encode writes one partition's answer, and says whether it names a leader. The
// results of a part that is not answered yet still belong to its shard.
func (part *producePart) encode(e *encoder, version int16) (leader bool) {
	base, appendTime, logStart := core.Offset(-1), int64(-1), core.Offset(-1)
	var records []shard.RecordError
	current, epoch := core.NoNode, core.Term(0)
	if part.answered {
		logStart, records = part.q.LogStart, part.q.RecordErrors
		current, epoch = part.q.CurrentLeader, part.q.CurrentEpoch
		if part.code == codeNone {
			base, appendTime = part.q.BaseOffset, part.q.AppendTimeMs
		}
	}
	e.int32(part.num)
	e.int16(part.code)
	e.int64(int64(base))
	e.int64(appendTime)
	if version >= 5 {
		e.int64(int64(logStart))
	}
	if version >= produceRecordErrors {
		e.length(len(records))
		for _, re := range records {
			e.int32(re.Index)
			e.nullableString(re.Message)
			e.noTags()
		}
		e.nullableString(part.text)
	}
	if version < produceFlexible {
		return false
	}
	if version >= produceLeaderTags && part.code == codeNotLeaderOrFollower && current > 0 {
		e.b = append(e.b, 1)
		e.leaderTag(0, int32(current), int32(epoch))
		return true
	}
	e.noTags()
	return false
}
