package raftlog

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"millrace/core"
)

// ErrClosed is the Err of turns submitted after Close.
var ErrClosed = errors.New("the journal is closed")

// Journal merges the turns of all shards into one write and one sync at a time.
//
// Three parties touch it: the loops submit, one goroutine commits (Run, or a
// scheduler calling Commit), one prepares files (started by Run, or the
// scheduler calling Prepare). They meet in the atomics and channels below.
type Journal struct {
	// Immutable.
	store    *Store
	fs       FS
	instance uint64
	fileMax  int64 // JournalFileBytes

	// Atomic.
	queue   atomic.Pointer[Turn] // newest first
	files   atomic.Pointer[[]*jfile]
	nextSeq atomic.Uint64 // of files
	failure atomic.Pointer[error]
	minFile atomic.Uint32 // oldest ordinal that some group needs
	oldest  atomic.Uint64 // Oldest of the newest durable frame
	closing atomic.Bool
	running atomic.Bool // the committer's part is taken: by Run, or by Close
	commits atomic.Uint64
	written atomic.Uint64
	// direct counts the bytes written straight to segments, unstaged those of them
	// that the committer copied.
	direct, unstaged atomic.Uint64
	used             atomic.Int64 // bytes of the file in use; all of it where the next one is urgent
	frame            atomic.Int64 // bytes of the newest frame
	// firstLost is the oldest frame that Open missed, 0 for none: frames name it as
	// needed until all shards are complete. incomplete counts those that are not.
	firstLost  atomic.Uint64
	incomplete atomic.Int32

	spares   chan *jfile
	staging  chan []byte   // free buffers for direct writes
	wake     chan struct{} // to the committer
	prepWake chan struct{} // to the preparer
	stop     chan struct{}
	stopped  chan struct{}
	gate     commitGate

	// Owned by the committer.
	w commitState

	// Owned by the preparer.
	making *jfile // the spare file that is being pre-written, up to its size
}

// jfile is one journal file in use or ready.
type jfile struct {
	seq     uint64 // identity, in its header and name
	f       File
	size    int64 // pre-written bytes; 0 for a growing file
	growing bool
	damaged bool // found by Open: no frame can be read, and one that is needed may be there

	// Set when the file comes into use, constant from then on.
	ord uint32 // position in the order of use

	// Written by the committer; read by others once it is no longer the last.
	firstFrame, lastFrame uint64
	end                   int64

	// Atomic. Jobs that read from the file.
	refs atomic.Int32
}

const ordNone = ^uint32(0)

// Submit queues a turn; never blocks. At most one queue slot per shard and
// turn in flight is used: a shard submits its next turn when it likes, and the
// writer takes all that are queued (bounded by the shard's bytes in flight).
func (j *Journal) Submit(t *Turn) {
	for {
		head := j.queue.Load()
		t.next = head
		if j.queue.CompareAndSwap(head, t) {
			break
		}
	}
	j.kick()
}

func (j *Journal) kick() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *Journal) kickPrepare() {
	select {
	case j.prepWake <- struct{}{}:
	default:
	}
}

// completed is told that one more shard knows all its partitions, durably.
func (j *Journal) completed() {
	if j.incomplete.Add(-1) == 0 {
		j.firstLost.Store(0)
	}
}

// Failed is the error that ended the journal, or nil. Any goroutine.
func (j *Journal) Failed() error {
	if p := j.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (j *Journal) fail(err error) {
	err = fmt.Errorf("%w: the journal's device failed: %w", core.ErrStorageFailed, err)
	if j.failure.CompareAndSwap(nil, &err) {
		j.store.opts.Logf("FATAL: %v; nothing on this device is trusted until a restart replays it", err)
	}
}

// JournalStats are counters for metrics.
type JournalStats struct {
	Files, Spares    int
	Commits, Bytes   uint64 // frames written and their bytes
	Direct, Unstaged uint64 // bytes written straight to segments, and those of them that the committer copied
}

// Stats may be called by any goroutine.
func (j *Journal) Stats() JournalStats {
	return JournalStats{
		Files: len(*j.files.Load()), Spares: len(j.spares),
		Commits: j.commits.Load(), Bytes: j.written.Load(),
		Direct: j.direct.Load(), Unstaged: j.unstaged.Load(),
	}
}

// pressureFrom is the number of files in use above which the oldest are to be freed.
func (j *Journal) pressureFrom() int { return max(j.store.opts.JournalFilesMax/2, 2) }

// Pressure is the oldest journal file that should be freed soon: groups with
// data at or below it are to be flushed. 0 when there is none. Atomic.
func (j *Journal) Pressure() uint64 {
	files := *j.files.Load()
	n := len(files) - j.pressureFrom()
	if n <= 0 {
		return 0
	}
	return uint64(files[n-1].ord)
}

// flushSlots is how many flushes may run at a time. Each one writes up to
// flushJobBytes and syncs two files, and the journal's own writes and syncs wait for
// those before them: one flush after the other is enough as long as the journal has
// room, and the more of it is used the less latency counts. Atomic.
func (j *Journal) flushSlots() int {
	used, from, limit := len(*j.files.Load()), j.pressureFrom(), j.store.opts.JournalFilesMax
	if used >= limit || from >= limit {
		return math.MaxInt
	}
	return 1 + flushSlotsMax*max(used-from-1, 0)/(limit-from)
}

// flushSlotsMax is reached when the journal is full but for the last file.
const flushSlotsMax = 4

// acquire pins the file with that ordinal for a Job. Only a loop whose log needs
// the file may call it.
func (j *Journal) acquire(ord uint32) *jfile {
	files := *j.files.Load()
	if len(files) == 0 || ord < files[0].ord || ord > files[len(files)-1].ord {
		panic(fmt.Sprintf("BUG: journal file %d is needed and gone", ord))
	}
	f := files[ord-files[0].ord]
	f.refs.Add(1)
	return f
}

// What is written beside the journal goes in pieces of at most asidePieceMax; of
// twice the frame before, but at least asidePieceMin, while the journal commits.
const (
	asidePieceMin = 64 << 10
	asidePieceMax = 256 << 10
)

// writeAside writes p for a flush or a new journal file, which nobody waits for: one
// piece after each commit, whose bytes the next commit's sync has to wait for, yet
// enough to keep up with the journal. Where the journal has little room left, or its
// frames are large, bandwidth is what counts and all is written at once.
func (j *Journal) writeAside(f File, p []byte, off int64) error {
	for len(p) > 0 {
		n := len(p)
		if frame := j.frame.Load(); j.flushSlots() == 1 && frame <= asidePieceMax {
			piece := int64(asidePieceMax)
			if j.gate.await() {
				piece = min(max(2*frame, asidePieceMin), piece)
			}
			n = min(n, int(piece))
		}
		if _, err := f.WriteAt(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}
