package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/draw"
	"millrace/core/meta"
	"millrace/shard"
)

// FuzzRequests gives the dispatcher arbitrary frames over shards that answer
// everything. Nothing may panic, every request must end exactly once, and no
// payload memory may be left. What is answered is what kmsg can read, and the
// answer can be read in the version asked; what is refused breaks a rule.
//
//fuzz:parses header.go request.go:Serve,refuse,refuseVersion codec.go:fail,take,int16,int32,length,array,decoder.string,mustString,bytes,tags nulls.go text.go:checkElements,elements,checkTexts produce.go:serveProduce,decode,check fetchsession.go:wantsOf,newWant metadata.go:selectTopics,topicsToCreate
func FuzzRequests(f *testing.F) {
	for _, a := range apis() {
		for v := a.min; v <= a.max; v++ {
			f.Add(frameBytes(kmsg.RequestForKey(int16(a.key)), v))
		}
	}
	f.Add(frameBytes(produceRequest("t", -1, producePartition{0, testBatch(2, "ab")}), 9))
	f.Add(frameBytes(produceRequest("t", 0, producePartition{0, testBatch(2, "ab")}), 13))
	f.Add(frameBytes(fetchRequest("t", 0, 0, fetchPart{0, 1}, fetchPart{3, 0}), 12))
	f.Add(frameBytes(fetchRequest("t", 0, -1, fetchPart{0, 1}), 18))
	f.Add(frameBytes(metadataFor("t", "new", "a b"), 12))
	f.Add(frameBytes(deleteRecords(fetchPart{0, 1}), 2))
	for _, body := range [][]byte{
		{0, 200, 0, 0, 0, 0, 0, 42, 0, 0},                                        // no such key
		{0, 18, 0, 99, 0, 0, 0, 42, 0xff, 0xff, 0},                               // of the future
		{0, 3, 0, 99, 0, 0, 0, 42, 0, 0, 0},                                      // no such version
		{0, 3, 0, 9, 0, 0, 0, 42, 0, 1, 'a', 2, 1, 0, 5, 2, 7, 7, 1, 0, 0, 0, 0}, // tags in the header
		{0, 3, 0, 9, 0, 0, 0, 42, 0, 1, 'a', 0xff, 0xff, 0xff, 0xff, 0x7f},
		{0, 3, 0, 1, 0, 0, 0, 42, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		{0, 19, 0, 2, 0, 0, 0, 42, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}, // null in place of an array
		{0, 19, 0, 5, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 0, 0, 3, 0, 0, 0, 42, 0, 0, 0xff, 0xff, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff},
		{0, 0, 0, 9, 0, 0, 0, 42, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 0, 1, 0, 0},
		append([]byte{0, 3, 0, 9, 0, 0, 0, 42, 0, 0, 0, 2, 0x81, 0x80, 0x02}, make([]byte, 32775)...), // a long string
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < keyVersionBytes {
			return // the listener does not hand such frames over
		}
		fx := newFixture(t)
		fx.loop.answer = func(_ core.ShardID, q shard.Request) bool {
			q.Base().Err = core.ErrNotLeader
			return true
		}
		frame := bytes.Clone(b) // which Serve may alias
		place := fx.serve(b)
		fx.loop.run()
		fx.loop.advance(400 * core.Second)
		reply, replied := fx.conn.replies[place]
		req, fault := readFrame(frame)
		switch {
		case !replied && fx.conn.closed == "":
			t.Fatalf("the request %x has no end", frame)
		case replied && req == nil:
			t.Fatalf("a request that %s is answered", fault)
		case !replied && fault == "":
			t.Fatalf("closed with %q, and nothing is wrong with %x", fx.conn.closed, frame)
		case len(reply) > 0:
			readReply(t, frame, req, reply)
		}
	})
}

// readFrame reads a request as kmsg does. A request that is nil cannot be
// answered; for one with a fault the connection may be closed.
func readFrame(b []byte) (req kmsg.Request, fault string) {
	key, version := int16(binary.BigEndian.Uint16(b)), int16(binary.BigEndian.Uint16(b[2:]))
	i := slices.IndexFunc(apis(), func(a api) bool { return int16(a.key) == key })
	if i < 0 {
		return nil, "has no such key"
	}
	a := apis()[i]
	ofTheFuture := version < a.min || version > a.max
	if ofTheFuture && a.key != kmsg.ApiVersions {
		return nil, "has no such version"
	}
	req = kmsg.RequestForKey(key)
	req.SetVersion(version)
	rest := b[keyVersionBytes:]
	if len(rest) < 2 {
		return nil, "ends in the client id"
	}
	if n := max(0, int(int16(binary.BigEndian.Uint16(rest)))); len(rest) < 2+n {
		return nil, "ends in the client id"
	} else {
		rest = rest[2+n:]
	}
	if flexible := req.IsFlexible() || ofTheFuture && version > a.max; flexible {
		var err error
		if rest, err = skipTags(rest); err != nil {
			return nil, "ends in the header's tags"
		}
	}
	if ofTheFuture {
		req.SetVersion(0) // as it is answered
		return req, ""
	}
	if err := req.ReadFrom(rest); err != nil {
		return nil, "does not decode: " + err.Error()
	}
	again := req.AppendTo(nil)
	switch p, produces := req.(*kmsg.ProduceRequest); {
	case produces && version < produceFirstServed:
		return nil, "is too old a Produce"
	case produces && p.Acks == 0:
		return req, "may have failed"
	case checkElements(req, len(rest)) != nil:
		return nil, "has too many elements"
	case checkTexts(req, len(rest)) != nil:
		return nil, "has a long string"
	case !bytes.HasPrefix(rest, again):
		return req, "may have null in place of an array"
	}
	return req, ""
}

// readReply reads the answer to a frame, in the version that was asked for.
func readReply(t testing.TB, frame []byte, req kmsg.Request, reply []byte) kmsg.Response {
	b := reply[4:]
	if !bytes.Equal(b[:4], frame[4:8]) {
		t.Fatalf("the correlation id is %x, answered is %x", frame[4:8], b[:4])
	}
	if b = b[4:]; req.IsFlexible() && req.Key() != int16(kmsg.ApiVersions) {
		if b[0] != 0 {
			t.Fatalf("%d tagged fields in the response header", b[0])
		}
		b = b[1:]
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(b); err != nil {
		t.Fatalf("%s version %d: the answer does not decode: %v: %x", kmsg.Key(req.Key()).Name(), req.GetVersion(), err, b)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, b) {
		t.Fatalf("%s version %d: the answer has bytes that do not decode:\n%x\n%x", kmsg.Key(req.Key()).Name(), req.GetVersion(), b, again)
	}
	return resp
}

// FuzzFields sends up to three requests of any key and version, whose fields are
// drawn, to shards whose answers are drawn. Such requests decode, so that each is
// answered in its version, unless a Produce asks for no answer; no answer is much
// longer than what it is made of.
//
//fuzz:parses produce.go fetch.go fetchreply.go fetchsession.go metadata.go listoffsets.go offsetforleaderepoch.go deleterecords.go describeproducers.go describelogdirs.go describetopicpartitions.go describeconfigs.go alterconfigs.go incrementalalterconfigs.go createtopics.go deletetopics.go createpartitions.go alterclientquotas.go describeclientquotas.go alterpartitionreassignments.go findcoordinator.go groups.go joingroup.go syncgroup.go heartbeat.go leavegroup.go offsetcommit.go offsetfetch.go offsetdelete.go describegroups.go listgroups.go deletegroups.go initproducerid.go apiversions.go describecluster.go listconfigresources.go sasl.go ask.go changes.go outcome.go text.go
func FuzzFields(f *testing.F) {
	for row, a := range apis() {
		for v := a.min; v <= a.max; v++ {
			fields, answers, _, _ := fieldSeed(uint64(a.key)<<8 | uint64(v))
			f.Add(byte(row), byte(v-a.min), fields, answers)
		}
	}
	for _, seed := range fieldSeeds {
		fields, answers, row, version := fieldSeed(seed)
		f.Add(row, version, fields, answers)
	}
	f.Fuzz(runFields)
}

// fieldSeeds are those of 20,000 that each reach something that those before them
// do not.
var fieldSeeds = []uint64{
	5, 8, 11, 14, 25, 50, 55, 56, 93, 98, 105, 112, 129, 138, 221, 224, 227, 230, 239, 244,
	245, 249, 258, 313, 398, 404, 423, 496, 500, 569, 598, 621, 676, 786, 994, 1023, 1148, 1302, 1920, 3151,
	3545, 4335, 4651, 7672, 8313,
}

func fieldSeed(seed uint64) (fields, answers []byte, row, version byte) {
	r, b := rand.New(rand.NewPCG(seed, 5)), make([]byte, 150+seed%5*100)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	n := len(b) * 2 / 3
	return b[:n], b[n:], byte(r.Uint32()), byte(r.Uint32())
}

func runFields(t *testing.T, row, version byte, fields, answers []byte) {
	fx := newFixture(t)
	offsets, quiet := testTopic(offsetsTopic, 2, 4), testTopic("u", 3, 1)
	offsets.Internal = true
	quiet.Partitions[0].Leader.Set(core.NoNode, fixtureEpoch)
	if len(answers)%8 != 7 {
		fx.loop.image = fx.loop.image.WithTopic(offsets).WithTopic(quiet)
		fx.loop.image.Quotas = meta.Quotas{{{Used: true, Name: "sample"}, {Used: true, Default: true}}: {"producer_byte_rate": 5}}
	}
	s := &drawnRequests{fixture: fx, s: draw.New(fields), a: draw.New(answers)}
	s.s.Texts, s.s.Numbers, s.s.Bytes = s.texts, s.numbers, drawnBytes
	s.s.Rare = func(field string) bool { return field == "TransactionalID" }
	s.s.IDs = [][16]byte{{15: 1}, {15: 1}, {15: 2}, {15: 3}, {15: 99}}
	fx.loop.answer = s.answer
	for n := range 3 {
		if n > 0 && s.s.Done() {
			break
		}
		if n > 0 && s.s.N(2) == 1 { // else another of the same
			row, version = s.s.Byte(), s.s.Byte()
		}
		all := apis()
		a := all[int(row)%len(all)]
		if !s.send(a, a.min+int16(version)%(a.max-a.min+1)) {
			break
		}
	}
}

// drawnRequests are the requests of one run.
type drawnRequests struct {
	*fixture
	s, a    *draw.Source // of requests and of answers
	session int64        // fetch session
	told    int          // bytes that the shards' answers hold
}

func (d *drawnRequests) texts(field string) []string {
	switch field {
	case "ResourceName":
		return []string{"t", "t", "1", "", "u", "nope"}
	case "Type", "EntityType":
		return []string{"user", "client-id", "ip"}
	case "ConfigNames", "Name":
		return []string{"retention.ms", "log.retention.ms", "cleanup.policy", "range"}
	case "ClusterID":
		return []string{"cluster-of-tests", "other"}
	case "ClientSoftwareName", "ClientSoftwareVersion":
		return []string{"kgo", "1", "-"}
	}
	first := sampleText(field)
	return []string{first, first, first, "u", offsetsTopic, "nope", "a b"}
}

func (d *drawnRequests) numbers(field string) []int64 {
	switch {
	case field == "Partition" || field == "Partitions":
		return []int64{0, 0, 1, 3, 4, -1}
	case field == "SessionID":
		return []int64{0, d.session, d.session}
	case field == "SessionEpoch":
		return []int64{-1, 0, 1, 2}
	case field == "Timestamp":
		return []int64{-1, -2, -3, -4, -5, -6, -7, 1000}
	case field == "FetchOffset" || field == "Offset":
		return []int64{0, 1, 100, -1}
	case field == "ResourceType" || field == "ResourceTypes":
		return []int64{2, 4, 2, 4, 8, 16, 32, 99}
	case field == "Acks":
		return []int64{-1, 1, -1, 1, 0, 2}
	case field == "CoordinatorType" || field == "MatchType":
		return []int64{0, 0, 1, 2}
	case field == "EndpointType":
		return []int64{1, 2, 3}
	case field == "ResponsePartitionLimit":
		return []int64{1, 2, 1000}
	case field == "ReplicaID", field == "CurrentLeaderEpoch", field == "LastFetchedEpoch":
		return []int64{-1, -1, 3}
	}
	return nil
}

func drawnBytes(field string) [][]byte {
	one := testBatch(2, "ab")
	old, zstd := slices.Clone(one), slices.Clone(one)
	old[16] = 1
	zstd[22] |= 4
	return [][]byte{one, one, append(slices.Clone(one), one...), old, zstd, one[:20], {}}
}

// send sends one request and looks at its end; false where that ended the
// connection.
func (d *drawnRequests) send(a api, version int16) bool {
	req := kmsg.RequestForKey(int16(a.key))
	d.s.Fill(req)
	frame := frameBytes(req, version)
	kept := bytes.Clone(frame)
	d.told = 0
	place := d.serve(frame)
	for d.loop.run(); ; {
		d.loop.advance(400 * core.Second)
		held := d.loop.held
		d.loop.held = nil
		if len(held) == 0 {
			break
		}
		for _, q := range held { // too late for the client, perhaps
			d.fill(q)
			q.Base().Owner.(Continuation).Resume(q)
		}
		d.loop.run()
	}
	reply, replied := d.conn.replies[place]
	if d.conn.closed != "" {
		if p, ok := req.(*kmsg.ProduceRequest); !ok || p.Acks != 0 && version >= produceFirstServed {
			d.t.Fatalf("%s version %d, %+v: closed with %q", a.key.Name(), version, req, d.conn.closed)
		}
		return false
	}
	if !replied {
		d.t.Fatalf("%s version %d, %+v: no end", a.key.Name(), version, req)
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		if len(reply) > 0 {
			d.t.Fatalf("a Produce with acks=0 is answered with %x", reply)
		}
		return true
	}
	resp := readReply(d.t, kept, req, reply)
	if f, ok := resp.(*kmsg.FetchResponse); ok && f.SessionID != 0 {
		d.session = int64(f.SessionID)
	}
	if most := answerBase + answerPerByte*len(kept) + 2*d.told; len(reply) > most {
		d.t.Fatalf("%s version %d: %d bytes are answered with %d, at most %d are expected", a.key.Name(), version, len(kept), len(reply), most)
	}
	return true
}

// An answer holds what the node knows, as often as mentionsMax, and some bytes for
// each of the request.
const (
	answerBase    = 512 << 10
	answerPerByte = 30
)

// answer leaves one request in eight to be answered late.
func (d *drawnRequests) answer(_ core.ShardID, q shard.Request) bool {
	if _, fetches := q.(*shard.Fetch); !fetches && d.a.N(8) == 7 {
		return false
	}
	d.fill(q)
	return true
}

// fill draws what a shard answers.
func (d *drawnRequests) fill(q shard.Request) {
	if d.a.N(4) == 3 {
		q.Base().Err = fmt.Errorf("%w: drawn", errorCodes[d.a.N(len(errorCodes))].err)
	}
	offset := func() core.Offset { return core.Offset(d.a.Number(7, nil, 64)) }
	switch q := q.(type) {
	case *shard.Produce:
		q.BaseOffset, q.LogStart, q.AppendTimeMs = offset(), offset(), d.a.Number(-1, nil, 64)
		q.CurrentLeader, q.CurrentEpoch = core.NodeID(d.a.N(3)), fixtureEpoch
		for range d.a.N(3) {
			q.RecordErrors = append(q.RecordErrors, shard.RecordError{Index: int32(d.a.N(9)), Message: "drawn"})
		}
	case *shard.Fetch:
		for i := range q.Parts {
			d.fillFetched(&q.Parts[i])
			q.Have += q.Parts[i].Data.Bytes
		}
		q.AtOnce = d.a.N(2) == 1
	case *shard.ListOffset:
		q.Offset, q.FoundTimeMs, q.LeaderEpoch = offset(), d.a.Number(-1, nil, 64), fixtureEpoch
	case *shard.EpochEnd:
		q.End = shard.EpochEndOffset{Epoch: core.Term(d.a.N(5)), End: offset()}
	case *shard.DeleteRecords:
		q.LogStart = offset()
	case *shard.Describe:
		q.SizeBytes = d.a.Number(100, nil, 64)
		for range d.a.N(4) {
			q.Active = append(q.Active, shard.ActiveProducer{ID: d.a.Number(7, nil, 64), TxnStart: -1})
		}
	case *shard.Coordinate:
		d.fillCommand(q)
	}
}

func (d *drawnRequests) fillFetched(p *shard.FetchPart) {
	if d.a.N(4) == 3 {
		p.Err = errorCodes[d.a.N(len(errorCodes))].err
	}
	p.HighWatermark, p.LastStable, p.LogStart = core.Offset(d.a.N(9)), core.Offset(d.a.N(9)), core.Offset(d.a.N(3))
	p.Leader, p.LeaderEpoch = core.NodeID(d.a.N(3)), fixtureEpoch
	if d.a.N(8) == 7 {
		p.Diverging = &shard.EpochEndOffset{Epoch: 2, End: 5}
	}
	for range d.a.N(3) {
		buf, err := d.loop.arena.Alloc(1 + d.a.N(200))
		if err != nil {
			d.t.Fatal(err)
		}
		p.Data.Bufs, p.Data.Bytes = append(p.Data.Bufs, buf), p.Data.Bytes+buf.Len()
	}
	d.told += p.Data.Bytes
}

// fillCommand draws a state machine's answer: a response with an entry for each of
// the request's, as they give.
func (d *drawnRequests) fillCommand(q *shard.Coordinate) {
	switch body := q.Command.Body.(type) {
	case meta.AllocateProducerIDs:
		q.Command.Reply = meta.ProducerIDBlock{First: int64(d.a.N(100)), Count: 1 + int32(d.a.N(3))}
	case meta.TopicsDeleted:
		q.Command.Reply = meta.TopicsDeletedReply{}
	case kmsg.Request:
		resp := body.ResponseKind()
		d.a.Texts = d.texts
		d.a.Fill(resp)
		match(reflect.ValueOf(body).Elem(), reflect.ValueOf(resp).Elem())
		resp.SetVersion(body.GetVersion())
		d.told += len(resp.AppendTo(nil))
		q.Command.Reply = resp
		if q.Partition == core.MetadataPartition {
			applied := &meta.Applied{Reply: resp, Version: d.loop.image.Version}
			for range d.a.N(3) {
				applied.NewPartitions = append(applied.NewPartitions, core.FirstPartition+core.PartitionID(d.a.N(4)))
			}
			q.Command.Reply = applied
		}
	}
}

// match makes the lists of an answer as long as those of the request of the same
// name.
func match(req, resp reflect.Value) {
	for i := range resp.NumField() {
		out := resp.Field(i)
		in := req.FieldByName(resp.Type().Field(i).Name)
		if out.Kind() != reflect.Slice || !in.IsValid() || in.Kind() != reflect.Slice {
			continue
		}
		for out.Len() < in.Len() {
			out.Set(reflect.Append(out, reflect.Zero(out.Type().Elem())))
		}
		out.SetLen(in.Len())
	}
}
