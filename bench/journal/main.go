// Command journal drives raftlog's journal alone, as a broker's shard would:
// batches are appended to one log, collected into turns and committed, with no
// sockets, no raft and no segments. It prints one line of JSON.
//
// The main goroutine has the part of the shard's loop, Journal.Run that of the
// journal's writer. Bytes in flight are kept at a fixed number, in two turns, so
// that one is collected while the other is written. A log is deleted and the next
// one made every 256 MiB, which frees journal files as flushing to segments would.
// Everything below --dir is deleted at the end. Read drive first.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"millrace/core"
	"millrace/core/arena"
	"millrace/raftlog"
)

type options struct {
	dir                    string
	batch, inflight, turns int
	warm, span             time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "folder for the data directory, which is made and removed")
	flag.IntVar(&o.batch, "batch", 64<<10, "bytes of a batch")
	flag.IntVar(&o.inflight, "inflight", 4<<20, "bytes appended and not durable yet")
	flag.IntVar(&o.turns, "turns", 2, "turns that the bytes in flight are spread over")
	flag.DurationVar(&o.warm, "warm", 2*time.Second, "time before the measurement")
	flag.DurationVar(&o.span, "span", 5*time.Second, "time measured")
	flag.Parse()
	r, err := run(o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "journal:", err)
		os.Exit(1)
	}
}

type result struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Commits uint64  `json:"commits"`
}

func run(o options) (_ result, err error) {
	if o.dir == "" || o.batch < core.BatchHeaderBytes || o.inflight < o.batch || o.turns < 1 {
		return result{}, errors.New("--dir is needed, a batch has at least 61 bytes, one must fit --inflight, and --turns is at least 1")
	}
	root := filepath.Join(o.dir, "journal")
	if err := os.RemoveAll(root); err != nil {
		return result{}, err
	}
	fs, err := raftlog.OpenDir(root)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, fs.Close(), os.RemoveAll(root)) }()
	s, _, err := raftlog.Open(fs, raftlog.Options{
		DirectBytes: 1 << 30, JournalFilesMax: 64, InstanceID: 1, NodeID: 1, ClusterID: "bench",
	}, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		return result{}, err
	}
	d := &driver{o: o, set: s.LogSet(0), journal: s.Journal(), done: make(chan []*raftlog.Turn, 16)}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go d.journal.Run(ctx, func(ts []*raftlog.Turn) { d.done <- ts })
	r, err := d.drive()
	return r, errors.Join(err, s.Close())
}

// logBytes is how much one log takes before it is deleted.
const logBytes = 256 << 20

type driver struct {
	o       options
	set     *raftlog.LogSet
	journal *raftlog.Journal
	done    chan []*raftlog.Turn

	log     *raftlog.Log
	id      core.PartitionID
	next    core.Index
	written int64 // into log

	batches [][]byte // in turn; twice as many as are in flight
	turn    int      // batches of one turn
	waiting []int    // batches of the turns under way
	acked   int64
}

// drive keeps the turns under way and counts what becomes durable.
func (d *driver) drive() (r result, err error) {
	d.turn = max(d.o.inflight/d.o.batch/d.o.turns, 1)
	for range 2 * d.o.turns * d.turn {
		d.batches = append(d.batches, makeBatch(d.o.batch))
	}
	begin := time.Now()
	var from time.Time
	var fromBytes int64
	var fromCommits uint64
	for {
		for len(d.waiting) < d.o.turns {
			if err := d.submit(); err != nil {
				return r, err
			}
		}
		if err := d.complete(<-d.done); err != nil {
			return r, err
		}
		now := time.Now()
		if from.IsZero() && now.Sub(begin) >= d.o.warm {
			from, fromBytes, fromCommits = now, d.acked, d.journal.Stats().Commits
		}
		if !from.IsZero() && now.Sub(from) >= d.o.span {
			r = result{d.acked - fromBytes, now.Sub(from).Seconds(), d.journal.Stats().Commits - fromCommits}
			break
		}
	}
	for len(d.waiting) > 0 {
		if err := d.complete(<-d.done); err != nil {
			return r, err
		}
	}
	return r, nil
}

// submit appends one turn's batches.
func (d *driver) submit() error {
	if d.log == nil || d.written >= logBytes {
		if d.log != nil {
			d.set.Delete(d.id)
		}
		d.id, d.next, d.written = d.id+1, 1, 0
		var err error
		if d.log, err = d.set.Create(d.id, raftlog.LogConfig{SegmentBytes: 1 << 30, FlushBytesMax: 1 << 40}); err != nil {
			return err
		}
	}
	for range d.turn {
		b := d.batches[int(d.next)%len(d.batches)]
		at := core.Offset(d.next - 1)
		core.Batch(b).SetBase(at, 1)
		d.log.Append([]raftlog.Entry{{Index: d.next, Term: 1, Kind: raftlog.EntryBatch, BaseOffset: at, LastOffset: at, Payload: arena.Foreign(b)}})
		d.next++
		d.written += int64(d.o.batch)
	}
	d.waiting = append(d.waiting, d.turn)
	d.journal.Submit(d.set.Collect())
	return nil
}

// noRoom is an arena that never has as much as is asked for.
var noRoom = arena.New(0)

// complete takes in turns that are durable, as a shard does.
func (d *driver) complete(turns []*raftlog.Turn) error {
	for _, t := range turns {
		if t.Err != nil {
			return t.Err
		}
		d.set.Done(t)
		d.acked += int64(d.waiting[0]) * int64(d.o.batch)
		d.waiting = d.waiting[1:]
	}
	d.set.Evict(noRoom, 1<<40) // the batches are foreign memory: nothing is freed, they are let go
	jobs, _ := d.set.Maintain(core.Tick(time.Now().UnixNano()), 4, nil)
	for _, j := range jobs { // removals of deleted logs, which have no files
		j.Run()
		j.Finish()
		if j.Err != nil {
			return j.Err
		}
	}
	return nil
}

// makeBatch is a batch of one record as far as the journal looks into it.
func makeBatch(size int) []byte {
	b := make([]byte, size)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	n := size - 12
	b[8], b[9], b[10], b[11] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	b[16] = 2
	clear(b[23:27]) // one offset
	return b
}
