package main

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// someVersions is what a broker might advertise.
func someVersions() map[int16]versions {
	all := make(map[int16]versions)
	for _, k := range append([]kmsg.Key{kmsg.AlterPartitionAssignments}, knownToGen...) {
		all[int16(k)] = versions{0, kmsg.RequestForKey(int16(k)).MaxVersion()}
	}
	all[int16(kmsg.Fetch)] = versions{4, 18}
	return all
}

func text(q *Sequence) string {
	var b strings.Builder
	fmt.Fprintln(&b, q.Theme, q.Topics)
	for i := range q.Steps {
		fmt.Fprintln(&b, describeStep(&q.Steps[i]))
	}
	return b.String()
}

func TestASeedGivesTheSameSequence(t *testing.T) {
	v := someVersions()
	for seed := range uint64(300) {
		a, b := generate(seed, v), generate(seed, v)
		if text(a) != text(b) {
			t.Fatalf("seed %d gives\n%s\nand\n%s", seed, text(a), text(b))
		}
		for i := range a.Steps { // and the same bytes
			vs := newValues()
			x := encodeFrame(&a.Steps[i], vs.fill(a.Steps[i].Req), 7, "q00000001")
			y := encodeFrame(&b.Steps[i], vs.fill(b.Steps[i].Req), 7, "q00000001")
			if !bytes.Equal(x, y) {
				t.Fatalf("seed %d step %d: % x and % x", seed, i, x, y)
			}
		}
	}
}

func TestEveryPairOfKeyAndVersionIsGenerated(t *testing.T) {
	v := someVersions()
	c := newCoverage(v)
	for seed := range uint64(1500) {
		q := generate(seed, v)
		for i := range q.Steps {
			c.add(&q.Steps[i])
		}
	}
	if _, missing := c.report(); len(missing) > 0 {
		t.Errorf("never generated: %s", missing)
	}
}

func TestNamesOfASequenceAreItsOwn(t *testing.T) {
	st := Step{Req: kmsg.NewPtrMetadataRequest()}
	r := st.Req.(*kmsg.MetadataRequest)
	r.Version = 1
	r.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(prefixToken + "-t0")}}
	frame := encodeFrame(&st, r, 1, "q00000002")
	if !bytes.Contains(frame, []byte("q00000002-t0")) || bytes.Contains(frame, []byte(prefixToken)) {
		t.Errorf("frame %q", frame)
	}
	if len(newPrefix()) != len(prefixToken) {
		t.Errorf("a prefix of %d bytes for a token of %d", len(newPrefix()), len(prefixToken))
	}
}

func newTestSide(epochBase int32) *side {
	s := &side{broker: broker{epochBase: epochBase, clusterID: "the-cluster", port: 9092}}
	s.reset("q00000001")
	return s
}

func TestWhatBrokersMakeIsNamedInOrderOfAppearance(t *testing.T) {
	join := func(member string) *kmsg.JoinGroupResponse {
		r := kmsg.NewPtrJoinGroupResponse()
		r.MemberID, r.LeaderID = member, member
		return r
	}
	a, b := newTestSide(0), newTestSide(1)
	x := a.normalise(join("m0-01234567-89ab-cdef-0123-456789abcdef"))
	y := b.normalise(join("m0-76543210-89ab-cdef-0123-456789abcdef"))
	if d := compare(x, y, ""); len(d) > 0 {
		t.Errorf("member ids differ: %v", d)
	}
	z := b.normalise(join("m0-00000000-89ab-cdef-0123-456789abcdef"))
	if d := compare(x, z, ""); len(d) != 2 {
		t.Errorf("another member passes for the first: %v", d)
	}
	if d := compare(x, b.normalise(join("m0")), ""); len(d) != 2 {
		t.Errorf("an id without a random part passes: %v", d)
	}
}

func TestOrderAndPiecesOfAnAnswerDoNotCount(t *testing.T) {
	topic := func(name string, parts ...int32) kmsg.ListOffsetsResponseTopic {
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = name
		for _, p := range parts {
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition = p
			rt.Partitions = append(rt.Partitions, rp)
		}
		return rt
	}
	answer := func(ts ...kmsg.ListOffsetsResponseTopic) node {
		r := kmsg.NewPtrListOffsetsResponse()
		r.Topics = ts
		return newTestSide(0).normalise(r)
	}
	one := answer(topic("a", 0, 1), topic("b", 0))
	if d := compare(one, answer(topic("b", 0), topic("a", 1), topic("a", 0)), ""); len(d) > 0 {
		t.Errorf("order counts: %v", d)
	}
	d := compare(one, answer(topic("a", 0), topic("b", 0)), "")
	if len(d) != 1 || d[0].Path != "Topics[a].Partitions[1]" || d[0].Millrace != absent {
		t.Errorf("a missing partition gives %v", d)
	}
	if d := compare(one, answer(topic("a", 0, 0, 1), topic("b", 0)), ""); len(d) != 1 || d[0].Kafka != absent {
		t.Errorf("a partition twice gives %v", d)
	}
}

func TestLeaderEpochsCountFromTheBrokersFirst(t *testing.T) {
	answer := func(base, epoch int32) node {
		r := kmsg.NewPtrOffsetForLeaderEpochResponse()
		rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
		rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
		rp.LeaderEpoch = epoch
		rt.Partitions = append(rt.Partitions, rp)
		r.Topics = append(r.Topics, rt)
		return newTestSide(base).normalise(r)
	}
	if d := compare(answer(0, 0), answer(1, 1), ""); len(d) > 0 {
		t.Errorf("first epochs differ: %v", d)
	}
	if d := compare(answer(0, 0), answer(1, 0), ""); len(d) != 1 {
		t.Errorf("an epoch below the first passes: %v", d)
	}
	if d := compare(answer(0, -1), answer(1, -1), ""); len(d) > 0 {
		t.Errorf("no epoch differs: %v", d)
	}
}

func TestPlaceholdersAreFilled(t *testing.T) {
	vs := newValues()
	vs.epochBase = 1
	vs.producers[3], vs.members[2], vs.sessions[1] = 4711, "m0-id", 99
	vs.topics[prefixToken+"-t0"] = [16]byte{1, 2}
	spec := plainBatch(1)
	spec.producer, spec.pEpoch, spec.sequence = producerOf(3), 0, 0
	req := kmsg.NewPtrProduceRequest()
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = spec.encode()
	rt := kmsg.NewProduceRequestTopic()
	rt.TopicID, rt.Partitions = topicIDOf(prefixToken+"-t0"), append(rt.Partitions, part)
	req.Topics = append(req.Topics, rt)
	got := vs.fill(req).(*kmsg.ProduceRequest).Topics[0]
	var rb kmsg.RecordBatch
	b := got.Partitions[0].Records
	if err := rb.ReadFrom(b); err != nil || rb.ProducerID != 4711 || uint32(rb.CRC) != castagnoli(b[batchAttrsAt:]) {
		t.Errorf("producer %d, checksum %x, %v", rb.ProducerID, rb.CRC, err)
	}
	if got.TopicID != [16]byte{1, 2} {
		t.Errorf("topic id %x", got.TopicID)
	}
	f := kmsg.NewPtrFetchRequest()
	f.SessionID = sessionOf(1)
	f.Topics = []kmsg.FetchRequestTopic{{Partitions: []kmsg.FetchRequestTopicPartition{{CurrentLeaderEpoch: 0}, {CurrentLeaderEpoch: -1}}}}
	if g := vs.fill(f).(*kmsg.FetchRequest); g.SessionID != 99 || g.Topics[0].Partitions[0].CurrentLeaderEpoch != 1 || g.Topics[0].Partitions[1].CurrentLeaderEpoch != -1 {
		t.Errorf("filled %+v", g)
	}
	if f.SessionID != sessionOf(1) {
		t.Error("fill changed the sequence")
	}
}

func TestLengthsAreFoundInTheBytes(t *testing.T) {
	for _, c := range []struct {
		version int16
		path    string
		value   int64
		want    string
	}{
		{1, "Topics", -1, "ffffffff"},
		{4, "Topics", -2, "fffffffe01"},
		{9, "Topics", -1, "0001000000"},
		{1, "Topics[0].Topic", -1, "00000001ffff"},
	} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = c.version, true
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
		if c.version == 9 {
			req.IncludeTopicAuthorizedOperations = false
		}
		if got := fmt.Sprintf("%x", mutateLengths(req, []Mutation{{Kind: lengthIs, Path: c.path, Value: c.value}})); got != c.want {
			t.Errorf("version %d, %s = %d: %s, want %s", c.version, c.path, c.value, got, c.want)
		}
	}
}

// TestShrinkFindsTheStepsThatMatter uses a broker in which DeleteTopics after
// CreateTopics of the same name goes wrong.
func TestShrinkFindsTheStepsThatMatter(t *testing.T) {
	q := &Sequence{Topics: []Topic{{Name: "x", Partitions: 3}}}
	add := func(req kmsg.Request) {
		q.Steps = append(q.Steps, Step{ID: len(q.Steps), Req: req, Mutations: []Mutation{{Kind: bodyTag}}})
	}
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "other"}, {Topic: "a"}}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"b", "a", "c"}
	for _, r := range []kmsg.Request{kmsg.NewPtrMetadataRequest(), create, kmsg.NewPtrListGroupsRequest(), remove, kmsg.NewPtrMetadataRequest()} {
		add(r)
	}
	try := func(c *Sequence) (*finding, error) {
		made := false
		for i := range c.Steps {
			switch r := c.Steps[i].Req.(type) {
			case *kmsg.CreateTopicsRequest:
				for _, t := range r.Topics {
					made = made || t.Topic == "a"
				}
			case *kmsg.DeleteTopicsRequest:
				if made && strings.Contains(fmt.Sprint(r.TopicNames), "a") {
					return &finding{Step: i, Differences: []Difference{{"Topics[a].ErrorCode", "0", "3"}}}, nil
				}
			}
		}
		return nil, nil
	}
	f, _ := try(q)
	small, at, err := shrink(q, f, try)
	if err != nil || len(small.Steps) != 2 || at.Step != 1 {
		t.Fatalf("shrunk to\n%s%v %v", text(small), at, err)
	}
	if c := small.Steps[0].Req.(*kmsg.CreateTopicsRequest); len(c.Topics) != 1 || c.Topics[0].Topic != "a" {
		t.Errorf("creates %v", c.Topics)
	}
	if d := small.Steps[1].Req.(*kmsg.DeleteTopicsRequest); !reflect.DeepEqual(d.TopicNames, []string{"a"}) {
		t.Errorf("deletes %v", d.TopicNames)
	}
	if len(small.Topics) > 0 || len(small.Steps[0].Mutations)+len(small.Steps[1].Mutations) > 0 {
		t.Errorf("topics %v, mutations %v", small.Topics, small.Steps[0].Mutations)
	}
	if len(q.Steps) != 5 || len(remove.TopicNames) != 3 {
		t.Error("shrink changed what it was given")
	}
}

func TestEveryKnownDifferenceHasItsReasonInTheDocument(t *testing.T) {
	b, err := os.ReadFile("../../../docs/COMPATIBILITY.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Join(strings.Fields(string(b)), " ")
	names := make(map[string]bool)
	for _, k := range knownDifferences() {
		if k.because == "" || !strings.Contains(doc, strings.Join(strings.Fields(k.because), " ")) {
			t.Errorf("%s: %q is not in docs/COMPATIBILITY.md", k.name, k.because)
		}
		if k.when == nil && k.field == "" || names[k.name] {
			t.Errorf("%s: takes everything, or is there twice", k.name)
		}
		names[k.name] = true
	}
}

func TestKnownDifferencesAreCountedAndNarrow(t *testing.T) {
	l := newKnownList([]known{{name: "x", keys: []kmsg.Key{kmsg.Metadata}, min: 1, max: 3, field: "Topics.*", when: func(c *knownCase) bool { return c.Kafka == "3" }, diverges: true}})
	st := func(v int16) *Step {
		r := kmsg.NewPtrMetadataRequest()
		r.Version = v
		return &Step{Req: r}
	}
	d := Difference{"Topics[a].ErrorCode", "3", "0"}
	for _, c := range []struct {
		st   *Step
		d    Difference
		know bool
	}{
		{st(2), d, true},
		{st(4), d, false},
		{st(2), Difference{"Topics[a].ErrorCode", "5", "0"}, false},
		{st(2), Difference{"Brokers[1].Host", "3", "0"}, false},
		{&Step{Req: kmsg.NewPtrFetchRequest()}, d, false},
	} {
		unknown, diverged := l.filter(c.st, nil, [2]outcome{}, []Difference{c.d})
		if (len(unknown) == 0) != c.know || diverged != c.know {
			t.Errorf("%v of version %d: known %v", c.d, c.st.Req.GetVersion(), len(unknown) == 0)
		}
	}
	if l.uses()[0] != 1 {
		t.Errorf("used %d times", l.uses()[0])
	}
}

func TestBatchesThatAgreeWithTheirHeader(t *testing.T) {
	for codec := int8(0); codec <= 4; codec++ {
		for _, wrong := range []bool{false, true} {
			s := plainBatch(3)
			s.codec, s.headers, s.keys, s.garbage = codec, true, true, wrong
			var rb kmsg.RecordBatch
			if err := rb.ReadFrom(s.encode()); err != nil || wrongInside(&rb) != wrong {
				t.Errorf("codec %d, garbage %v: %v, wrong inside %v", codec, wrong, err, wrongInside(&rb))
			}
		}
	}
}

// TestSequencesLeaveTheCommonAlone generates requests that would end a broker or
// change what other sequences see.
func TestSequencesLeaveTheCommonAlone(t *testing.T) {
	v := someVersions()
	v[int16(kmsg.UnregisterBroker)] = versions{0, 0}
	for seed := range uint64(1000) {
		for _, st := range generate(seed, v).Steps {
			switch r := st.Req.(type) {
			case *kmsg.UnregisterBrokerRequest:
				if r.BrokerID == 1 {
					t.Errorf("seed %d unregisters the broker", seed)
				}
			case *kmsg.OffsetCommitRequest:
				if !strings.HasPrefix(r.Group, prefixToken) {
					t.Errorf("seed %d commits to the group %q", seed, r.Group)
				}
			case *kmsg.AlterClientQuotasRequest:
				for _, e := range r.Entries {
					for _, of := range e.Entity {
						if slices.ContainsFunc(st.Mutations, func(m Mutation) bool { return m.Kind == lengthIs && strings.HasSuffix(m.Path, ".Name") }) {
							t.Errorf("seed %d changes the name in the bytes of %s", seed, describeStep(&st))
						}
						if !r.ValidateOnly && (of.Name == nil || !strings.HasPrefix(*of.Name, prefixToken)) {
							t.Errorf("seed %d changes the quotas of %s", seed, describeStep(&st))
						}
					}
				}
			}
		}
	}
}

func TestQuotasAreToldApartByWhoseTheyAre(t *testing.T) {
	answer := func(names ...string) node {
		r := kmsg.NewPtrDescribeClientQuotasResponse()
		r.Entries = []kmsg.DescribeClientQuotasResponseEntry{}
		for _, name := range names {
			e := kmsg.NewDescribeClientQuotasResponseEntry()
			of := kmsg.NewDescribeClientQuotasResponseEntryEntity()
			of.Type, of.Name = "user", kmsg.StringPtr(name)
			e.Entity = append(e.Entity, of)
			v := kmsg.NewDescribeClientQuotasResponseEntryValue()
			v.Key, v.Value = "consumer_byte_rate", float64(len(name))
			e.Values = append(e.Values, v)
			r.Entries = append(r.Entries, e)
		}
		return newTestSide(0).normalise(r)
	}
	a := answer(prefixToken+"-u0", prefixToken+"-user1")
	if d := compare(a, answer(prefixToken+"-user1", "q00000009-u0", prefixToken+"-u0"), ""); len(d) > 0 {
		t.Errorf("order and other sequences' quotas count: %v", d)
	}
	if d := compare(answer(), answer("q00000009-u0"), ""); len(d) != 0 {
		t.Errorf("none, and only another sequence's: %v", d)
	}
	if d := compare(a, answer(prefixToken+"-u0"), ""); len(d) != 1 || d[0].Millrace != absent {
		t.Errorf("a missing entry: %v", d)
	}
}

func TestProtocolsNamedTwice(t *testing.T) {
	join := func(names ...string) Step {
		r := kmsg.NewPtrJoinGroupRequest()
		for _, n := range names {
			r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: n})
		}
		return Step{Req: r}
	}
	if namesProtocolTwice(join("range", "sticky")) || !namesProtocolTwice(join("range", "sticky", "range")) || namesProtocolTwice(Step{Req: kmsg.NewPtrFetchRequest()}) {
		t.Error("a protocol named twice is not told from two")
	}
}

func TestRecordsFromBeforeTheFirst(t *testing.T) {
	for _, codec := range []int8{0, 1, 2, 3, 4} {
		for step, want := range map[int64]bool{5: false, 0: false, -5: true} {
			s := plainBatch(3)
			s.codec, s.step = codec, step
			var rb kmsg.RecordBatch
			if err := rb.ReadFrom(s.encode()); err != nil {
				t.Fatal(err)
			}
			if earlierInside(&rb) != want {
				t.Errorf("codec %d, step %d: %v, want %v", codec, step, !want, want)
			}
		}
	}
}

// TestPatienceCountsWhileItRuns also ends one before its time, which must not count
// as over.
func TestPatienceCountsWhileItRuns(t *testing.T) {
	begin := time.Now()
	p := newPatience(5 * patienceStep)
	if p.isOver() {
		t.Error("over at once")
	}
	<-p.over
	if took := time.Since(begin); took < 4*patienceStep || !p.isOver() {
		t.Errorf("over after %v", took)
	}
	p.end()
	q := newPatience(time.Hour)
	q.end()
	if q.isOver() {
		t.Error("an end counts as over")
	}
}

func TestEntitiesNamedTwice(t *testing.T) {
	entity := func(parts ...string) (e kmsg.AlterClientQuotasRequestEntry) {
		for i := 0; i < len(parts); i += 2 {
			e.Entity = append(e.Entity, kmsg.AlterClientQuotasRequestEntryEntity{Type: parts[i], Name: kmsg.StringPtr(parts[i+1])})
		}
		return e
	}
	for i, c := range []struct {
		a, b kmsg.AlterClientQuotasRequestEntry
		want bool
	}{
		{entity("user", "u"), entity("user", "v"), false},
		{entity("user", "u"), entity("client-id", "u"), false},
		{entity("user", "u"), entity("user", "v", "user", "u"), true},
		{entity("user", "u", "client-id", "c"), entity("client-id", "c", "user", "u"), true},
	} {
		r := kmsg.NewPtrAlterClientQuotasRequest()
		r.Entries = []kmsg.AlterClientQuotasRequestEntry{c.a, c.b}
		if entityTwice(r) != c.want {
			t.Errorf("case %d: %v", i, !c.want)
		}
	}
}

func TestWhatIsCutIsNotCountedAsSent(t *testing.T) {
	c := newCoverage(map[int16]versions{int16(kmsg.Heartbeat): {0, 0}})
	for _, kind := range []MutationKind{cutBody, versionIs, keyIs, frameLength, shortFrame} {
		c.add(&Step{Req: kmsg.NewPtrHeartbeatRequest(), Mutations: []Mutation{{Kind: kind, Value: 1}}})
	}
	if _, missing := c.report(); len(missing) != 1 {
		t.Errorf("missing %v", missing)
	}
	c.add(&Step{Req: kmsg.NewPtrHeartbeatRequest(), Mutations: []Mutation{{Kind: appendBody, Value: 1}}})
	if _, missing := c.report(); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
}

func TestIDsOfNoTopicAreNamedByWhatTheyAre(t *testing.T) {
	answer := func(names ...string) node {
		r := kmsg.NewPtrProduceResponse()
		for _, name := range names {
			rt := kmsg.NewProduceResponseTopic()
			rt.TopicID = topicIDOf(prefixToken + name)
			rt.TopicID[0] = noTopicMark
			rp := kmsg.NewProduceResponseTopicPartition()
			rp.Partition = int32(len(name))
			rt.Partitions = append(rt.Partitions, rp)
			r.Topics = append(r.Topics, rt)
		}
		return newTestSide(0).normalise(r)
	}
	if d := compare(answer("-n0", ".."), answer("..", "-n0"), ""); len(d) > 0 {
		t.Errorf("the order counts: %v", d)
	}
	if d := compare(answer("-n0"), answer("-n1"), ""); len(d) == 0 {
		t.Error("one id passes for another")
	}
}

func TestMembersOfOneListAreNamedByWhatIsSaidOfThem(t *testing.T) {
	answer := func(metadata ...string) node {
		r := kmsg.NewPtrJoinGroupResponse()
		for i, text := range metadata {
			m := kmsg.NewJoinGroupResponseMember()
			m.MemberID = fmt.Sprintf("m0-0123456%d-89ab-cdef-0123-456789abcdef", i)
			m.ProtocolMetadata = []byte(text)
			r.Members = append(r.Members, m)
		}
		return newTestSide(0).normalise(r)
	}
	if d := compare(answer("x", ""), answer("", "x"), ""); len(d) > 0 {
		t.Errorf("the order counts: %v", d)
	}
	if d := compare(answer("x", ""), answer("", ""), ""); len(d) != 1 {
		t.Errorf("other metadata: %v", d)
	}
}

func TestKnownDifferencesOfRecordsAreNarrow(t *testing.T) {
	fetch := func(limit, each int32) *Step {
		r := kmsg.NewPtrFetchRequest()
		r.Version, r.MaxBytes = 11, limit
		ft := kmsg.NewFetchRequestTopic()
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.PartitionMaxBytes = each
		ft.Partitions = append(ft.Partitions, fp)
		r.Topics = append(r.Topics, ft)
		return &Step{Req: r}
	}
	fetched := func(bytes int) outcome {
		r := kmsg.NewPtrFetchResponse()
		ft := kmsg.NewFetchResponseTopic()
		fp := kmsg.NewFetchResponseTopicPartition()
		fp.RecordBatches = make([]byte, bytes)
		ft.Partitions = append(ft.Partitions, fp)
		r.Topics = append(r.Topics, ft)
		return outcome{kind: "answer", resp: r}
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.Version = 7
	lt := kmsg.NewListOffsetsRequestTopic()
	lp := kmsg.NewListOffsetsRequestTopicPartition()
	lp.Timestamp = -3
	lt.Partitions = append(lt.Partitions, lp)
	list.Topics = append(list.Topics, lt)

	more := Difference{"Topics[a].Partitions[0].RecordBatches", "{offset 0+0}", "{offset 0+0}{offset 1+0}"}
	none := Difference{"Topics[a].Partitions[0].Offset", "3", "-1"}
	deleteTo := func(offset int64) []Step {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}}}}
		return []Step{{Req: r}}
	}
	listed := func(offset int64) outcome {
		r := kmsg.NewPtrListOffsetsResponse()
		r.Topics = []kmsg.ListOffsetsResponseTopic{{Partitions: []kmsg.ListOffsetsResponseTopicPartition{{Offset: offset}}}}
		return outcome{resp: r}
	}
	later := Difference{"Topics[a].Partitions[0].Offset", "3", "5"}
	for _, c := range []struct {
		name   string
		st     *Step
		before []Step
		answer outcome
		d      Difference
		known  bool
		kafka  outcome
	}{
		{"more than Kafka, within the limits", fetch(1000, 1000), nil, fetched(1000), more, true, outcome{}},
		{"more than was asked for", fetch(999, 2000), nil, fetched(1000), more, false, outcome{}},
		{"more than of a partition was asked for", fetch(2000, 999), nil, fetched(1000), more, false, outcome{}},
		{"the largest timestamp after records were deleted", &Step{Req: list}, deleteTo(4), outcome{}, none, true, outcome{}},
		{"the largest timestamp where none were", &Step{Req: list}, nil, outcome{}, none, false, outcome{}},
		{"a deleted one, and one that is left", &Step{Req: list}, deleteTo(4), listed(5), later, true, listed(3)},
		{"all were deleted", &Step{Req: list}, deleteTo(-1), listed(5), later, true, listed(3)},
		{"both are left", &Step{Req: list}, deleteTo(3), listed(5), later, false, listed(3)},
		{"an earlier one than Kafka's", &Step{Req: list}, deleteTo(4), listed(2), later, false, listed(3)},
	} {
		unknown, _ := newKnownList(knownDifferences()).filter(c.st, c.before, [2]outcome{c.kafka, c.answer}, []Difference{c.d})
		if (len(unknown) == 0) != c.known {
			t.Errorf("%s: known %v", c.name, len(unknown) == 0)
		}
	}
}
