package group

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/meta"
)

// image is the metadata of now; never nil.
func (m *Machine) image() *meta.Image {
	if m.opts.Image != nil {
		if im := m.opts.Image(); im != nil {
			return im
		}
	}
	return &meta.Image{}
}

// tooManyGroups says that a group cannot be taken in, because it is new.
func (m *Machine) tooManyGroups(id string) bool {
	return m.groups[id] == nil && m.saved[id] == nil &&
		(max(len(m.groups), len(m.saved)) >= m.opts.GroupsMax || m.memoryFull(int64(len(id)+groupOverhead)))
}

// exists says whether the group is known, if only by its offsets.
func (m *Machine) exists(id string) bool { return m.groups[id] != nil || m.saved[id] != nil }

// checkCommit says whether this member may commit offsets, and keeps its session
// alive if so, as heartbeats do.
func (m *Machine) checkCommit(req *kmsg.OffsetCommitRequest) *kerr.Error {
	g := m.groups[req.Group]
	if !m.exists(req.Group) {
		switch {
		case len(req.Group) > textBytesMax:
			return kerr.UnknownServerError
		case req.Generation >= 0 && req.Version >= 9:
			return kerr.GroupIDNotFound
		case req.Generation >= 0:
			return kerr.IllegalGeneration
		case m.tooManyGroups(req.Group):
			m.refused++
			return kerr.CoordinatorNotAvailable
		}
		return nil
	}
	empty := g == nil || g.state == stateEmpty
	if req.Generation < 0 && empty {
		return nil
	}
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		return kerr.UnknownMemberID // a simple consumer, and the group is in use
	}
	if g == nil {
		return kerr.UnknownMemberID
	}
	mb, e := g.find(req.MemberID, req.InstanceID)
	switch {
	case e != nil:
		return e
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == stateCompleting:
		return kerr.RebalanceInProgress
	}
	m.keepAlive(g, mb)
	return nil
}

// offsetCommit answers OffsetCommit, v2 to v10 (topic IDs).
func (m *Machine) offsetCommit(cmd *core.Command, req *kmsg.OffsetCommitRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	im, refused := m.image(), m.checkCommit(req)
	s := m.saved[req.Group]
	count, bytes, growth, heap := 0, int64(0), int64(0), int64(0)
	if s != nil {
		count = len(s.offsets)
	}
	var records []core.Record
	var missing committedTopics // topics and partitions that do not exist
	for _, t := range req.Topics {
		topic, out := findTopic(im, req.Version, t.Topic, t.TopicID), kmsg.NewOffsetCommitResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		if topic == nil {
			missing.add(out) // named also without partitions, as in Kafka
		}
		for i := range t.Partitions {
			p, op := &t.Partitions[i], kmsg.NewOffsetCommitResponseTopicPartition()
			op.Partition = p.Partition
			if e := checkTopic(topic, req.Version, p); e != nil {
				op.ErrorCode = e.Code
				no := kmsg.OffsetCommitResponseTopic{Topic: t.Topic, TopicID: t.TopicID, Partitions: []kmsg.OffsetCommitResponseTopicPartition{op}}
				missing.add(no)
				continue
			}
			e := refused
			if e == nil && p.Metadata != nil && len(*p.Metadata) > m.opts.MetadataBytesMax {
				e = kerr.OffsetMetadataTooLarge
			}
			if e == nil {
				r := m.commitRecord(im, req, topic, p)
				at := topicPartition{topic.Name, p.Partition}
				grows := recordBytes(r)
				if s == nil || s.offsets[at] == nil {
					count++
					heap += offsetOverhead
				} else {
					grows -= s.offsets[at].bytes
				}
				bytes += recordBytes(r)
				// What shrinks makes no room: the partition may be named again.
				growth += max(grows, 0)
				if count > m.opts.GroupOffsetsMax || bytes > recordBytesMax ||
					grows > 0 && (m.liveBytes+growth > m.opts.LiveBytesMax || m.memoryFull(growth+heap)) {
					m.refused++
					e = kerr.InvalidCommitOffsetSize
				} else {
					records = append(records, r)
				}
			}
			if e != nil {
				op.ErrorCode = e.Code
			}
			out.Partitions = append(out.Partitions, op)
		}
		if len(out.Partitions) > 0 {
			resp.Topics = append(resp.Topics, out)
		}
	}
	if missing.at != nil {
		for _, t := range resp.Topics {
			missing.add(t)
		}
		resp.Topics = missing.topics
	}
	if len(records) == 0 {
		m.reply(cmd, resp)
		return
	}
	cmd.Reply = resp
	m.write(nil, records, cmd)
}

// committedTopics is an answer as Kafka makes it where something that a request names
// does not exist: that comes first, and the rest is merged into it. Where all exist, a
// topic that is named twice is answered twice.
type committedTopics struct {
	topics []kmsg.OffsetCommitResponseTopic
	at     map[committedTopic]int
}

type committedTopic struct {
	name string
	id   [16]byte
}

func (c *committedTopics) add(t kmsg.OffsetCommitResponseTopic) {
	key := committedTopic{t.Topic, t.TopicID}
	if i, ok := c.at[key]; ok {
		c.topics[i].Partitions = append(c.topics[i].Partitions, t.Partitions...)
		return
	}
	if c.at == nil {
		c.at = make(map[committedTopic]int)
	}
	c.at[key] = len(c.topics)
	c.topics = append(c.topics, t)
}

func findTopic(im *meta.Image, version int16, name string, id core.TopicID) *meta.Topic {
	if version >= 10 {
		return im.TopicByID(id)
	}
	return im.Topic(name)
}

// checkTopic refuses what does not exist, before the group is looked at.
func checkTopic(t *meta.Topic, version int16, p *kmsg.OffsetCommitRequestTopicPartition) *kerr.Error {
	switch {
	case t == nil && version >= 10:
		return kerr.UnknownTopicID
	case t == nil || p.Partition < 0 || int(p.Partition) >= len(t.Partitions):
		return kerr.UnknownTopicOrPartition
	}
	return nil
}

func (m *Machine) commitRecord(im *meta.Image, req *kmsg.OffsetCommitRequest, t *meta.Topic, p *kmsg.OffsetCommitRequestTopicPartition) core.Record {
	c := committed{offset: p.Offset, leaderEpoch: p.LeaderEpoch, commitMs: m.now.Millis(), expireMs: -1, topicID: t.ID, image: im.Version}
	if p.Metadata != nil {
		c.metadata = *p.Metadata
	}
	if req.Version < 6 {
		c.leaderEpoch = -1
	}
	if req.Version <= 4 && req.RetentionTimeMillis >= 0 {
		c.expireMs = c.commitMs + req.RetentionTimeMillis
	}
	return encodeOffset(req.Group, topicPartition{t.Name, p.Partition}, &c)
}

// lookup finds a committed offset; nil if there is none. One that was committed
// for a topic that has been deleted does not count.
func (m *Machine) lookup(im *meta.Image, group string, at topicPartition) *committed {
	s := m.saved[group]
	if s == nil {
		return nil
	}
	c := s.offsets[at]
	if c == nil || c.stale(im, at.topic) {
		return nil
	}
	return c
}

// stale says for certain that the topic for which the offset was committed has
// been deleted since. An image that lacks the topic proves that only if it is not
// older than the one that had it: a new leader may still be behind. Versions are
// those of the controller's log, the same on every node, and IDs are never used
// again. Of an offset that does not tell the image, another topic of the same
// name is proof; one that does not tell the ID either is kept.
func (c *committed) stale(im *meta.Image, topic string) bool {
	switch {
	case c.topicID == core.TopicID{}:
		return false
	case c.image > 0:
		return im.Version >= c.image && im.TopicByID(c.topicID) == nil
	}
	t := im.Topic(topic)
	return t != nil && c.topicID != t.ID
}

// sortedOffsets lists what a group has committed, by topic and partition.
func (s *savedGroup) sortedOffsets() []topicPartition {
	out := make([]topicPartition, 0, len(s.offsets))
	for at := range s.offsets {
		out = append(out, at)
	}
	slices.SortFunc(out, func(a, b topicPartition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return out
}

// offsetFetch answers OffsetFetch: one group up to v7, several from v8 on. RequireStable
// has nothing to wait for: there are no transactional commits.
func (m *Machine) offsetFetch(cmd *core.Command, req *kmsg.OffsetFetchRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	bytes := 0
	if req.Version >= 8 {
		for i := range req.Groups {
			resp.Groups = append(resp.Groups, m.fetchGroup(&req.Groups[i], req.Version, &bytes))
		}
		m.reply(cmd, resp)
		return
	}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	all := m.fetchGroup(&g, req.Version, &bytes)
	resp.ErrorCode = all.ErrorCode
	for _, t := range all.Topics {
		out := kmsg.NewOffsetFetchResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			op := kmsg.NewOffsetFetchResponseTopicPartition()
			op.Partition, op.Offset, op.LeaderEpoch, op.Metadata, op.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	m.reply(cmd, resp)
}

// answerBytesMax bounds what one coordinator tells in answer to one request; a group
// beyond it is answered with UNKNOWN_SERVER_ERROR. What a group has may be told once
// for each byte of a request.
const answerBytesMax = 32 << 20

// fetchGroup adds what it tells to bytes.
func (m *Machine) fetchGroup(g *kmsg.OffsetFetchRequestGroup, version int16, bytes *int) kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = g.Group
	if *bytes <= answerBytesMax {
		out.Topics = m.fetchTopics(g, version)
	}
	for i := range out.Topics {
		for _, p := range out.Topics[i].Partitions {
			*bytes += offsetAnswerBytes + len(*p.Metadata)
		}
	}
	if *bytes > answerBytesMax {
		m.refused++
		out.Topics, out.ErrorCode = nil, kerr.UnknownServerError.Code
	}
	return out
}

const offsetAnswerBytes = 20 // of an answer for a partition, without its text

func (m *Machine) fetchTopics(g *kmsg.OffsetFetchRequestGroup, version int16) (out []kmsg.OffsetFetchResponseGroupTopic) {
	im := m.image()
	if g.Topics == nil {
		return m.fetchAll(im, g.Group, version)
	}
	for _, t := range g.Topics {
		ot := kmsg.NewOffsetFetchResponseGroupTopic()
		ot.Topic, ot.TopicID = t.Topic, t.TopicID
		name, code := t.Topic, int16(0)
		if version >= 10 {
			if known := im.TopicByID(t.TopicID); known != nil {
				name = known.Name
			} else {
				code = kerr.UnknownTopicID.Code
			}
		}
		for _, p := range t.Partitions {
			var c *committed
			if code == 0 {
				c = m.lookup(im, g.Group, topicPartition{name, p})
			}
			ot.Partitions = append(ot.Partitions, fetched(p, c, code))
		}
		out = append(out, ot)
	}
	return out
}

// fetchAll lists all offsets of a group. By ID only those whose topic is known.
func (m *Machine) fetchAll(im *meta.Image, group string, version int16) []kmsg.OffsetFetchResponseGroupTopic {
	s := m.saved[group]
	if s == nil {
		return nil
	}
	var out []kmsg.OffsetFetchResponseGroupTopic
	last := ""
	for _, at := range s.sortedOffsets() {
		c, t := s.offsets[at], im.Topic(at.topic)
		if c.stale(im, at.topic) || version >= 10 && t == nil {
			continue
		}
		if len(out) == 0 || last != at.topic {
			ot := kmsg.NewOffsetFetchResponseGroupTopic()
			ot.Topic = at.topic
			if t != nil {
				ot.TopicID = t.ID
			}
			out, last = append(out, ot), at.topic
		}
		ot := &out[len(out)-1]
		ot.Partitions = append(ot.Partitions, fetched(at.partition, c, 0))
	}
	return out
}

func fetched(partition int32, c *committed, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, -1, -1, new(string), code
	if c != nil {
		p.Offset, p.LeaderEpoch = c.offset, c.leaderEpoch
		*p.Metadata = c.metadata
	}
	return p
}

// offsetDelete answers OffsetDelete (KIP-496).
func (m *Machine) offsetDelete(cmd *core.Command, req *kmsg.OffsetDeleteRequest) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	g := m.groups[req.Group]
	inUse := g != nil && g.state != stateEmpty
	switch {
	case req.Group == "":
		resp.ErrorCode = kerr.InvalidGroupID.Code
	case !m.exists(req.Group):
		resp.ErrorCode = kerr.GroupIDNotFound.Code
	case inUse && g.protocolType != consumerProtocol:
		resp.ErrorCode = kerr.NonEmptyGroup.Code
	}
	if resp.ErrorCode != 0 {
		m.reply(cmd, resp)
		return
	}
	im := m.image()
	var records []core.Record
	for _, t := range req.Topics {
		if len(t.Partitions) == 0 && im.Topic(t.Topic) != nil {
			continue // as in Kafka, which names the others
		}
		out := kmsg.NewOffsetDeleteResponseTopic()
		out.Topic = t.Topic
		for _, p := range t.Partitions {
			op := kmsg.NewOffsetDeleteResponseTopicPartition()
			op.Partition = p.Partition
			at := topicPartition{t.Topic, p.Partition}
			switch {
			case im.Partition(t.Topic, p.Partition) == nil:
				op.ErrorCode = kerr.UnknownTopicOrPartition.Code
			case inUse && g.usesTopic(t.Topic):
				op.ErrorCode = kerr.GroupSubscribedToTopic.Code
			case m.saved[req.Group] != nil && m.saved[req.Group].offsets[at] != nil:
				records = append(records, encodeOffset(req.Group, at, nil))
			}
			out.Partitions = append(out.Partitions, op)
		}
		resp.Topics = append(resp.Topics, out)
	}
	cmd.Reply = resp
	m.writeBatches(records, cmd)
}

// writeBatches appends many records in Writes of bounded size; the reply, if
// there is one, goes with the last.
func (m *Machine) writeBatches(records []core.Record, cmd *core.Command) {
	for len(records) > 0 {
		n, bytes := 0, int64(0)
		for n < len(records) && (n == 0 || bytes+recordBytes(records[n]) <= batchBytes) {
			bytes += recordBytes(records[n])
			n++
		}
		m.write(nil, records[:n:n])
		records = records[n:]
	}
	if cmd == nil {
		return
	}
	if n := len(m.out.Writes); n > 0 && len(m.out.Writes[n-1].Records) > 0 {
		m.out.Writes[n-1].Replies = append(m.out.Writes[n-1].Replies, cmd)
		return
	}
	m.reply(cmd, cmd.Reply)
}

// topicsDeleted removes the offsets of topics that are gone. Those of a topic
// that has been made again under the name stay. What it is not told of goes with
// the next look for expired offsets.
func (m *Machine) topicsDeleted(cmd *core.Command, req meta.TopicsDeleted) {
	gone := make(map[string]bool, len(req.Names))
	for _, name := range req.Names {
		gone[name] = true
	}
	im := m.image()
	var records []core.Record
	for _, id := range m.savedIDs() {
		s := m.saved[id]
		for _, at := range s.sortedOffsets() {
			c := s.offsets[at]
			if gone[at.topic] && (c.stale(im, at.topic) || im.Topic(at.topic) == nil && im.Version >= c.image) {
				records = append(records, encodeOffset(id, at, nil))
			}
		}
	}
	cmd.Reply = meta.TopicsDeletedReply{Offsets: len(records)}
	m.writeBatches(records, cmd)
}
