package kafka

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
	"millrace/shard"
)

func metadataFor(names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// topicsOf lists the topics of an answer with their errors.
func topicsOf(resp *kmsg.MetadataResponse) string {
	s := ""
	for _, t := range resp.Topics {
		name := "?"
		if t.Topic != nil {
			name = *t.Topic
		}
		s += fmt.Sprintf("[%s e%d p%d]", name, t.ErrorCode, len(t.Partitions))
	}
	return s
}

func TestMetadataSelectsTopics(t *testing.T) {
	all := kmsg.NewPtrMetadataRequest()
	byID := kmsg.NewPtrMetadataRequest()
	for _, id := range []byte{2, 77} {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = core.TopicID{15: id}
		byID.Topics = append(byID.Topics, rt)
	}
	both := metadataFor("t", "a")
	both.Topics[1].TopicID = core.TopicID{15: 1}
	nothing := metadataFor("t", "a")
	nothing.Topics[1].Topic = nil
	for _, c := range []struct {
		name    string
		req     *kmsg.MetadataRequest
		version int16
		want    string
	}{
		{"all in version 0", metadataFor(), 0, "[a e0 p2][t e0 p4]"},
		{"none", metadataFor(), 1, ""},
		{"all", all, 1, "[a e0 p2][t e0 p4]"},
		{"all in the newest", all, 13, "[a e0 p2][t e0 p4]"},
		{"by name", metadataFor("t", "nope", "t"), 9, "[t e0 p4][nope e3 p0]"},
		{"bad names", metadataFor("a b", "", ".."), 9, "[a b e17 p0][ e17 p0][.. e17 p0]"},
		{"by id", byID, 12, "[a e0 p2][? e100 p0]"},
		{"by id twice", twice(byID), 13, "[a e0 p2][? e100 p0]"},
		{"by id before its time", byID, 11, "[ e42 p0][ e42 p0]"},
		{"by id and name", both, 12, "[t e0 p4]"},
		{"by id and name before its time", both, 10, "[t e42 p0][a e42 p0]"},
		{"by neither", nothing, 12, "[t e-1 p0][ e-1 p0]"},
		{"by neither, in the old way", nothing, 11, "[t e42 p0][ e42 p0]"},
	} {
		f := newFixture(t)
		f.loop.image = testImage(testTopic("t", 1, 4), testTopic("a", 2, 2))
		c.req.AllowAutoTopicCreation = false
		resp := f.ask(c.req, c.version).(*kmsg.MetadataResponse)
		if got := topicsOf(resp); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		refused := len(resp.Topics) > 0 && (resp.Topics[0].ErrorCode == -1 || resp.Topics[0].ErrorCode == codeInvalidRequest)
		if refused {
			continue // tells nothing else
		}
		if len(resp.Brokers) != 1 || resp.Brokers[0].Host != "broker.test" {
			t.Errorf("%s: brokers %+v", c.name, resp.Brokers)
		}
	}
}

func twice(req *kmsg.MetadataRequest) *kmsg.MetadataRequest {
	out := *req
	out.Topics = append(out.Topics[:len(out.Topics):len(out.Topics)], out.Topics...)
	return &out
}

func TestMetadataNeverNamesALeaderThatIsNotListed(t *testing.T) {
	f := newFixture(t)
	topic := f.loop.image.Topic("t")
	topic.Partitions[1].Leader.Set(5, 9)
	topic.Partitions[2].Leader.Set(core.NoNode, 4)
	resp := f.ask(metadataFor("t"), 9).(*kmsg.MetadataResponse)
	got := ""
	for _, p := range resp.Topics[0].Partitions {
		got += fmt.Sprintf("[%d e%d leader %d]", p.Partition, p.ErrorCode, p.Leader)
	}
	if want := "[0 e0 leader 1][1 e5 leader -1][2 e5 leader -1][3 e0 leader 1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestMetadataTellsTheAddressOfTheListenerUsed(t *testing.T) {
	f := newFixture(t)
	f.server.opts.Advertised = func(listener string) (Endpoint, bool) {
		return Endpoint{"outside.test", 19000}, listener == "OUTSIDE"
	}
	f.conn.info.Listener = "OUTSIDE"
	b := f.ask(metadataFor("t"), 9).(*kmsg.MetadataResponse).Brokers[0]
	if b.Host != "outside.test" || b.Port != 19000 {
		t.Errorf("told %s:%d", b.Host, b.Port)
	}
}

// creating plays a controller that makes the topics asked for, except those
// with a code in refuse.
func creating(f *fixture, refuse map[string]int16) *[]string {
	var asked []string
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		c, ok := q.(*shard.Coordinate)
		if !ok {
			return true // Await
		}
		req := c.Command.Body.(*kmsg.CreateTopicsRequest)
		resp := kmsg.NewPtrCreateTopicsResponse()
		applied := &meta.Applied{Reply: resp, Version: f.loop.image.Version + 1}
		for _, in := range req.Topics {
			asked = append(asked, fmt.Sprintf("%s/%d/%d", in.Topic, in.NumPartitions, in.ReplicationFactor))
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic = in.Topic
			if rt.ErrorCode = refuse[in.Topic]; rt.ErrorCode == 0 {
				topic := testTopic(in.Topic, byte(10+len(asked)), int(max(in.NumPartitions, 1)))
				f.loop.image = f.loop.image.WithTopic(topic)
				applied.NewPartitions = append(applied.NewPartitions, topic.Partitions[0].ID)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		c.Command.Reply = applied
		return true
	}
	return &asked
}

func TestMetadataMakesTopicsOnDemand(t *testing.T) {
	f := newFixture(t)
	asked := creating(f, map[string]int16{"refused": codePolicyViolation})
	req := metadataFor("t", "new", "bad name", "refused", "new", offsetsTopic)
	req.AllowAutoTopicCreation = true
	resp := f.ask(req, 9).(*kmsg.MetadataResponse)
	if got, want := fmt.Sprint(*asked), "[new/-1/-1 refused/-1/-1 __consumer_offsets/4/1]"; got != want {
		t.Errorf("asked for %s, want %s", got, want)
	}
	if got, want := topicsOf(resp), "[t e0 p4][new e3 p0][bad name e17 p0][refused e44 p0][__consumer_offsets e3 p0]"; got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
	resp = f.ask(metadataFor("new", offsetsTopic), 9).(*kmsg.MetadataResponse)
	if got, want := topicsOf(resp), "[new e0 p1][__consumer_offsets e0 p4]"; got != want {
		t.Errorf("asked again it answered %s, want %s", got, want)
	}
}

func TestMetadataMakesNoTopicsWithoutLeave(t *testing.T) {
	for name, edit := range map[string]func(*fixture, *kmsg.MetadataRequest){
		"the request does not allow it": func(_ *fixture, r *kmsg.MetadataRequest) { r.AllowAutoTopicCreation = false },
		"the setting is off":            func(f *fixture, _ *kmsg.MetadataRequest) { f.server.opts.AutoCreateTopics = false },
	} {
		f := newFixture(t)
		asked := creating(f, nil)
		req := metadataFor("new")
		req.AllowAutoTopicCreation = true
		edit(f, req)
		if got := topicsOf(f.ask(req, 9).(*kmsg.MetadataResponse)); got != "[new e3 p0]" || len(*asked) > 0 {
			t.Errorf("%s: %s, asked for %s", name, got, *asked)
		}
	}
}

func TestMetadataSaysWhenATopicIsNotReadyYet(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		q.Base().Err = core.ErrNoLeader
		return true
	}
	req := metadataFor("new")
	req.AllowAutoTopicCreation = true
	if got := topicsOf(f.ask(req, 9).(*kmsg.MetadataResponse)); got != "[new e5 p0]" {
		t.Errorf("answered %s", got)
	}
}

func TestDescribeTopicPartitionsPages(t *testing.T) {
	f := newFixture(t)
	f.loop.image = testImage(testTopic("t", 1, 4), testTopic("a", 2, 2))
	var got []string
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 3
	for range 10 {
		resp := f.ask(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
		page := ""
		for _, rt := range resp.Topics {
			for _, p := range rt.Partitions {
				page += fmt.Sprint(*rt.Topic, p.Partition, " ")
			}
		}
		got = append(got, page)
		if resp.NextCursor == nil {
			break
		}
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &c
	}
	if want := "[a0 a1 t0  t1 t2 t3 ]"; fmt.Sprint(got) != want {
		t.Errorf("pages %s, want %s", fmt.Sprint(got), want)
	}
}

// TestDescribeTopicPartitionsGoesOnBehindADeletedTopic deletes the topic of the
// cursor between two pages; the next topic begins with its first partition.
func TestDescribeTopicPartitionsGoesOnBehindADeletedTopic(t *testing.T) {
	f := newFixture(t)
	f.loop.image = testImage(testTopic("t", 1, 2))
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 10
	for _, name := range []string{"gone", "t"} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cursor.Topic, cursor.Partition = "gone", 1
	req.Cursor = &cursor
	resp := f.ask(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
	if len(resp.Topics) != 2 || resp.Topics[0].ErrorCode != codeUnknownTopicOrPartition || len(resp.Topics[1].Partitions) != 2 {
		t.Errorf("%+v", resp.Topics)
	}
}

func TestDescribeTopicPartitionsBounds(t *testing.T) {
	for _, c := range []struct {
		limit, cursor int32
		want          string
	}{
		{4, 0, "[t e0 p4]"},
		{2, 1, "[t e0 p2] next t 3"},
		{1, 0, "[t e0 p1] next t 1"},
		{0, 0, "[t e0 p1] next t 1"},
		{-5, 3, "[t e0 p1]"},
		{4, 4, "[t e0 p0]"},
		{4, -1, "[t e42 p0]"},
	} {
		f := newFixture(t)
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = "t"
		req.Topics = append(req.Topics, rt)
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = "t", c.cursor
		req.Cursor, req.ResponsePartitionLimit = &cursor, c.limit
		resp := f.ask(req, 0).(*kmsg.DescribeTopicPartitionsResponse)
		got := ""
		for _, rt := range resp.Topics {
			got += fmt.Sprintf("[%s e%d p%d]", *rt.Topic, rt.ErrorCode, len(rt.Partitions))
		}
		if n := resp.NextCursor; n != nil {
			got += fmt.Sprintf(" next %s %d", n.Topic, n.Partition)
		}
		if got != c.want {
			t.Errorf("limit %d from %d: %s, want %s", c.limit, c.cursor, got, c.want)
		}
	}
}

func TestFindCoordinatorMakesTheInternalTopicOnce(t *testing.T) {
	for v := int16(0); v <= 6; v++ {
		f := newFixture(t)
		asked := creating(f, nil)
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = "g1", []string{"g1", "g2", "g1"}
		for range 2 {
			resp := f.ask(req, v).(*kmsg.FindCoordinatorResponse)
			if v < 4 {
				if resp.ErrorCode != 0 || resp.NodeID != 1 || resp.Host != "broker.test" {
					t.Errorf("version %d: %+v", v, resp)
				}
				continue
			}
			keys := ""
			for _, c := range resp.Coordinators {
				keys += c.Key
				if c.ErrorCode != 0 || c.NodeID != 1 || c.Port != 9092 {
					t.Errorf("version %d: %+v", v, c)
				}
			}
			if keys != "g1g2g1" {
				t.Errorf("version %d: answered for %s", v, keys)
			}
		}
		if fmt.Sprint(*asked) != "[__consumer_offsets/4/1]" {
			t.Errorf("version %d: asked for %s", v, *asked)
		}
	}
}

func TestFindCoordinatorErrors(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		q.Base().Err = core.ErrNoLeader
		return true
	}
	for typ, want := range map[int8]int16{0: codeCoordinatorNotAvailable, 1: codeInvalidRequest, 2: codeInvalidRequest, 9: codeInvalidRequest} {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKeys = typ, []string{"k"}
		c := f.ask(req, 6).(*kmsg.FindCoordinatorResponse).Coordinators[0]
		if c.ErrorCode != want || c.NodeID != -1 || c.ErrorMessage == nil {
			t.Errorf("type %d: %+v, want error %d", typ, c, want)
		}
	}
}

// TestTransactionsAreRefusedByWhatClientsTakeForFinal: librdkafka (version 2)
// repeats the lookup on every code but two, Java's client (version 6) shows the
// text of INVALID_REQUEST alone.
func TestTransactionsAreRefusedByWhatClientsTakeForFinal(t *testing.T) {
	f := newFixture(t)
	for v := int16(1); v <= 6; v++ {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = coordinatorTxn, "tx", []string{"tx"}
		resp := f.ask(req, v).(*kmsg.FindCoordinatorResponse)
		code, text, want := resp.ErrorCode, resp.ErrorMessage, codeTransactionalIDAuthFailed
		if v >= 4 {
			code, text, want = resp.Coordinators[0].ErrorCode, resp.Coordinators[0].ErrorMessage, codeInvalidRequest
		}
		if code != want || text == nil || !strings.Contains(*text, "transactions are not served") {
			t.Errorf("version %d: error %d, text %v, want error %d", v, code, text, want)
		}
	}
}

func TestProducerIDsComeFromBlocksAndNeverTwice(t *testing.T) {
	f := newFixture(t)
	blocks := int64(0)
	f.loop.answer = func(to core.ShardID, q shard.Request) bool {
		c := q.(*shard.Coordinate)
		if _, ok := c.Command.Body.(meta.AllocateProducerIDs); !ok || c.Partition != core.MetadataPartition || to != 0 {
			t.Errorf("asked shard %d partition %d for %T", to, c.Partition, c.Command.Body)
		}
		c.Command.Reply = meta.ProducerIDBlock{First: 1000 * blocks, Count: 3}
		blocks++
		return true
	}
	req := kmsg.NewPtrInitProducerIDRequest()
	var places []uint64
	for range 8 { // all before the first block comes
		places = append(places, f.serve(frameBytes(req, 5)))
	}
	f.loop.run()
	seen := make(map[int64]bool)
	for _, p := range places {
		resp := f.response(p, req).(*kmsg.InitProducerIDResponse)
		if resp.ErrorCode != 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Errorf("answered %+v", resp)
		}
		seen[resp.ProducerID] = true
	}
	if blocks != 3 {
		t.Errorf("%d blocks of 3 for 8 producers", blocks)
	}
}

func TestInitProducerIDRefusals(t *testing.T) {
	tx := "tx"
	for _, c := range []struct {
		name  string
		tx    *string
		id    int64
		epoch int16
		err   error
		want  int16
	}{
		{"transactional", &tx, -1, -1, nil, codeInvalidRequest},
		{"empty transactional id", new(string), -1, -1, nil, codeInvalidRequest},
		{"id without epoch", nil, 5, -1, nil, codeInvalidRequest},
		{"epoch without id", nil, -1, 5, nil, codeInvalidRequest},
		{"no controller", nil, -1, -1, core.ErrNoLeader, codeCoordinatorNotAvailable},
		{"disk full", nil, 5, 1, core.ErrStorageFull, codeStorageError},
	} {
		f := newFixture(t)
		f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			q.(*shard.Coordinate).Command.Err = c.err
			return true
		}
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = c.tx, c.id, c.epoch
		if resp := f.ask(req, 5).(*kmsg.InitProducerIDResponse); resp.ErrorCode != c.want || resp.ProducerID != -1 {
			t.Errorf("%s: %+v, want error %d", c.name, resp, c.want)
		}
	}
}

// TestSASLIsRefusedByAnAnswer: a connection that closes without one makes clients
// that are set up for SASL try again for ever.
func TestSASLIsRefusedByAnAnswer(t *testing.T) {
	for v := int16(0); v <= 1; v++ {
		f := newFixture(t)
		req := kmsg.NewPtrSASLHandshakeRequest()
		req.Mechanism = "PLAIN"
		resp := f.ask(req, v).(*kmsg.SASLHandshakeResponse)
		if resp.ErrorCode != codeIllegalSASLState || len(resp.SupportedMechanisms) != 0 {
			t.Errorf("handshake version %d: %+v", v, resp)
		}
	}
	for v := int16(0); v <= 2; v++ {
		resp := newFixture(t).ask(kmsg.NewPtrSASLAuthenticateRequest(), v).(*kmsg.SASLAuthenticateResponse)
		if resp.ErrorCode != codeIllegalSASLState || resp.ErrorMessage == nil {
			t.Errorf("authentication version %d: %+v", v, resp)
		}
	}
}
