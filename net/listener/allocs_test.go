//go:build !race

// The race detector allocates too, and makes pools forget what they keep.

package listener

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/panjf2000/gnet/v2"
	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/core"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/net/kafka"
	"millrace/raftlog"
	"millrace/shard"
)

// memDisk is a disk that allocates nothing once its files have their size.
type memDisk struct{ files map[string]*memFile }

type memFile struct{ b []byte }

func (d *memDisk) Create(name string) (raftlog.File, error) {
	if d.files[name] != nil {
		return nil, raftlog.ErrExist
	}
	d.files[name] = &memFile{b: make([]byte, 0, 16<<20)}
	return d.files[name], nil
}

func (d *memDisk) Open(name string) (raftlog.File, error) {
	if f := d.files[name]; f != nil {
		return f, nil
	}
	return nil, raftlog.ErrNotExist
}

func (d *memDisk) Rename(from, to string) error {
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *memDisk) List(dir string) (names []string, _ error) {
	for name := range d.files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			rest, _, _ = strings.Cut(rest, "/")
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (d *memDisk) Remove(name string) error     { delete(d.files, name); return nil }
func (d *memDisk) MkdirAll(string) error        { return nil }
func (d *memDisk) SyncDir(string) error         { return nil }
func (d *memDisk) Space() (int64, int64, error) { return 1 << 40, 1 << 40, nil }
func (d *memDisk) Direct() bool                 { return false }
func (f *memFile) Sync() error                  { return nil }
func (f *memFile) Size() (int64, error)         { return int64(len(f.b)), nil }
func (f *memFile) Truncate(n int64) error       { f.grow(n); f.b = f.b[:n]; return nil }
func (f *memFile) Close() error                 { return nil }
func (f *memFile) grow(n int64)                 { f.b = append(f.b, make([]byte, max(n-int64(len(f.b)), 0))...) }
func (f *memFile) WriteAt(p []byte, at int64) (int, error) {
	f.grow(at + int64(len(p)))
	return copy(f.b[at:], p), nil
}

func (f *memFile) ReadAt(p []byte, at int64) (int, error) {
	n := copy(p, f.b[min(at, int64(len(f.b))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// handLoop is an event loop that the test drives: Execute only notes that a turn's
// end is due.
type handLoop struct {
	gnet.EventLoop
	due bool
}

func (h *handLoop) Execute(context.Context, gnet.Runnable) error { h.due = true; return nil }

// handConn is a connection whose client takes everything at once.
type handConn struct {
	s        *session
	answered int
	bad      error
}

func (c *handConn) flush() {
	n := 0
	for _, p := range c.s.out {
		if !bytes.Contains(p.b, []byte("t")) {
			c.bad = errors.New("a reply does not name the topic")
		}
		n += len(p.b)
		c.answered++
	}
	c.s.sent(n)
}
func (c *handConn) pause()          { c.bad = errors.New("the connection was paused") }
func (c *handConn) resume()         {}
func (c *handConn) close()          { c.bad = errors.New("the connection was closed") }
func (c *handConn) written() int64  { return 0 }
func (c *handConn) atHand(int) bool { return false }

// handServer is a server of one shard over a memDisk, with everything in it real but
// gnet and the goroutines, whose part the test has.
type handServer struct {
	t    testing.TB
	srv  *Server
	loop *Loop
	el   *handLoop
	conn *handConn
	in   chunk
}

func newHandServer(t testing.TB, partitions int) *handServer {
	o := DefaultOptions()
	o.Listens = []Listen{{Name: "PLAINTEXT", Host: "127.0.0.1"}}
	o.ArenaBytes = 64 << 20
	o.Logf = func(string, ...any) {}
	store, _, err := raftlog.Open(&memDisk{files: map[string]*memFile{}},
		raftlog.Options{ShardCount: 1, NodeID: 1, ClusterID: "c", InstanceID: 1, JournalFileBytes: 8 << 20, Logf: o.Logf},
		func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Store = store
	o.Shard = shard.Options{
		Node: 1, Seed: 1, Logf: o.Logf, Machine: func(core.PartitionID, string, int32) shard.StateMachine { return nil },
		TopicConfig: func(*meta.Image, *meta.Topic) shard.TopicConfig {
			return shard.TopicConfig{
				Log:             raftlog.LogConfig{SegmentBytes: 1 << 30, SegmentMs: 1 << 40, RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 1 << 20},
				MaxMessageBytes: 1 << 20, MinInsyncReplicas: 1, TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 1 << 60,
			}
		},
		Limits: shard.Limits{InflightBytesMax: 32 << 20, FetchWaitersMax: 10, ProducersMax: 10, ShardProducersMax: 10, ProducerExpirationMs: 1 << 40, JobsMax: 4},
	}
	o.Kafka = kafka.NewServer(kafka.Options{Node: 1, Config: func() *config.Config { return config.Defaults() }, Logf: o.Logf})
	srv, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h := &handServer{t: t, srv: srv, loop: srv.loops[0], el: &handLoop{}}
	h.loop.el = h.el
	topic := &meta.Topic{ID: core.TopicID{15: 1}, Name: "t"}
	for i := range partitions {
		topic.Partitions = append(topic.Partitions, &meta.Partition{
			ID: core.FirstPartition + core.PartitionID(i), Num: int32(i), Replicas: []core.NodeID{1}, Leader: new(meta.LeaderCell)})
	}
	im := (&meta.Image{Controller: 1, Brokers: []meta.Broker{{ID: 1, Host: "h", Port: 1}}}).WithTopic(topic)
	im.Version = 1
	h.loop.enter()
	h.loop.step(shard.Event{Kind: shard.EventTimer})
	srv.publish(im)
	for range 20 {
		h.turn()
	}
	s := h.loop.newSession("PLAINTEXT", "/127.0.0.1", 1, false)
	h.conn = &handConn{s: s}
	s.transport = h.conn
	return h
}

// turn ends a turn of the loop and writes what it left for the journal.
func (h *handServer) turn() {
	h.loop.drainInbox()
	h.el.due = false
	if err := h.loop.Run(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	if turns := h.srv.opts.Store.Journal().Commit(); len(turns) > 0 {
		h.srv.persisted(turns)
	}
	for more := true; more; {
		var err error
		if more, err = h.srv.opts.Store.Journal().Prepare(); err != nil {
			h.t.Fatal(err)
		}
	}
}

// produce sends a request for each of partitions in one turn and waits for the
// answers.
func (h *handServer) produce(frames [][]byte) {
	want := h.conn.answered + len(frames)
	h.loop.enter()
	for _, f := range frames {
		h.in.b = f
		h.conn.s.pump(&h.in)
	}
	for range 10 {
		if h.turn(); h.conn.answered == want {
			break
		}
	}
	if h.conn.answered != want || h.conn.bad != nil {
		h.t.Fatalf("%d answers, want %d: %v", h.conn.answered, want, h.conn.bad)
	}
}

// produceFrames are requests of one batch each, for partition 0, 1 and so on.
func produceFrames(n, batchBytes int) (out [][]byte) {
	b := core.Batch(make([]byte, batchBytes))
	b.InitHeader(1, 1000, 1000)
	for p := range n {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = 11, -1, 30_000
		t := kmsg.NewProduceRequestTopic()
		t.Topic = "t"
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = int32(p), b
		t.Partitions = append(t.Partitions, rp)
		req.Topics = append(req.Topics, t)
		out = append(out, kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 7))
	}
	return out
}

// TestProduceAllocations holds the number of allocations from the bytes of a request
// to those of its answer: session, handler, shard, raft, log, journal and back.
func TestProduceAllocations(t *testing.T) {
	for _, c := range []struct {
		name       string
		partitions int
		most       float64 // for each request
	}{
		{"alone in its turn", 1, 20},
		{"16 in a turn", 16, 16},
	} {
		h := newHandServer(t, c.partitions)
		frames := produceFrames(c.partitions, 1000)
		for range 300 {
			h.produce(frames)
		}
		got := testing.AllocsPerRun(500, func() { h.produce(frames) }) / float64(len(frames))
		t.Logf("%s: %.1f allocations for a request", c.name, got)
		if got > c.most {
			t.Errorf("%s: %.1f allocations for a request, the limit is %.0f", c.name, got, c.most)
		}
	}
}

// BenchmarkProduceRequest is the CPU and the memory of one request of one batch from
// its bytes to those of the answer, without sockets and disk.
func BenchmarkProduceRequest(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(map[int]string{1 << 10: "1KiB", 64 << 10: "64KiB"}[size], func(b *testing.B) {
			h := newHandServer(b, 16)
			frames := produceFrames(16, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%16 == 0 {
					h.produce(frames)
				}
			}
		})
	}
}
