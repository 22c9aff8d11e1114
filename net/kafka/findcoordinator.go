package kafka

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// Kinds of keys that a coordinator is looked up for.
const (
	coordinatorGroup int8 = 0
	coordinatorTxn   int8 = 1
)

// offsetsTopicWait is how long a lookup waits for the internal topic that it
// made.
const offsetsTopicWait = 10_000

// serveFindCoordinator tells which broker coordinates a group: the leader of
// its partition of the internal topic, which is made when first asked for. The
// answer has exactly one entry for each key asked for, in order, and echoes it (see
// mentionsMax for keys that are named again and again).
//
// Transactional ids and share groups are refused with a text, see refusal.
func serveFindCoordinator(r *Request) {
	req := r.Body.(*kmsg.FindCoordinatorRequest)
	keys := req.CoordinatorKeys
	if r.Version < 4 {
		keys = []string{req.CoordinatorKey}
	}
	keys = slices.DeleteFunc(keys, make(mentions[string]).tooMany)
	if r.Version >= 1 && req.CoordinatorType != coordinatorGroup {
		refused := refusal(r.Version, req.CoordinatorType)
		r.replyCoordinators(keys, func(string) coordinator { return refused })
		return
	}
	r.withOffsetsTopic(func(err error) {
		r.replyCoordinators(keys, func(group string) coordinator { return r.groupCoordinator(group, err) })
	})
}

// refusal is the answer for a kind of coordinator that is not served, which
// clients are to report at once. Those that ask in the versions before 4 take
// every code but those of authorization for one that passes, and librdkafka asks
// again until the caller's time is over; Java's client (version 4 and later) shows
// the text with INVALID_REQUEST and hides it with an authorization code.
func refusal(version int16, kind int8) coordinator {
	if kind != coordinatorTxn {
		return coordinator{code: codeInvalidRequest, text: fmt.Sprintf("coordinators of type %d are not served", kind)}
	}
	c := coordinator{code: codeInvalidRequest, text: "transactions are not served: produce without a transactional id"}
	if version < 4 {
		c.code = codeTransactionalIDAuthFailed
	}
	return c
}

type coordinator struct {
	node core.NodeID
	host string
	port int32
	code int16
	text string
}

// withOffsetsTopic calls done when the internal topic exists here, after making
// it if it does not.
func (r *Request) withOffsetsTopic(done func(err error)) {
	if r.Image().Topic(offsetsTopic) != nil {
		done(nil)
		return
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = offsetsTopicWait
	req.Topics = []kmsg.CreateTopicsRequestTopic{offsetsTopicSpec(r.Options())}
	r.change(req, offsetsTopicWait, func(_ *meta.Applied, err error) { done(err) })
}

// offsetsTopicSpec is how the internal topic is made.
func offsetsTopicSpec(o *Options) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic = offsetsTopic
	t.NumPartitions, t.ReplicationFactor = o.OffsetsTopicPartitions, o.OffsetsTopicReplicationFactor
	for _, kv := range offsetsTopicConfigs {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = kv[0], kmsg.StringPtr(kv[1])
		t.Configs = append(t.Configs, c)
	}
	return t
}

// offsetsTopicConfigs are Kafka's for the same topic. The coordinators trim the
// log by themselves, so nothing deletes by age.
var offsetsTopicConfigs = [][2]string{{"cleanup.policy", "compact"}, {"compression.type", "producer"}, {"segment.bytes", "104857600"}}

// groupCoordinator finds the coordinator of one group.
func (r *Request) groupCoordinator(group string, err error) coordinator {
	unavailable := coordinator{code: codeCoordinatorNotAvailable, text: "the coordinator is not available"}
	t := r.Image().Topic(offsetsTopic)
	if t == nil || len(t.Partitions) == 0 {
		if err != nil {
			unavailable.text = err.Error()
		}
		return unavailable
	}
	leader, _ := leaderOf(r.Image(), t.Partitions[core.GroupPartition(group, len(t.Partitions))])
	b := brokerOf(r.Image(), leader)
	if b == nil {
		return unavailable
	}
	c := coordinator{node: leader}
	c.host, c.port = r.BrokerAddr(*b)
	return c
}

func (r *Request) replyCoordinators(keys []string, find func(key string) coordinator) {
	resp := kmsg.NewPtrFindCoordinatorResponse()
	for _, key := range keys {
		c := find(key)
		if c.code != codeNone {
			c.node, c.port = core.NoNode, -1
		}
		text := &c.text
		if r.Version < 4 {
			if c.code == codeNone {
				text = kmsg.StringPtr("NONE") // as Kafka has it
			}
			resp.ErrorCode, resp.ErrorMessage = c.code, text
			resp.NodeID, resp.Host, resp.Port = int32(c.node), c.host, c.port
			break
		}
		rc := kmsg.NewFindCoordinatorResponseCoordinator()
		rc.Key, rc.ErrorCode, rc.ErrorMessage = key, c.code, text
		rc.NodeID, rc.Host, rc.Port = int32(c.node), c.host, c.port
		resp.Coordinators = append(resp.Coordinators, rc)
	}
	r.Reply(resp)
}
