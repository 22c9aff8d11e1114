package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// producerIDs hands out the producer ids of one loop from blocks that it gets
// from the controller, so that most requests need no write.
type producerIDs struct {
	next, end int64
	asking    bool
	waiting   []*Request // for the block that was asked for
}

// serveInitProducerID gives an idempotent producer its id (KIP-98, KIP-360). Ids
// are never used twice, and a producer without a transactional id always gets a
// new one, with epoch 0: it raises its own epoch in the log, by sending it.
//
// Transactional ids are refused with INVALID_REQUEST: clients report it at once
// and do not retry, as they would for a coordinator that is not available.
func serveInitProducerID(r *Request) {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	switch {
	case req.TransactionalID != nil:
		r.replyProducerID(-1, codeInvalidRequest)
	case r.Version >= 3 && (req.ProducerID == -1) != (req.ProducerEpoch == -1):
		r.replyProducerID(-1, codeInvalidRequest)
	default:
		r.w.producers.give(r)
	}
}

func (r *Request) replyProducerID(id int64, code int16) {
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, id, -1
	if code == codeNone {
		resp.ProducerEpoch = 0
	}
	r.Reply(resp)
}

func (p *producerIDs) give(r *Request) {
	if p.next < p.end {
		p.next++
		r.replyProducerID(p.next-1, codeNone)
		return
	}
	p.waiting = append(p.waiting, r)
	if p.asking {
		return
	}
	p.asking = true
	r.Controller(meta.AllocateProducerIDs{}, p.answered)
}

// answered serves the requests that waited for a block; those that it does not
// reach ask for the next one.
func (p *producerIDs) answered(reply any, err error) {
	p.asking = false
	waiting := p.waiting
	p.waiting = nil
	if err != nil {
		code := ErrorCode(err)
		if code == codeNotLeaderOrFollower {
			code = codeCoordinatorNotAvailable // looked up again by every client
		}
		for _, r := range waiting {
			r.replyProducerID(-1, code)
		}
		return
	}
	block := reply.(meta.ProducerIDBlock)
	p.next, p.end = block.First, block.First+int64(block.Count)
	for _, r := range waiting {
		p.give(r)
	}
}

// leaderOf gives what clients are told of a partition's leadership: a node that
// is listed among the brokers, or none.
func leaderOf(im *meta.Image, p *meta.Partition) (leader core.NodeID, epoch core.Term) {
	leader, epoch = p.Leader.Get()
	if leader != core.NoNode && brokerOf(im, leader) == nil {
		leader = core.NoNode
	}
	return leader, epoch
}

func brokerOf(im *meta.Image, id core.NodeID) *meta.Broker {
	for i := range im.Brokers {
		if im.Brokers[i].ID == id {
			return &im.Brokers[i]
		}
	}
	return nil
}
