package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core/meta"
)

// serveDeleteTopics removes topics by name, since version 6 also by ID
// (KIP-516), and then the offsets that groups committed for them.
func serveDeleteTopics(r *Request) {
	req := r.Body.(*kmsg.DeleteTopicsRequest)
	if !r.Options().Config().Bool("delete.topic.enable") {
		code := codeTopicDeletionDisabled
		if r.Version < 3 {
			code = codeInvalidRequest
		}
		r.Reply(refuseDeleteTopics(req, code, "Topic deletion is disabled."))
		return
	}
	r.change(req, req.TimeoutMillis, func(applied *meta.Applied, err error) {
		if applied == nil {
			r.Reply(refuseDeleteTopics(req, ControllerErrorCode(err), err.Error()))
			return
		}
		resp := applied.Reply.(*kmsg.DeleteTopicsResponse)
		var gone []string
		for _, t := range resp.Topics {
			if t.ErrorCode == codeNone && t.Topic != nil {
				gone = append(gone, *t.Topic)
			}
		}
		r.forgetOffsets(gone, func() { r.Reply(resp) })
	})
}

// forgetOffsets tells all coordinators that topics are gone. One that cannot be
// told finds out when it next looks for expired offsets.
func (r *Request) forgetOffsets(topics []string, done func()) {
	var parts = r.allCoordinators()
	if len(topics) == 0 {
		parts = nil
	}
	one := Gather(len(parts), done)
	for _, p := range parts {
		r.Coordinator(p, meta.TopicsDeleted{Names: topics}, func(_ any, err error) {
			if err != nil && !elsewhere(err) {
				r.Options().Logf("offsets of deleted topics %v stay in one partition of %s until its next look for expired offsets: %v", topics, offsetsTopic, err)
			}
			one()
		})
	}
}

func refuseDeleteTopics(req *kmsg.DeleteTopicsRequest, code int16, msg string) kmsg.Response {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		rt := kmsg.NewDeleteTopicsResponseTopic()
		rt.Topic, rt.TopicID, rt.ErrorCode, rt.ErrorMessage = name, id, code, kmsg.StringPtr(msg)
		resp.Topics = append(resp.Topics, rt)
	}
	for _, name := range req.TopicNames {
		add(kmsg.StringPtr(name), [16]byte{})
	}
	for _, t := range req.Topics {
		add(t.Topic, t.TopicID)
	}
	return resp
}
