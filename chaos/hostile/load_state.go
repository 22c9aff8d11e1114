package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupLoads are for the coordinators of groups. Members of one load are gone before
// the next: what it has to say is not that there is no room.
func groupLoads() []attack {
	all := []attack{
		{name: "20,000 groups that commit an offset", do: func(ctx context.Context, e *env) (outcome, error) {
			q := commitOf("")
			return e.stream(ctx, e.n(20_000), func(i int) []byte { return commitOf(fmt.Sprintf("commits-%d-%s", i, strings.Repeat("x", 200))).frame }, q,
				answered("NONE"), answered("INVALID_COMMIT_OFFSET_SIZE"), answered("COORDINATOR_NOT_AVAILABLE"))
		}},
		{name: "2,000 members with 10 KB of metadata join one group", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.joins(ctx, e.n(2000), func(i int) request { return encode(e.loadJoin("crowd", make([]byte, 10<<10)), 3) })
		}},
		{name: "3,000 members with 100 protocols join one group", do: func(ctx context.Context, e *env) (outcome, error) {
			return e.joins(ctx, e.n(3000), func(i int) request {
				req := e.loadJoin("parliament", nil)
				req.Protocols = nil
				for k := range 100 {
					p := kmsg.NewJoinGroupRequestProtocol()
					p.Name, p.Metadata = fmt.Sprintf("protocol-%d", k), []byte{}
					req.Protocols = append(req.Protocols, p)
				}
				return encode(req, 3)
			})
		}},
		{name: "20,000 members that take an ID and do not come back", do: func(ctx context.Context, e *env) (outcome, error) {
			q := encode(joinGroup("", "", nil), 5)
			return e.stream(ctx, e.n(20_000), func(i int) []byte {
				req := e.loadJoin(fmt.Sprintf("pending-%d", i%50), nil)
				return encode(req, 5).as(strings.Repeat("c", 5000)).frame
			}, q, answered("MEMBER_ID_REQUIRED"), answered("GROUP_MAX_SIZE_REACHED"), answered("COORDINATOR_NOT_AVAILABLE"))
		}},
		{name: "20,000 groups of one member each", do: func(ctx context.Context, e *env) (outcome, error) {
			q := encode(joinGroup("", "", nil), 3)
			return e.stream(ctx, e.n(20_000), func(i int) []byte { return encode(e.loadJoin(fmt.Sprintf("group-%d", i), nil), 3).frame }, q,
				answered("NONE"), answered("GROUP_MAX_SIZE_REACHED"), answered("COORDINATOR_NOT_AVAILABLE"))
		}},
	}
	for i := range all {
		all[i].before = (*env).membersGone
	}
	return all
}

// Members of the loads end soon after their connections.
const (
	loadSessionMs   = 1000
	loadRebalanceMs = 5000
	membersGoneWait = 15 * time.Second
)

func (e *env) loadJoin(group string, metadata []byte) *kmsg.JoinGroupRequest {
	req := joinGroup(group, "", metadata)
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = loadSessionMs, loadRebalanceMs
	if !e.o.broker.Ours() {
		req.SessionTimeoutMillis = 6000 // Kafka's least
	}
	return req
}

// membersGone waits until a group has room for a member of 4 MB, and for this one to
// be gone too.
func (e *env) membersGone(ctx context.Context) error {
	c, err := e.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	said := ""
	for end := time.Now().Add(membersGoneWait); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if said = c.ask(encode(e.loadJoin("probe", make([]byte, 4<<20)), 3), answerWait); said == answered("NONE") {
			time.Sleep(loadSessionMs*time.Millisecond + 300*time.Millisecond)
			return nil
		}
	}
	return fmt.Errorf("the members of the load before are still there after %v: %s", membersGoneWait, said)
}

func commitOf(group string) request {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topicName
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	text := strings.Repeat("m", 1000)
	p.Offset, p.Metadata = 1, &text
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return encode(req, 7)
}

// joins lets each connection ask to join and gives up after a while.
func (e *env) joins(ctx context.Context, n int, q func(i int) request) (outcome, error) {
	s, err := connect(ctx, e.broker.Addr(), n)
	if err != nil {
		return outcome{}, err
	}
	defer s.close()
	began := time.Now()
	s.each(64, func(i int, c *conn) string { return fmt.Sprint(c.send(q(i).frame, 10*time.Second) == nil) })
	time.Sleep(500 * time.Millisecond)
	got := s.each(n, func(i int, c *conn) string {
		c.r = bufio.NewReaderSize(c.Conn, 512)
		return c.answer(q(i), time.Second)
	})
	return got.told(fmt.Sprintf(" in %.1f s", time.Since(began).Seconds()), answered("NONE"), answered("GROUP_MAX_SIZE_REACHED"), noAnswerText)
}

// streamConns is how many connections share a stream of requests.
const streamConns = 8

// stream sends n requests over a few connections, each of which reads the answers
// as they come, and counts these.
func (e *env) stream(ctx context.Context, n int, frame func(i int) []byte, kind request, allowed ...string) (outcome, error) {
	s, err := connect(ctx, e.broker.Addr(), streamConns)
	if err != nil {
		return outcome{}, err
	}
	defer s.close()
	var mu sync.Mutex
	total := counts{}
	var group sync.WaitGroup
	began := time.Now()
	for k, c := range s.conns {
		mine := n / len(s.conns)
		group.Go(func() {
			for i := range mine {
				if c.send(frame(k*mine+i), 30*time.Second) != nil {
					return
				}
			}
		})
		group.Go(func() {
			c.r = bufio.NewReaderSize(c.Conn, 64<<10)
			got := counts{}
			for range mine {
				q := request{resp: kind.resp.RequestKind().ResponseKind(), flexible: kind.flexible}
				q.resp.SetVersion(kind.resp.GetVersion())
				said := c.answer(q, 30*time.Second)
				got[said]++
				if said == closedText || said == noAnswerText {
					break
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for s, n := range got {
				total[s] += n
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return outcome{}, err
	}
	return total.told(fmt.Sprintf(" in %.1f s", time.Since(began).Seconds()), allowed...)
}

// stateLoads make the broker remember.
func stateLoads() []attack {
	return []attack{
		{name: "100,000 producer ids asked for", do: func(ctx context.Context, e *env) (outcome, error) {
			q := encode(kmsg.NewPtrInitProducerIDRequest(), 1)
			return e.stream(ctx, e.n(100_000), func(int) []byte { return q.frame }, q, answered("NONE"))
		}},
		{name: "100,000 producer ids that produce once", do: func(ctx context.Context, e *env) (outcome, error) {
			q := encode(produceOf(-1, topicName, 1, nil), produceVersion)
			return e.stream(ctx, e.n(100_000), func(i int) []byte {
				batch := recordBatch(func(b *kmsg.RecordBatch) {
					b.ProducerID, b.ProducerEpoch, b.FirstSequence = 1_000_000+int64(i), 0, 0
				})
				return encode(produceOf(-1, topicName, int32(i%2), batch), produceVersion).frame
			}, q, answered("NONE"))
		}},
		{name: "3,000 fetch sessions of 1,000 topics that are not there", do: func(ctx context.Context, e *env) (outcome, error) {
			q := sessionOf(1000, 200)
			return e.stream(ctx, e.n(3_000), func(int) []byte { return q.frame }, q, "answer")
		}},
		{name: "60 fetch sessions of 9,000 topics with long names", do: func(ctx context.Context, e *env) (outcome, error) {
			q := sessionOf(9_000, 800) // 7.6 MB, a Fetch may have 8
			return e.stream(ctx, e.n(60), func(int) []byte { return q.frame }, q, "answer")
		}},
	}
}

// sessionOf begins a fetch session of many topics, each with a name of its own.
func sessionOf(topics, nameBytes int) request {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.SessionEpoch = 1<<20, 0
	for i := range topics {
		t := kmsg.NewFetchRequestTopic()
		name := binary.BigEndian.AppendUint32(nil, uint32(i))
		t.Topic = fmt.Sprintf("%x%s", name, strings.Repeat("n", nameBytes))
		t.Partitions = append(t.Partitions, kmsg.NewFetchRequestTopicPartition())
		req.Topics = append(req.Topics, t)
	}
	return encode(req, 11)
}
