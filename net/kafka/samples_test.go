package kafka

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/shard"
)

var rewriteCorpus = flag.Bool("rewrite-corpus", false, "write the fuzz corpus of requests anew")

// sample is a request as clients send it: one element in each list, and what the
// fixture has wherever a name says what a field is.
func sample(key kmsg.Key) kmsg.Request {
	req := kmsg.RequestForKey(int16(key))
	fill(reflect.ValueOf(req).Elem(), "")
	return req
}

// fill sets what is below v, the value of a field of that name.
func fill(v reflect.Value, name string) {
	switch v.Kind() {
	case reflect.Struct:
		if d, ok := v.Addr().Interface().(interface{ Default() }); ok {
			d.Default()
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name != "UnknownTags" && f.Name != "Version" {
				fill(v.Field(i), f.Name)
			}
		}
	case reflect.Slice:
		switch {
		case v.Type().Elem().Kind() == reflect.Uint8 && name == "Records":
			v.SetBytes(testBatch(2, "ab"))
		case v.Type().Elem().Kind() == reflect.Uint8:
			v.SetBytes([]byte{0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 0}) // a subscription
		default:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fill(v.Index(0), name)
		}
	case reflect.Pointer:
		if name != "TransactionalID" && v.Type().Elem().Kind() == reflect.String {
			v.Set(reflect.New(v.Type().Elem()))
			fill(v.Elem(), name)
		}
	case reflect.Array: // a topic's ID
		v.Set(reflect.ValueOf([16]byte(core.TopicID{15: 1})))
	case reflect.String:
		v.SetString(sampleText(name))
	case reflect.Int32:
		switch {
		case strings.HasSuffix(name, "Millis"), name == "MinBytes":
			v.SetInt(100)
		case strings.HasSuffix(name, "MaxBytes"), name == "ResponsePartitionLimit":
			v.SetInt(1 << 20)
		case name == "NumPartitions":
			v.SetInt(2)
		case name == "Count":
			v.SetInt(8)
		}
	case reflect.Int16:
		switch name {
		case "Acks", "ReplicationFactor":
			v.SetInt(1)
		}
	case reflect.Int8:
		if name == "ResourceType" {
			v.SetInt(int64(kmsg.ConfigResourceTypeTopic))
		}
	}
}

func sampleText(name string) string {
	switch {
	case strings.Contains(name, "Topic"), strings.HasPrefix(name, "Resource"):
		return "t"
	case strings.Contains(name, "Group"), strings.HasPrefix(name, "Coordinator"):
		return "g"
	case name == "ProtocolType":
		return "consumer"
	case name == "Protocol":
		return "range"
	case name == "MemberID", name == "InstanceID":
		return "m-1"
	}
	return "sample"
}

// TestCorpusHasEveryKeyAndVersion keeps the committed corpus of FuzzRequests to
// the table of APIs.
func TestCorpusHasEveryKeyAndVersion(t *testing.T) {
	dir := filepath.Join("testdata", "fuzz", "FuzzRequests")
	if *rewriteCorpus {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range apis() {
		for v := a.min; v <= a.max; v++ {
			name := filepath.Join(dir, fmt.Sprintf("%s_v%d", a.key.Name(), v))
			want := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", frameBytes(sample(a.key), v))
			if *rewriteCorpus {
				if err := os.WriteFile(name, []byte(want), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := os.ReadFile(name); err != nil || string(got) != want {
				t.Errorf("%s is not what the table of APIs asks for (%v): go test ./net/kafka -run TestCorpus -rewrite-corpus", name, err)
			}
		}
	}
}

// errorCodesIn counts the error codes below v.
func errorCodesIn(v reflect.Value, count map[string]uint64) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			errorCodesIn(v.Elem(), count)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errorCodesIn(v.Index(i), count)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Field(i)
			if v.Type().Field(i).Name == "ErrorCode" && f.Int() != 0 {
				count[errorName(int16(f.Int()))]++
			}
			errorCodesIn(f, count)
		}
	}
}

// TestEveryErrorCodeIsCounted drives every API in every version into errors, and
// compares the codes that leave with those that are counted.
func TestEveryErrorCodeIsCounted(t *testing.T) {
	// What is wrong with the requests that no shard is asked for.
	faults := map[kmsg.Key]func(kmsg.Request){
		kmsg.ApiVersions:     func(r kmsg.Request) { r.(*kmsg.ApiVersionsRequest).ClientSoftwareName = "" },
		kmsg.DescribeCluster: func(r kmsg.Request) { r.(*kmsg.DescribeClusterRequest).EndpointType = 9 },
		kmsg.Metadata: func(r kmsg.Request) {
			r.(*kmsg.MetadataRequest).Topics[0].Topic = kmsg.StringPtr("a b")
			r.(*kmsg.MetadataRequest).Topics[0].TopicID = core.TopicID{9}
		},
		kmsg.FindCoordinator: func(r kmsg.Request) { r.(*kmsg.FindCoordinatorRequest).CoordinatorType = 7 },
		kmsg.DescribeConfigs: func(r kmsg.Request) {
			q := r.(*kmsg.DescribeConfigsRequest)
			q.Resources[0].ResourceName = "nope"
			q.Resources = append(q.Resources, q.Resources[0])
		},
		kmsg.DescribeTopicPartitions: func(r kmsg.Request) { r.(*kmsg.DescribeTopicPartitionsRequest).Topics[0].Topic = "nope" },
		kmsg.DescribeClientQuotas: func(r kmsg.Request) {
			r.(*kmsg.DescribeClientQuotasRequest).Components[0].EntityType = "nobody"
		},
		kmsg.ListConfigResources: func(r kmsg.Request) {
			r.(*kmsg.ListConfigResourcesRequest).ResourceTypes = []int8{99}
		},
	}
	for _, a := range apis() {
		failed := uint64(0)
		for v := a.min; v <= a.max; v++ {
			if a.key == kmsg.Produce && v < produceFirstServed {
				continue
			}
			f := newFixture(t)
			offsets := testTopic(offsetsTopic, 2, 4)
			offsets.Internal = true
			f.loop.image = f.loop.image.WithTopic(offsets)
			f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
				q.Base().Err = core.ErrStorageFailed
				return true
			}
			req := sample(a.key)
			if fault := faults[a.key]; fault != nil {
				fault(req)
			}
			resp := f.ask(req, v)
			want := map[string]uint64{}
			errorCodesIn(reflect.ValueOf(resp), want)
			for _, n := range want {
				failed += n
			}
			for _, s := range f.server.Stats() {
				if s.API == a.key.Name() {
					if fmt.Sprint(s.Errors) != fmt.Sprint(want) {
						t.Errorf("%s version %d: %v are counted, %v are answered", s.API, v, s.Errors, want)
					}
				} else if len(s.Errors) > 0 {
					t.Errorf("%s version %d: %v are counted for %s", a.key.Name(), v, s.Errors, s.API)
				}
			}
		}
		// DescribeLogDirs leaves out what it cannot describe, and there are never
		// reassignments to list.
		if failed == 0 && a.key != kmsg.DescribeLogDirs && a.key != kmsg.ListPartitionReassignments {
			t.Errorf("%s was not driven into an error", a.key.Name())
		}
	}
}

// TestErrorsOfSeveralPartitionsAreCounted: each code of an answer counts.
func TestErrorsOfSeveralPartitionsAreCounted(t *testing.T) {
	f := newFixture(t)
	f.loop.answer = func(_ core.ShardID, q shard.Request) bool {
		switch q := q.(type) {
		case *shard.Fetch:
			for i := range q.Parts {
				q.Parts[i].Err = core.ErrOffsetOutOfRange
			}
		case *shard.Produce:
			q.Err = core.ErrStorageFull
		case *shard.ListOffset:
			q.Err = core.ErrFencedEpoch
		}
		return true
	}
	f.ask(fetchRequest("t", 0, -1, fetchPart{0, 0}, fetchPart{1, 0}, fetchPart{9, 0}), 12)
	f.ask(produceRequest("t", -1, producePartition{0, testBatch(1, "a")}, producePartition{1, testBatch(1, "a")}, producePartition{9, testBatch(1, "a")}), 9)
	f.serve(frameBytes(produceRequest("t", 0, producePartition{0, testBatch(1, "a")}), 9)) // closes its connection
	f.loop.run()
	list := sample(kmsg.ListOffsets).(*kmsg.ListOffsetsRequest)
	list.Topics[0].Partitions = append(list.Topics[0].Partitions, list.Topics[0].Partitions[0])
	f.ask(list, 7)
	got := ""
	for _, s := range f.server.Stats() {
		if len(s.Errors) > 0 {
			got += fmt.Sprintf("%s %v\n", s.API, s.Errors)
		}
	}
	want := "Produce map[KAFKA_STORAGE_ERROR:3 UNKNOWN_TOPIC_OR_PARTITION:1]\n" +
		"Fetch map[OFFSET_OUT_OF_RANGE:2 UNKNOWN_TOPIC_OR_PARTITION:1]\n" +
		"ListOffsets map[FENCED_LEADER_EPOCH:2]\n"
	if got != want {
		t.Errorf("counted:\n%swant:\n%s", got, want)
	}
}
