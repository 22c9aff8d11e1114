package main

import "github.com/twmb/franz-go/pkg/kmsg"

func (g *gen) sessionStep() {
	switch n := g.r.IntN(100); {
	case n < 25:
		g.produceWith(func(string) batchSpec { return g.plainBatch() })
	case n < 92:
		g.sessionFetch()
	case n < 96:
		g.deleteRecords()
	default:
		g.createPartitions()
	}
}

// fetch is one without a session.
func (g *gen) fetch() {
	req := g.newFetch()
	req.SessionID, req.SessionEpoch = 0, -1
	for range mostly(g, 85, 1, 2, 0) {
		req.Topics = append(req.Topics, g.fetchTopic())
	}
	g.add(req)
}

func (g *gen) newFetch() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = mostly(g, 98, int32(-1), -2)
	req.MaxWaitMillis = mostly(g, 80, int32(0), 5, 10)
	req.MinBytes = mostly(g, 80, int32(0), 1, 1000)
	req.MaxBytes = mostly(g, 75, int32(50<<20), 0, 1, 200, 1000)
	req.IsolationLevel = mostly(g, 60, int8(0), 1)
	return req
}

func (g *gen) fetchTopic() kmsg.FetchRequestTopic {
	name, partitions := g.topic()
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = name, topicIDOf(name)
	for range mostly(g, 80, 1, 2) {
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition = g.partition(partitions)
		p.CurrentLeaderEpoch = g.epoch()
		p.FetchOffset = g.offset(name, p.Partition)
		p.LastFetchedEpoch = mostly(g, 85, int32(-1), 0, 1, 5)
		p.LogStartOffset = mostly(g, 95, int64(-1), 0)
		p.PartitionMaxBytes = mostly(g, 75, int32(1<<20), 0, 1, 100, 300)
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// sessionFetch begins, continues or ends a fetch session, or breaks its rules.
func (g *gen) sessionFetch() {
	req := g.newFetch()
	req.Version = max(7, g.version(kmsg.Fetch))
	if len(g.sessions) == 0 || g.chance(12) {
		g.beginSession(req)
		return
	}
	s := g.sessions[g.r.IntN(len(g.sessions))]
	req.SessionID, req.SessionEpoch = sessionOf(s.step), s.epoch
	if g.chance(75) {
		s.epoch++
		if g.chance(45) {
			req.Topics = append(req.Topics, g.fetchTopic())
		}
		if g.chance(20) {
			name, partitions := g.topic()
			f := kmsg.NewFetchRequestForgottenTopic()
			f.Topic, f.TopicID = name, topicIDOf(name)
			f.Partitions = []int32{g.partition(partitions)}
			req.ForgottenTopics = append(req.ForgottenTopics, f)
		}
		// A session keeps to topic names or to topic ids.
		if first := g.q.Steps[s.step].Req.GetVersion(); g.chance(90) && (first >= 13) != (req.Version >= 13) {
			req.Version = first
		}
		g.addAs(req, s.conn)
		return
	}
	switch g.r.IntN(4) {
	case 0:
		req.SessionEpoch += oneOf[int32](g, 1, -1, 100)
	case 1:
		req.SessionID = oneOf[int32](g, 12345, -1, 1)
	case 2:
		req.SessionEpoch = -1 // ends it
		req.Topics = append(req.Topics, g.fetchTopic())
	default:
		req.SessionEpoch = oneOf[int32](g, 0, -2)
		req.Topics = append(req.Topics, g.fetchTopic())
	}
	g.addAs(req, s.conn)
}

func (g *gen) beginSession(req *kmsg.FetchRequest) {
	req.SessionID, req.SessionEpoch = 0, 0
	for range mostly(g, 80, 1, 2, 0) {
		req.Topics = append(req.Topics, g.fetchTopic())
	}
	s := &genSession{step: g.nextID(), conn: g.freeConn(), epoch: 1}
	g.addAs(req, s.conn)
	g.sessions = append(g.sessions, s)
}
