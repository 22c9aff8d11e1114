//go:build !race

// The race detector allocates too, and makes pools forget what they keep.

package kafka

import (
	"testing"

	"millrace/core"
	"millrace/core/arena"
	"millrace/core/meta"
	"millrace/shard"
)

// atOnce is a Loop that takes what is asked of its shard, and a Conn that
// takes replies. Neither allocates.
type atOnce struct {
	image *meta.Image
	bufs  []arena.Buf
	bytes int
	info  ConnInfo
	asked *shard.Fetch
	got   int
}

func (l *atOnce) Shard() core.ShardID                { return 0 }
func (l *atOnce) Shards() int                        { return 1 }
func (l *atOnce) Now() core.Tick                     { return core.Second }
func (l *atOnce) Arena() *arena.Arena                { return nil }
func (l *atOnce) Image() *meta.Image                 { return l.image }
func (l *atOnce) After(core.Tick, func()) Timer      { panic("BUG: a timer") }
func (l *atOnce) Cancel(core.ShardID, shard.Request) {}

func (l *atOnce) Submit(_ core.ShardID, q shard.Request) {
	f := q.(*shard.Fetch)
	for i := range f.Parts {
		f.Parts[i].Data.Bufs, f.Parts[i].Data.Bytes = l.bufs, l.bytes
		f.Have += l.bytes
	}
	l.asked = f
}

func (l *atOnce) Info() *ConnInfo         { return &l.info }
func (l *atOnce) Parked(uint64, Waiter)   {}
func (l *atOnce) Expect(uint64, int)      {}
func (l *atOnce) Close(reason string)     { panic("BUG: " + reason) }
func (l *atOnce) Reply(_ uint64, r Reply) { l.got = r.Len() }

// TestFetchAllocates counts what a Fetch of one partition allocates from its frame
// to its reply, with 16 batches in the answer: 5 to decode it (the request, its
// topics, a name, their partitions, the client's name), 2 for what it wants, and
// the Request, the fetch, the head of the reply and the list of its pieces. It may
// count one less: the runtime puts several short names into one object.
func TestFetchAllocates(t *testing.T) {
	l := &atOnce{image: testImage(testTopic("t", 1, 4)), info: ConnInfo{Listener: "PLAINTEXT", Host: "/127.0.0.1"}}
	for range 16 {
		b := arena.Foreign(make([]byte, 1000))
		l.bufs, l.bytes = append(l.bufs, b), l.bytes+b.Len()
	}
	w := NewServer(testOptions()).NewWorker(l)
	const want = 11
	for _, version := range []int16{11, 12, 17} {
		req := fetchRequest("t", 0, -1, fetchPart{num: 0})
		frame := frameBytes(req, version)
		allocs := testing.AllocsPerRun(100, func() {
			l.got = 0
			w.Serve(l, Frame{Bytes: frame})
			l.asked.Owner.(Continuation).Resume(l.asked)
			if l.got < l.bytes {
				t.Fatalf("a reply of %d bytes", l.got)
			}
		})
		if allocs > want {
			t.Errorf("version %d: %v allocations, want %d", version, allocs, want)
		}
	}
}
