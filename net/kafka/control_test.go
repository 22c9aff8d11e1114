package kafka

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/shard"
)

// scriptLoop is a Loop whose shards are a function of the test. Requests are
// kept until run answers them, as real shards answer in later turns.
type scriptLoop struct {
	Loop
	now     core.Tick
	shards  int
	image   *meta.Image
	answer  func(to core.ShardID, q shard.Request)
	pending []func()
	most    int // pending at a time
}

func (l *scriptLoop) Shard() core.ShardID { return 0 }
func (l *scriptLoop) Shards() int         { return l.shards }
func (l *scriptLoop) Now() core.Tick      { return l.now }
func (l *scriptLoop) Image() *meta.Image  { return l.image }
func (l *scriptLoop) Submit(to core.ShardID, q shard.Request) {
	l.pending = append(l.pending, func() {
		l.answer(to, q)
		q.Base().Owner.(Continuation).Resume(q)
	})
	l.most = max(l.most, len(l.pending))
}

// run answers what was submitted, the newest first, until nothing is left.
func (l *scriptLoop) run() {
	for len(l.pending) > 0 {
		p := l.pending
		l.pending = nil
		for _, f := range slices.Backward(p) {
			f()
		}
	}
}

type scriptConn struct {
	Conn
	info    ConnInfo
	replies map[uint64][]byte
	closed  string
}

func (c *scriptConn) Info() *ConnInfo       { return &c.info }
func (c *scriptConn) Parked(uint64, Waiter) {}
func (c *scriptConn) Reply(place uint64, r Reply) {
	if _, twice := c.replies[place]; twice {
		panic("a place was filled twice")
	}
	c.replies[place] = r.Head
}
func (c *scriptConn) Close(reason string) { c.closed = reason }

// testbed is a Worker over a scriptLoop.
type testbed struct {
	t      *testing.T
	loop   *scriptLoop
	conn   *scriptConn
	server *Server
	worker *Worker
	place  uint64
	logged []string
}

func newTestbed(t *testing.T) *testbed {
	b := &testbed{t: t, loop: &scriptLoop{now: 1000 * core.Second, shards: 3}}
	b.conn = &scriptConn{info: ConnInfo{Listener: "PLAINTEXT", Host: "/127.0.0.1"}, replies: make(map[uint64][]byte)}
	cfg := config.Defaults()
	b.server = NewServer(Options{
		Node: 1, NumPartitions: 1, DefaultReplicationFactor: 1, OffsetsTopicPartitions: 50, OffsetsTopicReplicationFactor: 1,
		FetchMaxBytes: 1 << 20, FetchSessionsMax: 10, FetchSessionBytesMax: 1 << 20, PartitionsPerDescribeMax: 2000, ProducerIDBlock: 1000,
		Config:    func() *config.Config { return cfg },
		DataDir:   "/data",
		DiskSpace: func() (int64, int64) { return 60, 100 },
		Logf:      func(f string, args ...any) { b.logged = append(b.logged, fmt.Sprintf(f, args...)) },
	})
	b.worker = b.server.NewWorker(b.loop)
	b.loop.image = &meta.Image{Version: 1, ClusterID: "c", Controller: 1, Brokers: []meta.Broker{{ID: 1, Host: "h", Port: 9}}}
	return b
}

// addTopic makes partitions with ids of first on.
func (b *testbed) addTopic(name string, first core.PartitionID, n int) {
	t := &meta.Topic{ID: core.TopicID{15: byte(first), 0: 1}, Name: name, Configs: map[string]string{}}
	for i := range n {
		cell := new(meta.LeaderCell)
		cell.Set(1, 1)
		t.Partitions = append(t.Partitions, &meta.Partition{ID: first + core.PartitionID(i), Num: int32(i), Replicas: []core.NodeID{1}, Leader: cell})
	}
	b.loop.image = b.loop.image.WithTopic(t)
}

// do sends req in a version and returns the response; the shards answer as
// answer says.
func (b *testbed) do(req kmsg.Request, version int16, answer func(to core.ShardID, q shard.Request)) kmsg.Response {
	b.t.Helper()
	b.send(req, version, answer)
	b.loop.run()
	return b.received(req, version)
}

func (b *testbed) send(req kmsg.Request, version int16, answer func(to core.ShardID, q shard.Request)) {
	req.SetVersion(version)
	b.loop.answer = answer
	b.place++
	var frame []byte
	frame = binary.BigEndian.AppendUint16(frame, uint16(req.Key()))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(b.place))
	frame = append(frame, 0, 4)
	frame = append(frame, "test"...)
	if req.IsFlexible() {
		frame = append(frame, 0)
	}
	b.worker.Serve(b.conn, Frame{Bytes: req.AppendTo(frame), Place: b.place})
}

func (b *testbed) received(req kmsg.Request, version int16) kmsg.Response {
	b.t.Helper()
	reply, ok := b.conn.replies[b.place]
	if !ok {
		b.t.Fatalf("%s was not answered; closed: %q", kmsg.NameForKey(req.Key()), b.conn.closed)
	}
	if n := binary.BigEndian.Uint32(reply); int(n) != len(reply)-4 {
		b.t.Fatalf("length prefix %d of a frame of %d bytes", n, len(reply))
	}
	if id := binary.BigEndian.Uint32(reply[4:]); uint64(id) != b.place {
		b.t.Fatalf("correlation id %d, want %d", id, b.place)
	}
	body := reply[8:]
	resp := req.ResponseKind()
	resp.SetVersion(version)
	if resp.IsFlexible() {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// coordinate is a script that answers commands only.
func coordinate(t *testing.T, f func(p core.PartitionID, cmd *core.Command) error) func(core.ShardID, shard.Request) {
	return func(to core.ShardID, q shard.Request) {
		switch q := q.(type) {
		case *shard.Coordinate:
			if want := core.ShardOf(q.Partition, 3); to != want {
				t.Errorf("partition %d was asked of shard %d, shard %d owns it", q.Partition, to, want)
			}
			q.Err = f(q.Partition, &q.Command)
		case *shard.Await:
		default:
			t.Errorf("the shards were asked for a %T", q)
		}
	}
}

func TestListGroupsGathersOverAllPartitions(t *testing.T) {
	b := newTestbed(t)
	b.addTopic(offsetsTopic, 100, 50)
	req := kmsg.NewPtrListGroupsRequest()
	resp := b.do(req, 5, coordinate(t, func(p core.PartitionID, cmd *core.Command) error {
		if p == 103 {
			return core.ErrNotLeader // another node's: not in the list, no error
		}
		r := kmsg.NewPtrListGroupsResponse()
		g := kmsg.NewListGroupsResponseGroup()
		g.Group = fmt.Sprint("g", p)
		r.Groups = append(r.Groups, g)
		cmd.Reply = r
		return nil
	})).(*kmsg.ListGroupsResponse)
	if resp.ErrorCode != 0 || len(resp.Groups) != 49 {
		t.Errorf("error %d, %d groups; want 49", resp.ErrorCode, len(resp.Groups))
	}
	resp = b.do(req, 5, coordinate(t, func(p core.PartitionID, cmd *core.Command) error {
		if p == 120 {
			return fmt.Errorf("partition 120: %w", core.ErrCoordinatorLoad)
		}
		cmd.Reply = kmsg.NewPtrListGroupsResponse()
		return nil
	})).(*kmsg.ListGroupsResponse)
	if resp.ErrorCode != codeCoordinatorLoading {
		t.Errorf("error %d while a partition loads, want %d", resp.ErrorCode, codeCoordinatorLoading)
	}
}

// TestWhileTheCoordinatorLoads: a heartbeat is told that all is well, everything
// else to come again.
func TestWhileTheCoordinatorLoads(t *testing.T) {
	b := newTestbed(t)
	b.addTopic(offsetsTopic, 100, 1)
	loading := coordinate(t, func(core.PartitionID, *core.Command) error { return core.ErrCoordinatorLoad })
	for v := int16(0); v <= 4; v++ {
		if r := b.do(kmsg.NewPtrHeartbeatRequest(), v, loading).(*kmsg.HeartbeatResponse); r.ErrorCode != codeNone {
			t.Errorf("heartbeat version %d: error %d", v, r.ErrorCode)
		}
	}
	if r := b.do(kmsg.NewPtrJoinGroupRequest(), 9, loading).(*kmsg.JoinGroupResponse); r.ErrorCode != codeCoordinatorLoading {
		t.Errorf("join: error %d", r.ErrorCode)
	}
	if r := b.do(kmsg.NewPtrSyncGroupRequest(), 5, loading).(*kmsg.SyncGroupResponse); r.ErrorCode != codeCoordinatorLoading {
		t.Errorf("sync: error %d", r.ErrorCode)
	}
}

func TestGroupRequestsWithoutTheInternalTopic(t *testing.T) {
	b := newTestbed(t)
	none := coordinate(t, func(core.PartitionID, *core.Command) error { t.Error("a coordinator was asked"); return nil })
	if r := b.do(kmsg.NewPtrListGroupsRequest(), 5, none).(*kmsg.ListGroupsResponse); r.ErrorCode != 0 || len(r.Groups) != 0 {
		t.Errorf("%+v", r)
	}
	if r := b.do(kmsg.NewPtrHeartbeatRequest(), 4, none).(*kmsg.HeartbeatResponse); r.ErrorCode != codeNotCoordinator {
		t.Errorf("heartbeat: %d", r.ErrorCode)
	}
	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Groups = []string{"a", "b"}
	if r := b.do(del, 2, none).(*kmsg.DeleteGroupsResponse); len(r.Groups) != 2 || r.Groups[1].ErrorCode != codeNotCoordinator {
		t.Errorf("%+v", r)
	}
}

func TestRequestsOfSeveralGroupsAreSplitByCoordinator(t *testing.T) {
	b := newTestbed(t)
	b.addTopic(offsetsTopic, 100, 50)
	groups := []string{"a", "b", "c", "a2", "ab", "zz"}
	asked := map[string]core.PartitionID{}
	of := kmsg.NewPtrOffsetFetchRequest()
	for _, g := range groups {
		x := kmsg.NewOffsetFetchRequestGroup()
		x.Group = g
		of.Groups = append(of.Groups, x)
	}
	fetched := b.do(of, 9, coordinate(t, func(p core.PartitionID, cmd *core.Command) error {
		in := cmd.Body.(*kmsg.OffsetFetchRequest)
		if in.Version != 9 || cmd.Client.ClientID != "test" || cmd.Client.Host != "/127.0.0.1" {
			t.Errorf("version %d, client %+v", in.Version, cmd.Client)
		}
		out := kmsg.NewPtrOffsetFetchResponse()
		for _, g := range in.Groups {
			asked[g.Group] = p
			x := kmsg.NewOffsetFetchResponseGroup()
			x.Group = g.Group
			out.Groups = append(out.Groups, x)
		}
		if in.Groups[0].Group == "b" {
			return fmt.Errorf("b: %w", core.ErrNoLeader)
		}
		cmd.Reply = out
		return nil
	})).(*kmsg.OffsetFetchResponse)
	for i, g := range groups {
		if got := fetched.Groups[i]; got.Group != g || (got.ErrorCode == codeCoordinatorNotAvailable) != (g == "b") {
			t.Errorf("place %d: %+v, want group %s", i, got, g)
		}
		if want, _ := (&Request{w: b.worker}).groupPartition(g); asked[g] != want {
			t.Errorf("group %s was asked of %d, its coordinator is %d", g, asked[g], want)
		}
	}
	dg := kmsg.NewPtrDescribeGroupsRequest()
	dg.Groups, dg.IncludeAuthorizedOperations = groups, true
	described := b.do(dg, 6, coordinate(t, func(_ core.PartitionID, cmd *core.Command) error {
		out := kmsg.NewPtrDescribeGroupsResponse()
		for _, g := range cmd.Body.(*kmsg.DescribeGroupsRequest).Groups {
			x := kmsg.NewDescribeGroupsResponseGroup()
			x.Group, x.State = g, "Empty"
			if g == "c" {
				x.ErrorCode = 69
			}
			out.Groups = append(out.Groups, x)
		}
		cmd.Reply = out
		return nil
	})).(*kmsg.DescribeGroupsResponse)
	for i, g := range groups {
		got := described.Groups[i]
		if got.Group != g || (got.AuthorizedOperations == groupOperations) == (g == "c") {
			t.Errorf("place %d: %+v", i, got)
		}
	}
}

func TestGroupPartitionIsJavasHash(t *testing.T) {
	// abs(group.hashCode()) % 50.
	for group, want := range map[string]int32{"": 0, "a": 47, "test": 48, "console-consumer-1": 24, "größe": 7} {
		if got := core.GroupPartition(group, 50); got != want {
			t.Errorf("%q: %d, want %d", group, got, want)
		}
	}
}

func TestCreateTopicsWaitsForThePartitions(t *testing.T) {
	b := newTestbed(t)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 5000
	for _, name := range []string{"x", "y"} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 2, 1
		req.Topics = append(req.Topics, topic)
	}
	var awaited []core.PartitionID
	var awaitErr error
	script := func(_ core.ShardID, q shard.Request) {
		switch q := q.(type) {
		case *shard.Coordinate:
			out := kmsg.NewPtrCreateTopicsResponse()
			for _, name := range []string{"x", "y"} {
				topic := kmsg.NewCreateTopicsResponseTopic()
				topic.Topic = name
				if name == "y" {
					topic.ErrorCode = codeTopicAlreadyExists
				}
				out.Topics = append(out.Topics, topic)
			}
			q.Command.Reply = &meta.Applied{Reply: out, Version: 7, NewPartitions: []core.PartitionID{20, 21}}
		case *shard.Await:
			if want := b.loop.now + 5*core.Second; q.MinVersion != 7 || q.Deadline != want {
				t.Errorf("awaits version %d until %d, want 7 until %d", q.MinVersion, q.Deadline, want)
			}
			awaited = append(awaited, q.Partitions...)
			q.Err = awaitErr
		}
	}
	resp := b.do(req, 7, script).(*kmsg.CreateTopicsResponse)
	slices.Sort(awaited)
	if !slices.Equal(awaited, []core.PartitionID{20, 21}) {
		t.Errorf("awaited %v", awaited)
	}
	if resp.Topics[0].ErrorCode != 0 || resp.Topics[1].ErrorCode != codeTopicAlreadyExists {
		t.Errorf("%+v", resp.Topics)
	}
	awaitErr = fmt.Errorf("partition 20: %w", core.ErrNoLeader)
	resp = b.do(req, 7, script).(*kmsg.CreateTopicsResponse)
	if resp.Topics[0].ErrorCode != codeRequestTimedOut || resp.Topics[1].ErrorCode != codeTopicAlreadyExists {
		t.Errorf("partitions without a leader: %+v", resp.Topics)
	}
	resp = b.do(req, 7, coordinate(t, func(core.PartitionID, *core.Command) error { return core.ErrNoLeader })).(*kmsg.CreateTopicsResponse)
	if resp.Topics[0].ErrorCode != codeNotController || resp.Topics[1].ErrorCode != codeNotController {
		t.Errorf("without a controller: %+v", resp.Topics)
	}
}

func TestDeleteTopicsTellsTheCoordinators(t *testing.T) {
	b := newTestbed(t)
	b.addTopic(offsetsTopic, 100, 4)
	told := 0
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr("x")
	req.Topics = append(req.Topics, topic)
	resp := b.do(req, 6, coordinate(t, func(p core.PartitionID, cmd *core.Command) error {
		switch body := cmd.Body.(type) {
		case *kmsg.DeleteTopicsRequest:
			out := kmsg.NewPtrDeleteTopicsResponse()
			x := kmsg.NewDeleteTopicsResponseTopic()
			x.Topic = kmsg.StringPtr("x")
			out.Topics = append(out.Topics, x)
			cmd.Reply = &meta.Applied{Reply: out, Version: 3}
		case meta.TopicsDeleted:
			told++
			if !slices.Equal(body.Names, []string{"x"}) {
				t.Errorf("told of %v", body.Names)
			}
			if p == 102 {
				return core.ErrStorageFull
			}
			cmd.Reply = meta.TopicsDeletedReply{}
		}
		return nil
	})).(*kmsg.DeleteTopicsResponse)
	if told != 4 || resp.Topics[0].ErrorCode != 0 {
		t.Errorf("%d coordinators were told; answer %+v", told, resp.Topics[0])
	}
	if len(b.logged) != 1 || !strings.Contains(b.logged[0], "until its next look") {
		t.Errorf("logged %q", b.logged)
	}
}

func TestDescribeConfigs(t *testing.T) {
	b := newTestbed(t)
	b.addTopic("t", 20, 1)
	b.loop.image.Topic("t").Configs["retention.ms"] = "5"
	nobody := coordinate(t, func(core.PartitionID, *core.Command) error { t.Error("somebody was asked"); return nil })
	describe := func(kind kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
		req := kmsg.NewPtrDescribeConfigsRequest()
		x := kmsg.NewDescribeConfigsRequestResource()
		x.ResourceType, x.ResourceName, x.ConfigNames = kind, name, keys
		req.Resources = append(req.Resources, x)
		req.IncludeSynonyms, req.IncludeDocumentation = true, true
		return b.do(req, 4, nobody).(*kmsg.DescribeConfigsResponse).Resources[0]
	}
	all := describe(kmsg.ConfigResourceTypeTopic, "t")
	if len(all.Configs) != len(config.Defaults().DescribeTopic(nil)) {
		t.Errorf("%d topic configs", len(all.Configs))
	}
	one := describe(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "nope")
	if len(one.Configs) != 1 {
		t.Fatalf("%+v", one)
	}
	c := one.Configs[0]
	if *c.Value != "5" || c.Source != kmsg.ConfigSourceDynamicTopicConfig || c.ReadOnly || c.ConfigType != kmsg.ConfigTypeLong || *c.Documentation == "" {
		t.Errorf("%+v", c)
	}
	if len(c.ConfigSynonyms) != 1 { // the broker's default is in hours: no synonym
		t.Errorf("synonyms %+v", c.ConfigSynonyms)
	}
	b.loop.image.Topic("t").Configs["max.message.bytes"] = "5000"
	c = describe(kmsg.ConfigResourceTypeTopic, "t", "max.message.bytes").Configs[0]
	if len(c.ConfigSynonyms) != 2 || c.ConfigSynonyms[1].Name != "message.max.bytes" {
		t.Errorf("synonyms %+v", c.ConfigSynonyms)
	}
	node := describe(kmsg.ConfigResourceTypeBroker, "1", "node.id", "log.retention.ms")
	if len(node.Configs) != 2 || node.Configs[0].Value != nil || node.Configs[0].ReadOnly || *node.Configs[1].Value != "1" || !node.Configs[1].ReadOnly {
		t.Errorf("%+v", node)
	}
	for _, tc := range []struct {
		kind kmsg.ConfigResourceType
		name string
		code int16
		text string
	}{
		{kmsg.ConfigResourceTypeTopic, "missing", codeUnknownTopicOrPartition, "'missing' does not exist"},
		{kmsg.ConfigResourceTypeTopic, "no/pe", codeInvalidTopic, "Topic name is invalid"},
		{kmsg.ConfigResourceTypeBroker, "2", codeInvalidRequest, "expected 1 or empty string, but received 2"},
		{kmsg.ConfigResourceTypeBroker, "x", codeInvalidRequest, "must be an integer"},
		{kmsg.ConfigResourceTypeClientMetrics, "x", codeInvalidRequest, "not served"},
	} {
		r := describe(tc.kind, tc.name)
		if r.ErrorCode != tc.code || !strings.Contains(*r.ErrorMessage, tc.text) || len(r.Configs) != 0 {
			t.Errorf("%v %q: %d %q", tc.kind, tc.name, r.ErrorCode, *r.ErrorMessage)
		}
	}
}

func TestAlterConfigsOfAnotherBrokerIsRefusedHere(t *testing.T) {
	b := newTestbed(t)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, name := range []string{"2", "1", ""} {
		x := kmsg.NewIncrementalAlterConfigsRequestResource()
		x.ResourceType, x.ResourceName = kmsg.ConfigResourceTypeBroker, name
		req.Resources = append(req.Resources, x)
	}
	resp := b.do(req, 1, coordinate(t, func(_ core.PartitionID, cmd *core.Command) error {
		in := cmd.Body.(*kmsg.IncrementalAlterConfigsRequest)
		out := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, r := range in.Resources {
			x := kmsg.NewIncrementalAlterConfigsResponseResource()
			x.ResourceType, x.ResourceName = r.ResourceType, r.ResourceName
			out.Resources = append(out.Resources, x)
		}
		if len(in.Resources) != 2 {
			t.Errorf("the controller was given %d resources", len(in.Resources))
		}
		cmd.Reply = &meta.Applied{Reply: out, Version: 2}
		return nil
	})).(*kmsg.IncrementalAlterConfigsResponse)
	var codes []int16
	for i, r := range resp.Resources {
		codes = append(codes, r.ErrorCode)
		if r.ResourceName != req.Resources[i].ResourceName {
			t.Errorf("place %d holds %q", i, r.ResourceName)
		}
	}
	if !slices.Equal(codes, []int16{codeInvalidRequest, 0, 0}) {
		t.Errorf("codes %v", codes)
	}
}

func TestDescribeLogDirsAsksInWindows(t *testing.T) {
	b := newTestbed(t)
	b.addTopic("big", 1000, 700)
	b.addTopic("a", 20, 2)
	sizes := func(_ core.ShardID, q shard.Request) {
		d := q.(*shard.Describe)
		d.SizeBytes = int64(d.Partition)
		if d.Partition == 21 {
			d.Err = core.ErrUnknownPartition
		}
	}
	req := kmsg.NewPtrDescribeLogDirsRequest()
	dir := b.do(req, 4, sizes).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if dir.Dir != "/data" || dir.TotalBytes != 100 || dir.UsableBytes != 60 {
		t.Errorf("%+v", dir)
	}
	if len(dir.Topics) != 2 || dir.Topics[0].Topic != "a" || len(dir.Topics[0].Partitions) != 1 || len(dir.Topics[1].Partitions) != 700 {
		t.Fatalf("topics %+v", dir.Topics)
	}
	if p := dir.Topics[1].Partitions[699]; p.Partition != 699 || p.Size != 1699 {
		t.Errorf("%+v", p)
	}
	if b.loop.most > describeWindow {
		t.Errorf("%d requests under way at a time", b.loop.most)
	}
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "a", Partitions: []int32{0, 0, 9}}, {Topic: "none", Partitions: []int32{0}}}
	dir = b.do(req, 4, sizes).(*kmsg.DescribeLogDirsResponse).Dirs[0]
	if len(dir.Topics) != 1 || len(dir.Topics[0].Partitions) != 1 {
		t.Errorf("topics %+v", dir.Topics)
	}
	req.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	if dir = b.do(req, 4, sizes).(*kmsg.DescribeLogDirsResponse).Dirs[0]; len(dir.Topics) != 0 {
		t.Errorf("an empty list of topics gave %+v", dir.Topics)
	}
}

func TestDescribeClusterAndConfigResources(t *testing.T) {
	b := newTestbed(t)
	b.addTopic("t", 20, 1)
	nobody := coordinate(t, func(core.PartitionID, *core.Command) error { t.Error("somebody was asked"); return nil })
	b.server.opts.Advertised = func(l string) (Endpoint, bool) { return Endpoint{"outside", 99}, l == "PLAINTEXT" }
	dc := kmsg.NewPtrDescribeClusterRequest()
	dc.IncludeClusterAuthorizedOperations = true
	r := b.do(dc, 2, nobody).(*kmsg.DescribeClusterResponse)
	if r.ClusterID != "c" || r.ControllerID != 1 || len(r.Brokers) != 1 || r.Brokers[0].Host != "outside" || r.Brokers[0].Port != 99 || r.ClusterAuthorizedOperations != 8096 {
		t.Errorf("%+v", r)
	}
	b.conn.info.Listener = "INTERNAL"
	if r = b.do(dc, 2, nobody).(*kmsg.DescribeClusterResponse); r.Brokers[0].Host != "h" {
		t.Errorf("on a listener without an address of its own: %+v", r.Brokers[0])
	}
	for kind, code := range map[int8]int16{2: codeMismatchedEndpointType, 7: codeUnsupportedEndpointType} {
		dc.EndpointType = kind
		if r := b.do(dc, 2, nobody).(*kmsg.DescribeClusterResponse); r.ErrorCode != code || r.ErrorMessage == nil {
			t.Errorf("endpoint type %d: %+v", kind, r)
		}
	}
	lr := kmsg.NewPtrListConfigResourcesRequest()
	if r := b.do(lr, 1, nobody).(*kmsg.ListConfigResourcesResponse); len(r.ConfigResources) != 2 {
		t.Errorf("%+v", r)
	}
	lr.ResourceTypes = []int8{2}
	if r := b.do(lr, 1, nobody).(*kmsg.ListConfigResourcesResponse); len(r.ConfigResources) != 1 || r.ConfigResources[0].Name != "t" {
		t.Errorf("%+v", r)
	}
	lr.ResourceTypes = []int8{7}
	if r := b.do(lr, 1, nobody).(*kmsg.ListConfigResourcesResponse); r.ErrorCode != codeUnsupportedVersion {
		t.Errorf("%+v", r)
	}
	lr.ResourceTypes = nil
	if r := b.do(lr, 0, nobody).(*kmsg.ListConfigResourcesResponse); r.ErrorCode != 0 || len(r.ConfigResources) != 0 {
		t.Errorf("%+v", r)
	}
}

func TestRequestsAreCountedByAPIAndError(t *testing.T) {
	b := newTestbed(t)
	nobody := coordinate(t, func(core.PartitionID, *core.Command) error { return nil })
	b.do(kmsg.NewPtrHeartbeatRequest(), 4, nobody)
	b.do(kmsg.NewPtrDescribeClusterRequest(), 1, nobody)
	for _, a := range b.server.Stats() {
		var n uint64
		for _, c := range a.Latency {
			n += c
		}
		switch a.API {
		case "Heartbeat":
			if n != 1 || a.Errors["NOT_COORDINATOR"] != 1 {
				t.Errorf("%+v", a)
			}
		case "DescribeCluster":
			if n != 1 || len(a.Errors) != 0 {
				t.Errorf("%+v", a)
			}
		default:
			if n != 0 {
				t.Errorf("%+v", a)
			}
		}
	}
}
