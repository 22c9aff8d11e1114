package group

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
)

// FuzzDecodeRecord feeds foreign bytes to the decoder of the log. What it accepts
// must mean the same after it is written again.
//
//fuzz:parses log.go:decodeRecord,decodeOffset,decodeGroup,valueVersion group.go:restore
func FuzzDecodeRecord(f *testing.F) {
	at := topicPartition{"topic", 3}
	for _, c := range []*committed{
		nil,
		{offset: 5, leaderEpoch: 2, metadata: "m", commitMs: 1000, expireMs: -1},
		{offset: 5, leaderEpoch: 2, metadata: "m", commitMs: 1000, expireMs: -1, topicID: core.TopicID{1}},
		{offset: 5, leaderEpoch: 2, metadata: "m", commitMs: 1000, expireMs: -1, topicID: core.TopicID{1}, image: 12345},
		{offset: 5, leaderEpoch: -1, commitMs: 1000, expireMs: 2000},
	} {
		r := encodeOffset("group", at, c)
		f.Add(r.Key, r.Value, c != nil)
	}
	g := newLiveGroup("group", new(int))
	g.protocolType, g.protocol, g.generation, g.state = consumerProtocol, "range", 3, stateStable
	g.add(&member{id: "a", clientID: "c", clientHost: "/h", sessionMs: 1, protocols: []protocol{{"range", []byte("s")}}, assignment: []byte("a")})
	g.add(&member{id: "b", static: true, instance: "i", protocols: []protocol{{"range", nil}}})
	r := g.record()
	f.Add(r.Key, r.Value, true)
	f.Fuzz(func(t *testing.T, key, value []byte, live bool) {
		r := core.Record{Key: key}
		if live {
			r.Value = append([]byte{}, value...)
		}
		d, err := decodeRecord(r)
		if err != nil {
			return
		}
		switch {
		case d.isOffset:
			again, err := decodeRecord(encodeOffset(d.group, d.at, d.offset))
			if err != nil || again.group != d.group || again.at != d.at || (again.offset == nil) != (d.offset == nil) {
				t.Fatalf("%+v became %+v: %v", d, again, err)
			}
			if d.offset != nil && d.offset.expireMs == -1 && d.offset.leaderEpoch == -1 && (again.offset.offset != d.offset.offset || again.offset.metadata != d.offset.metadata) {
				t.Fatalf("%+v became %+v", d.offset, again.offset)
			}
		case d.metadata != nil:
			again, err := decodeRecord(core.Record{Key: groupKey(d.group), Value: d.metadata.AppendTo(nil)})
			if err != nil || !bytes.Equal(again.metadata.AppendTo(nil), d.metadata.AppendTo(nil)) {
				t.Fatalf("%+v became %+v: %v", d.metadata, again.metadata, err)
			}
			// A new leader must get along with whatever is there.
			if text := restore(d.group, d.metadata, new(int)).consistentFields(); text != "" {
				t.Fatal(text)
			}
		}
	})
}

// consistentFields is consistent without what only a Machine sets.
func (g *liveGroup) consistentFields() string {
	for _, mb := range g.members {
		mb.session.pos = 0
	}
	return g.consistent()
}

// FuzzSubscribedTopics feeds foreign bytes to the reader of subscriptions.
//
//fuzz:parses subscription.go
func FuzzSubscribedTopics(f *testing.F) {
	f.Add(subscription([]string{"t1", "topic-2"}))
	f.Add(subscription(nil))
	v3 := kmsg.NewConsumerMemberMetadata()
	v3.Version, v3.Topics, v3.Generation = 3, []string{"a", "b"}, 7
	f.Add(v3.AppendTo(nil))
	f.Add([]byte{0, 0, 255, 255, 255, 255})
	f.Add([]byte{0, 0, 127, 255, 255, 255, 0, 1, 'x'})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := topicsOf(b)
		if !ok {
			return
		}
		size := 6
		for _, s := range topics {
			size += 2 + len(s)
		}
		if size > len(b) {
			t.Fatalf("%d bytes of topics out of %d", size, len(b))
		}
		if again, ok := topicsOf(subscription(nil)); !ok || len(again) != 0 {
			t.Fatal("no topics are a subscription too")
		}
	})
}
