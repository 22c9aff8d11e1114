package controller

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run TestRandomHistories with this seed alone")
	seedCount = flag.Int("seeds", 40, "how many seeds TestRandomHistories runs")
)

// TestRandomHistories makes, changes and deletes topics, with failing appends
// and changes of leader, and checks after every step that a fresh Controller
// makes the same of the log and that no partition ID is given twice.
func TestRandomHistories(t *testing.T) {
	first, last := uint64(1), uint64(*seedCount)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last && !t.Failed(); seed++ {
		randomHistory(t, seed)
	}
}

func randomHistory(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 2))
	h := newHarness(t, testOptions())
	h.register(1, "")
	given := make(map[core.PartitionID]bool)
	ids := make(map[core.TopicID]string)
	producers := int64(0)
	for step := range 150 {
		name := fmt.Sprintf("t%d", r.IntN(6))
		h.fail = r.IntN(8) == 0
		var cmd *core.Command
		switch r.IntN(8) {
		case 0, 1, 2:
			req := kmsg.NewPtrCreateTopicsRequest()
			rt := kmsg.NewCreateTopicsRequestTopic()
			rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, int32(1+r.IntN(5)), 1
			req.Topics = append(req.Topics, rt)
			cmd = h.send(req)
		case 3:
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TopicNames = []string{name}
			cmd = h.send(req)
		case 4:
			req := kmsg.NewPtrCreatePartitionsRequest()
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, int32(1+r.IntN(9))
			req.Topics = append(req.Topics, rt)
			cmd = h.send(req)
		case 5:
			req := kmsg.NewPtrAlterConfigsRequest()
			rr := kmsg.NewAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, name
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			value := fmt.Sprint(r.IntN(3))
			c.Name, c.Value = "retention.ms", &value
			rr.Configs = append(rr.Configs, c)
			req.Resources = append(req.Resources, rr)
			cmd = h.send(req)
		case 6:
			cmd = h.send(meta.AllocateProducerIDs{})
			if b, ok := cmd.Reply.(meta.ProducerIDBlock); ok {
				if b.First < producers {
					t.Fatalf("seed %d step %d: producer ids from %d, given up to %d", seed, step, b.First, producers)
				}
				producers = b.First + int64(b.Count)
			}
		default:
			h.fail = false
			h.restart()
		}
		h.fail = false
		if cmd != nil {
			if a, ok := cmd.Reply.(*meta.Applied); ok {
				for _, p := range a.NewPartitions {
					if given[p] || p < core.FirstPartition {
						t.Fatalf("seed %d step %d: partition %d was given before", seed, step, p)
					}
					given[p] = true
				}
			}
		}
		for _, topic := range h.published.Topics() {
			if other, ok := ids[topic.ID]; ok && other != topic.Name {
				t.Fatalf("seed %d step %d: topics %s and %s have one ID", seed, step, other, topic.Name)
			}
			ids[topic.ID] = topic.Name
		}
		fresh := New(h.opts)
		fresh.Replay(h.start, h.log)
		if got, want := dump(fresh), dump(h.c); got != want {
			t.Fatalf("seed %d step %d: replayed:\n%s\nlive:\n%s", seed, step, got, want)
		}
		if fresh.Image().Version != h.c.Image().Version {
			t.Fatalf("seed %d step %d: version %d replayed, %d live", seed, step, fresh.Image().Version, h.c.Image().Version)
		}
	}
}

func TestLeaderCellsOutliveChanges(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	before := h.create("t", 2)
	before.Partitions[1].Leader.Set(1, 7)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = "t", 3
	grow.Topics = append(grow.Topics, rt)
	h.send(grow)
	after := h.published.Topic("t")
	if len(after.Partitions) != 3 || after.Partitions[1] != before.Partitions[1] {
		t.Fatal("a partition that stays is not the same object")
	}
	if node, epoch := after.Partitions[1].Leader.Get(); node != 1 || epoch != 7 {
		t.Errorf("leader %d, epoch %d", node, epoch)
	}
	if node, _ := after.Partitions[2].Leader.Get(); node != core.NoNode {
		t.Errorf("a new partition has leader %d", node)
	}
}

func TestLeaderCellsOutliveResignation(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	before := h.create("t", 2)
	var out core.Output
	h.c.Resign(h.now, &out)
	h.c.Reset()
	if h.c.Deadline() != 0 {
		t.Error("a follower wants its timer")
	}
	h.c.Replay(h.start, h.log)
	h.c.Lead(h.now, 2, &out)
	after := out.Image.(*meta.Image).Topic("t")
	for i := range before.Partitions {
		if after.Partitions[i] != before.Partitions[i] {
			t.Errorf("partition %d is another object after a Reset", i)
		}
	}
	if h.c.Image().Version != h.published.Version {
		t.Errorf("version %d, was %d", h.c.Image().Version, h.published.Version)
	}
}

// TestRewriteKeepsWhatIsLive rewrites a log of several batches, with changes
// between the batches, and stops it at every point.
func TestRewriteKeepsWhatIsLive(t *testing.T) {
	long := newHarness(t, testOptions())
	long.register(1, "")
	for i := range 9 {
		long.create(fmt.Sprintf("big-%d", i), 9000)
	}
	// Superseded records: settings that come and go.
	name := string(make([]byte, 120_000))
	for !canBegin(long.c) {
		long.send(meta.RegisterBroker{Broker: meta.Broker{ID: 2, Host: name}})
	}
	long.register(2, "")
	for _, stop := range []int{0, 1, 2, 3, 4, 9} {
		h := newHarness(t, testOptions())
		h.log, h.bytes = slices.Clone(long.log), long.bytes
		h.restart()
		alter := func(topic, value string) {
			req := kmsg.NewPtrAlterConfigsRequest()
			r := kmsg.NewAlterConfigsRequestResource()
			r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, topic
			c := kmsg.NewAlterConfigsRequestResourceConfig()
			c.Name, c.Value = "retention.ms", &value
			r.Configs = append(r.Configs, c)
			req.Resources = append(req.Resources, r)
			h.send(req)
		}
		del := func(topic string) {
			req := kmsg.NewPtrDeleteTopicsRequest()
			req.TopicNames = []string{topic}
			h.send(req)
		}
		timer := func() {
			var out core.Output
			h.c.Timer(h.now, &out)
			h.carryOut(&out)
		}
		before := h.bytes
		big0 := h.published.Topic("big-0")
		timer()
		if !h.c.rewrite.running {
			t.Fatal("no rewrite was begun")
		}
		if h.published.Topic("big-0") != big0 {
			t.Error("a topic that was only rewritten is another object")
		}
		alter("big-0", "1") // written already
		del("big-8")        // to come
		for range stop {
			timer()
		}
		if stop == 9 && (h.start == 0 || h.bytes > before/3 || h.c.Deadline() != 0) {
			t.Fatalf("the log was not cut: start %d, %d bytes of %d, deadline %d", h.start, h.bytes, before, h.c.Deadline())
		}
		want := dump(h.c)
		fresh := New(h.opts)
		fresh.Replay(h.start, h.log)
		if got := dump(fresh); got != want {
			t.Fatalf("stopped after %d batches: a fresh Controller differs", stop)
		}
	}
}

// canBegin says whether Timer would begin a rewrite.
func canBegin(c *Controller) bool {
	probe := *c
	return probe.rewrite.due() && probe.beginRewrite()
}

func TestFailedRewriteIsTriedAgain(t *testing.T) {
	h := newHarness(t, testOptions())
	h.register(1, "")
	h.create("keep", 3)
	for i := 0; h.c.Deadline() == 0; i++ {
		h.create("temp", 9000)
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.TopicNames = []string{"temp"}
		h.send(req)
	}
	h.fail = true
	want := describe(h.published)
	var out core.Output
	h.c.Timer(h.now, &out)
	h.carryOut(&out)
	if h.fail || h.start != 0 || h.c.Deadline() == 0 {
		t.Fatal("the rewrite did not fail, or is forgotten")
	}
	if d := h.c.Deadline(); d <= h.now {
		t.Errorf("it is tried again at %d, at once: it is %d", d, h.now)
	}
	h.now += rewriteRetry
	h.timers()
	if got := describe(h.published); got != want || h.start == 0 {
		t.Errorf("start %d, image:\n%s\nwant:\n%s", h.start, got, want)
	}
}

// The encoding is on disk: these bytes must not change.
func TestRecordEncodingIsFixed(t *testing.T) {
	topic := &meta.Topic{ID: core.TopicID{0: 1, 15: 2}, Name: "t", Internal: true, Partitions: []*meta.Partition{
		{ID: 300, Num: 0, Replicas: []core.NodeID{1, 2}},
		{ID: 301, Num: 1, Replicas: []core.NodeID{2}},
	}}
	for _, c := range []struct {
		what string
		r    core.Record
		key  string
		want string
	}{
		{"cluster", encodeCluster("abc"), "0101", "0103616263"},
		{"controller", encodeController(7), "0102", "0100000007"},
		{"broker", encodeBroker(meta.Broker{ID: 7, Host: "h", Port: 9092, Rack: "r"}), "010300000007", "010168000023840172"},
		{"topic", encodeTopic(topic), "010401000000000000000000000000000002", "01017401" + "02" + "ac02020102" + "ad020102"},
		{"topic deleted", encodeTopicDeleted(topic.ID), "010401000000000000000000000000000002", "tombstone"},
		{"topic configs", encodeConfigs(resourceTopic, topic.ID[:], map[string]string{"b": "2", "a": "1"}), "010502" + "01000000000000000000000000000002", "0102" + "01610131" + "01620132"},
		{"broker configs", encodeConfigs(resourceBroker, nodeBytes(7), map[string]string{"a": ""}), "01050400000007", "0101" + "016100"},
		{"no cluster configs", encodeConfigs(resourceCluster, nil, nil), "010500", "tombstone"},
		{"quotas", encodeQuotas(quotaOf("user u", "client-id"), map[string]float64{"b": 1, "a": 0.5}), "0107" + "01000175" + "020100",
			"0102" + "01613fe0000000000000" + "01623ff0000000000000"},
		{"no quotas", encodeQuotas(quotaOf("ip ::1"), nil), "0107" + "0300033a3a31", "tombstone"},
		{"counters", encodeCounters(300, 2000), "0106", "01ac02d00f"},
	} {
		want := c.want
		if want == "tombstone" {
			want = ""
			if c.r.Value != nil {
				t.Errorf("%s: value %x, want none", c.what, c.r.Value)
			}
		}
		if fmt.Sprintf("%x", c.r.Key) != c.key || fmt.Sprintf("%x", c.r.Value) != want {
			t.Errorf("%s: %x = %x, want %s = %s", c.what, c.r.Key, c.r.Value, c.key, want)
		}
		if _, err := decodeRecord(c.r); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func TestReplayRefusesWhatItDoesNotUnderstand(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); len(p) < 6 || p[:6] != "FATAL:" {
			t.Errorf("panicked with %q", p)
		}
	}()
	New(testOptions()).Replay(0, []core.Record{{Key: []byte{2, 1}, Value: []byte{2}}})
}

// FuzzDecodeRecord feeds foreign bytes to the decoder of the log. What it accepts
// must mean the same after it is written again, and must not upset Replay.
//
//fuzz:parses format.go:take,byte,uint32,uvarint,string,node,topicID,count,done,decodeRecord,value,decodeTopic
func FuzzDecodeRecord(f *testing.F) {
	id := core.TopicID{0: 1, 15: 2}
	for _, r := range []core.Record{
		encodeCluster("abc"), encodeController(7), encodeBroker(meta.Broker{ID: 7, Host: "h", Port: 9092}),
		encodeTopic(&meta.Topic{ID: id, Name: "t", Partitions: []*meta.Partition{{ID: 300, Replicas: []core.NodeID{1, 2}}}}),
		encodeTopicDeleted(id), encodeConfigs(resourceTopic, id[:], map[string]string{"a": "1"}),
		encodeConfigs(resourceBroker, nodeBytes(7), nil), encodeConfigs(resourceCluster, nil, map[string]string{"a": "1", "b": ""}),
		encodeCounters(300, 2000), encodeQuotas(quotaOf("user u", "client-id"), map[string]float64{"a": 0.5, "b": 1}),
	} {
		f.Add(r.Key, r.Value, r.Value != nil)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, live bool) {
		r := core.Record{Key: key}
		if live {
			r.Value = append([]byte{}, value...)
		}
		d, err := decodeRecord(r)
		if err != nil {
			return
		}
		c := New(testOptions())
		c.Replay(0, []core.Record{r})
		var again core.Record
		switch {
		case d.kind == kindTopic && d.deleted:
			again = encodeTopicDeleted(d.topicID)
		case d.deleted:
			return
		case d.kind == kindCluster:
			again = encodeCluster(c.Image().ClusterID)
		case d.kind == kindController:
			again = encodeController(c.Image().Controller)
		case d.kind == kindBroker:
			again = encodeBroker(c.Image().Brokers[0])
		case d.kind == kindTopic:
			again = encodeTopic(c.Image().Topics()[0])
		case d.kind == kindConfigs:
			again = encodeConfigs(d.resource, r.Key[3:], d.configs)
		case d.kind == kindQuotas:
			again = encodeQuotas(d.entity, d.quotas)
		case d.kind == kindCounters:
			again = encodeCounters(c.state.nextPartition, c.state.nextProducer)
		}
		e, err := decodeRecord(again)
		if err != nil || !slices.Equal(again.Key, r.Key) {
			t.Fatalf("%x became %x: %v", r.Key, again.Key, err)
		}
		if fmt.Sprint(e.text, e.node, e.broker, e.topicID, e.configs, e.entity, e.quotas, e.nextPartition, e.nextProducer) != fmt.Sprint(d.text, d.node, d.broker, d.topicID, d.configs, d.entity, d.quotas, d.nextPartition, d.nextProducer) {
			t.Fatalf("%+v became %+v", d, e)
		}
	})
}

// quotaOf makes an entity of parts "KIND NAME", or "KIND" for its default.
func quotaOf(parts ...string) (e meta.QuotaEntity) {
	for _, p := range parts {
		kind, name, named := strings.Cut(p, " ")
		e[slices.Index(meta.QuotaKindNames[:], kind)] = meta.QuotaMatch{Used: true, Name: name, Default: !named}
	}
	return e
}

// BenchmarkCreateTopics makes 10,000 topics: in one request, and in one each.
func BenchmarkCreateTopics(b *testing.B) {
	request := func(from, to int) *kmsg.CreateTopicsRequest {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 7
		for i := from; i < to; i++ {
			t := kmsg.NewCreateTopicsRequestTopic()
			t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("topic-%d", i), 1, 1
			req.Topics = append(req.Topics, t)
		}
		return req
	}
	for _, each := range []int{10_000, 1} {
		b.Run(fmt.Sprintf("each=%d", each), func(b *testing.B) {
			for b.Loop() {
				h := newHarness(b, testOptions())
				h.register(1, "")
				for i := 0; i < 10_000; i += each {
					h.send(request(i, i+each))
				}
				if h.published.TopicCount() != 10_000 {
					b.Fatalf("%d topics", h.published.TopicCount())
				}
			}
		})
	}
}
