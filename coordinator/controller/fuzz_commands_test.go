package controller

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/config"
	"millrace/core/draw"
	"millrace/core/meta"
)

// fuzzRequests are the requests that a Controller is given, and from which version
// on the broker serves them.
var fuzzRequests = []struct {
	key kmsg.Key
	min int16
}{
	{kmsg.CreateTopics, 2}, {kmsg.DeleteTopics, 1}, {kmsg.CreatePartitions, 0}, {kmsg.IncrementalAlterConfigs, 0},
	{kmsg.AlterConfigs, 0}, {kmsg.AlterClientQuotas, 0}, {kmsg.AlterPartitionAssignments, 0},
}

// fuzzOptions are those of the broker, with bounds that a short history reaches.
func fuzzOptions() Options {
	return Options{
		Node: 1, Seed: 7, TopicPartitionsMax: 40, PartitionsMax: 100, ConfigsMax: 3, QuotasMax: 4,
		ValidateTopic:  func(_, name, value string) error { return config.ValidateTopic(name, value) },
		ValidateBroker: func(name, value string, _ bool) error { return config.ValidateBroker(name, value) },
		ListDefault: func(broker bool, name string) (string, bool) {
			if broker {
				return config.ListDefault(config.Broker, name)
			}
			return config.ListDefault(config.Topic, name)
		},
	}
}

func fuzzTexts(field, last string) []string {
	switch field {
	case "Topic", "TopicNames":
		return []string{"a", "b", "c", "a", "b", "a.b", "a_b", "c/", "__consumer_offsets", "__cluster_metadata"}
	case "ResourceName":
		return []string{"a", "b", "1", "", "a", "c", "2", "01", "none"}
	case "Name":
		return []string{"retention.ms", "cleanup.policy", "segment.bytes", "log.retention.ms", "min.insync.replicas", "log.cleanup.policy",
			"follower.replication.throttled.replicas", "no.such", "::1"}
	case "Value":
		switch last {
		case "cleanup.policy", "log.cleanup.policy":
			return []string{"compact", "delete", "compact,delete", "", ",", "none"}
		case "follower.replication.throttled.replicas":
			return []string{"0:1", "*", "0:1,1:1", "1:1", "x"}
		}
		return []string{"1048576", "1", "-1", "1048577", "", "9223372036854775808"}
	case "Type":
		return []string{"user", "client-id", "ip", "user", "client-id", "role"}
	case "Key":
		return []string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate", "none"}
	}
	return nil
}

func fuzzNumbers(field string) []int64 {
	switch field {
	case "ReplicationFactor":
		return []int64{-1, 1, -1, 1, 2, 3}
	case "NumPartitions", "Count":
		return []int64{-1, 1, 2, 3, 5, 12, 41, 10_001}
	case "Replicas":
		return []int64{1, 1, 2, 3}
	case "ResourceType":
		return []int64{2, 4, 2, 4, 2, 4, 8}
	case "Op":
		return []int64{0, 1, 2, 3}
	}
	return nil
}

// fuzzRare are the placements, without which the Controller places, and the
// settings of new topics.
func fuzzRare(key kmsg.Key) func(field string) bool {
	return func(field string) bool {
		return field == "ReplicaAssignment" || field == "Assignment" || field == "Configs" && key == kmsg.CreateTopics
	}
}

// FuzzCommands gives a Controller what clients may send it, with failing appends,
// rewrites of the log and changes of leader in between. What it has written must
// be in the one form that each record has and must make the same Controller
// again; a refused request changes nothing, and the bounds hold.
//
//fuzz:parses topics.go topics_change.go configs.go quotas.go reassign.go change.go rewrite.go controller.go:Handle,finish,Replay,Failed,Lead
func FuzzCommands(f *testing.F) {
	for _, seed := range fuzzSeeds {
		f.Add(fuzzSeed(seed))
	}
	f.Fuzz(runCommands)
}

// fuzzSeeds are those of the first 3000 that each reach something that those before
// them do not.
var fuzzSeeds = []uint64{
	0, 1, 2, 3, 4, 5, 6, 7, 11, 12, 14, 15, 16, 20, 23, 26, 33, 34, 35, 37,
	41, 43, 51, 58, 66, 73, 78, 95, 108, 113, 146, 149, 156, 159, 174, 223, 232, 273, 327, 419,
	462, 469, 493, 633, 835, 1695, 2203, 2535,
}

func fuzzSeed(seed uint64) []byte {
	r, b := rand.New(rand.NewPCG(seed, 3)), make([]byte, 300+80*(seed%20))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func runCommands(t *testing.T, b []byte) {
	s := draw.New(b)
	s.Numbers = fuzzNumbers
	s.Texts = func(field string) []string { return fuzzTexts(field, s.Last) }
	c := &commands{harness: newHarness(t, fuzzOptions()), s: s, given: make(map[core.PartitionID]bool)}
	c.register(1, "")
	for range 40 {
		if s.Done() {
			break
		}
		c.step()
		c.checkImage()
	}
	c.fail = false
	c.checkLog()
}

// commands is one history.
type commands struct {
	*harness
	s     *draw.Source
	given map[core.PartitionID]bool
}

func (c *commands) step() {
	switch n := c.s.N(32); n {
	case 24, 25:
		c.fail = true
	case 26:
		c.register(core.NodeID(1+c.s.N(3)), "r"+string(rune('a'+c.s.N(2))))
	case 27:
		c.send(meta.AllocateProducerIDs{})
	case 28:
		c.checkLog()
		c.restart()
	case 29:
		var out core.Output
		c.c.Resign(c.now, &out)
		c.c.Reset()
		c.c.Replay(c.start, c.log)
		c.size()
		c.term++
		c.c.Lead(c.now, c.term, &out)
		c.published = nil
		c.carryOut(&out)
	case 30, 31:
		// A rewrite is due at sizes that no short history reaches.
		c.c.rewrite.counted, c.c.rewrite.reported = max(c.c.rewrite.counted, 1<<40), 1<<40
		var out core.Output
		c.c.Timer(c.now, &out)
		c.carryOut(&out)
	default:
		c.request(n % len(fuzzRequests))
	}
}

// request draws a request, brings it into the form that a client's has, and looks
// at the answer.
func (c *commands) request(kind int) {
	api := fuzzRequests[kind]
	drawn, req := kmsg.RequestForKey(int16(api.key)), kmsg.RequestForKey(int16(api.key))
	version := api.min + int16(c.s.N(int(drawn.MaxVersion()-api.min)+1))
	c.s.IDs, c.s.Rare = nil, fuzzRare(api.key)
	for _, t := range c.published.Topics() {
		c.s.IDs = append(c.s.IDs, t.ID)
	}
	c.s.Fill(drawn)
	drawn.SetVersion(version)
	req.SetVersion(version)
	body := drawn.AppendTo(nil)
	if err := req.ReadFrom(body); err != nil {
		c.t.Fatalf("%T version %d: %v", req, version, err)
	}
	end := c.start + core.Offset(len(c.log))
	cmd := c.send(req)
	applied, ok := cmd.Reply.(*meta.Applied)
	if !ok {
		return // the append failed
	}
	resp := applied.Reply
	if resp.GetVersion() != version {
		c.t.Fatalf("%T version %d is answered in version %d", req, version, resp.GetVersion())
	}
	if c.start+core.Offset(len(c.log)) > end && (allRefused(resp) || validatesOnly(req)) {
		c.t.Fatalf("%T version %d wrote records and was refused: %+v", req, version, resp)
	}
	for _, p := range applied.NewPartitions {
		if c.given[p] || p < core.FirstPartition {
			c.t.Fatalf("partition %d was given before", p)
		}
		c.given[p] = true
	}
	again := resp.RequestKind().ResponseKind()
	again.SetVersion(version)
	wire := resp.AppendTo(nil)
	if most := 64<<10 + 40*len(body); len(wire) > most {
		c.t.Fatalf("%T version %d: %d bytes are answered with %d, at most %d are expected", req, version, len(body), len(wire), most)
	}
	if longTexts(reflect.ValueOf(resp), 8*len(body)+2000, c.t) {
		return // what leaves is cut
	} else if err := again.ReadFrom(wire); err != nil || !bytes.Equal(again.AppendTo(nil), wire) {
		c.t.Fatalf("%T version %d: the answer does not decode (%v): %x", req, version, err, wire)
	}
}

// items are the structs of a message's only list of structs.
func items(message any) reflect.Value {
	v := reflect.ValueOf(message).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct {
			return f
		}
	}
	panic(fmt.Sprintf("%T has no list", message))
}

// allRefused says whether no part of a request has succeeded.
func allRefused(resp kmsg.Response) bool {
	if _, ok := resp.(*kmsg.AlterPartitionAssignmentsResponse); ok {
		return true // it never changes anything
	}
	list := items(resp)
	for i := range list.Len() {
		if list.Index(i).FieldByName("ErrorCode").Int() == 0 {
			return false
		}
	}
	return true
}

func validatesOnly(req kmsg.Request) bool {
	f := reflect.ValueOf(req).Elem().FieldByName("ValidateOnly")
	return f.IsValid() && f.Bool()
}

// longTexts says whether an answer has texts that the protocol cannot carry: that
// quote the request. None may be longer than most, which is what the API layer
// that cuts them counts on.
func longTexts(v reflect.Value, most int, t testing.TB) (long bool) {
	switch v.Kind() {
	case reflect.String:
		if v.Len() > most {
			t.Fatalf("a text of %d bytes, at most %d are expected", v.Len(), most)
		}
		return v.Len() > 1<<15-1
	case reflect.Pointer:
		return !v.IsNil() && longTexts(v.Elem(), most, t)
	case reflect.Slice:
		for i := range v.Len() {
			long = longTexts(v.Index(i), most, t) || long
		}
	case reflect.Struct:
		for i := range v.NumField() {
			long = longTexts(v.Field(i), most, t) || long
		}
	}
	return long
}

// checkImage holds the newest Image to the rules that all commands keep.
func (c *commands) checkImage() {
	im, o := c.c.Image(), c.c.opts
	parts, ids := 0, make(map[core.TopicID]bool)
	for _, t := range im.Topics() {
		if core.CheckTopicName(t.Name) != "" || ids[t.ID] || t.ID == (core.TopicID{}) || t.Internal != IsInternal(t.Name) {
			c.t.Fatalf("topic %+v", t)
		}
		ids[t.ID] = true
		for i, p := range t.Partitions {
			if p.Num != int32(i) || p.Leader == nil || p.ID < core.FirstPartition || p.ID >= c.c.state.nextPartition || len(p.Replicas) == 0 {
				c.t.Fatalf("partition %d of %s: %+v", i, t.Name, p)
			}
			if at, ok := im.Locate(p.ID); !ok || at.Topic.Name != t.Name || at.Num != p.Num {
				c.t.Fatalf("partition %d of %s is found at %+v", i, t.Name, at)
			}
			for _, r := range p.Replicas {
				if !hasBroker(im, r) {
					c.t.Fatalf("partition %d of %s is on broker %d", i, t.Name, r)
				}
			}
		}
		if n := len(t.Partitions); n == 0 || n > o.TopicPartitionsMax {
			c.t.Fatalf("topic %s has %d partitions", t.Name, n)
		}
		parts += len(t.Partitions)
		c.checkConfigs("topic "+t.Name, t.Configs, func(name, value string) error { return o.ValidateTopic(t.Name, name, value) })
	}
	if parts != im.PartitionCount() || parts > o.PartitionsMax || len(im.Quotas) > o.QuotasMax {
		c.t.Fatalf("%d partitions, counted %d; quotas of %d entities", parts, im.PartitionCount(), len(im.Quotas))
	}
	c.checkConfigs("the cluster", im.ClusterConfigs, func(name, value string) error { return o.ValidateBroker(name, value, true) })
	for id, configs := range im.BrokerConfigs {
		c.checkConfigs(fmt.Sprint("broker ", id), configs, func(name, value string) error { return o.ValidateBroker(name, value, false) })
	}
	for e, values := range im.Quotas {
		for key, v := range values {
			if no := checkQuota(e[meta.QuotaIP].Used, key, v); no != nil {
				c.t.Fatalf("quota %s=%g of %+v: %s", key, v, e, no.text)
			}
		}
	}
}

func (c *commands) checkConfigs(of string, configs map[string]string, validate func(name, value string) error) {
	if len(configs) > c.c.opts.ConfigsMax {
		c.t.Fatalf("%s has %d configs", of, len(configs))
	}
	for name, value := range configs {
		if err := validate(name, value); err != nil {
			c.t.Fatalf("%s has %s=%q: %v", of, name, value, err)
		}
	}
}

// checkLog holds every record to its one form, and what the log tells to what the
// Controller knows.
func (c *commands) checkLog() {
	for i, r := range c.log {
		d, err := decodeRecord(r)
		if err != nil || !equalRecords(r, d.encode()) {
			c.t.Fatalf("record %d, %x = %x, decodes as %+v (%v)", i, r.Key, r.Value, d, err)
		}
	}
	fresh := New(c.opts)
	fresh.Replay(c.start, c.log)
	if got, want := dump(fresh), dump(c.c); got != want || fresh.Image().Version != c.c.Image().Version {
		c.t.Fatalf("replayed, version %d:\n%s\nlive, version %d:\n%s", fresh.Image().Version, got, c.c.Image().Version, want)
	}
}

// encode is the record that d was decoded from, in the form that this build
// writes.
func (d *decoded) encode() core.Record {
	switch d.kind {
	case kindCluster:
		return encodeCluster(d.text)
	case kindController:
		return encodeController(d.node)
	case kindBroker:
		if d.deleted {
			return core.Record{Key: key(kindBroker, nodeBytes(d.node)...)}
		}
		return encodeBroker(d.broker)
	case kindTopic:
		if d.deleted {
			return encodeTopicDeleted(d.topicID)
		}
		return encodeTopic(d.topic)
	case kindConfigs:
		id := map[byte][]byte{resourceTopic: d.topicID[:], resourceBroker: nodeBytes(d.node)}[d.resource]
		return encodeConfigs(d.resource, id, d.configs)
	case kindQuotas:
		return encodeQuotas(d.entity, d.quotas)
	default:
		return encodeCounters(d.nextPartition, d.nextProducer)
	}
}
