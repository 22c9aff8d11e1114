package raftlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"millrace/core"
	"millrace/core/arena"
)

// scenario runs the commands of testdata/*.txt against a store in memory.
type scenario struct {
	t    *testing.T
	fs   *memFS
	opts Options
	ts   *testStore
	blot string // the file whose first frame's header is damaged
	out  strings.Builder
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{t: t, fs: newMemFS(t)}
		s.opts = Options{
			JournalFileBytes: 128 << 10, JournalFilesMax: 4, DirectBytes: 32 << 10, NodeID: 1, ClusterID: "c", InstanceID: 9,
			Logf: func(f string, a ...any) { fmt.Fprintf(&s.out, "log: "+f+"\n", a...) },
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.out.Reset()
			s.run(d)
			if s.out.Len() == 0 {
				return "ok"
			}
			return s.out.String()
		})
		if s.ts != nil {
			s.ts.s.Discard()
		}
	})
}

func (s *scenario) printf(f string, a ...any) { fmt.Fprintf(&s.out, f+"\n", a...) }

func (s *scenario) open() {
	ts := &testStore{t: s.t, fs: s.fs, readBytes: 256 << 10, mem: arena.NewHeap(64 << 20), now: core.Second}
	st, rec, err := Open(s.fs, s.opts, func(core.PartitionID) core.ShardID { return 0 })
	if err != nil {
		s.printf("error: %v", err)
		return
	}
	ts.s, ts.rec, ts.set = st, rec, st.LogSet(0)
	s.ts = ts
	ts.jobErr = func(err error) { s.printf("job: %v", err) }
	s.printf("groups=%d torn=%d lost-frames=%d", rec.Groups, rec.TornTailBytes, rec.LostFrames)
}

func (s *scenario) stop() {
	if s.ts != nil {
		s.ts.s.Discard()
		s.ts = nil
	}
}

func (s *scenario) run(d *datadriven.TestData) {
	var id, n, size, term, frame, off uint64 = 0, 1, 100, 1, 0, 0
	d.MaybeScanArgs(s.t, "id", &id)
	d.MaybeScanArgs(s.t, "n", &n)
	d.MaybeScanArgs(s.t, "size", &size)
	d.MaybeScanArgs(s.t, "term", &term)
	d.MaybeScanArgs(s.t, "frame", &frame)
	d.MaybeScanArgs(s.t, "off", &off)
	var l *Log
	if id != 0 && d.Cmd != "create" {
		if l = s.ts.set.Get(core.PartitionID(id)); l == nil {
			s.printf("no log %d", id)
			return
		}
	}
	switch d.Cmd {
	case "open":
		s.open()
	case "kill": // everything written is still there
		s.stop()
		s.fs = s.fs.clone()
		s.open()
	case "create":
		if _, err := s.ts.set.Create(core.PartitionID(id), LogConfig{SegmentBytes: 64 << 10, FlushBytesMax: 16 << 10}); err != nil {
			s.printf("error: %v", err)
		}
	case "complete":
		s.ts.set.Complete()
	case "append":
		for range n {
			s.ts.batch(l, core.Term(term), 1, int(size))
		}
	case "fill": // many turns, with all that goes on beside them
		for range n {
			s.ts.batch(l, core.Term(term), 1, int(size))
			commitAll(l)
			s.turn()
			s.ts.maintain()
			s.prepare()
		}
	case "replace": // entries from index on
		var index uint64
		d.ScanArgs(s.t, "index", &index)
		base := l.meta(core.Index(index)).baseOffset
		l.Append([]Entry{{Index: core.Index(index), Term: core.Term(term), BaseOffset: base, LastOffset: base - 1, MaxTimestamp: -1}})
	case "commit":
		for _, l := range s.ts.set.All() {
			if l.Damaged() == nil {
				commitAll(l)
			}
		}
		s.turn()
	case "turn": // writes without raising raft's commit
		s.turn()
	case "delete":
		s.ts.set.Delete(core.PartitionID(id))
	case "log-start":
		l.SetLogStart(core.Offset(off))
	case "maintain":
		s.ts.maintain()
	case "evict":
		s.ts.set.Evict(s.ts.mem, 1<<40)
	case "prepare":
		s.prepare()
	case "flip", "flip-header", "erase", "tear":
		s.harm(d.Cmd, frame)
	case "remove-journal":
		s.removeJournal(frame)
	case "space":
		s.fs.noSpace = d.HasArg("none")
		s.printf("%v", map[SpaceState]string{SpaceOK: "space is ok", SpaceLow: "space is low"}[s.ts.s.CheckSpace()])
	case "fail":
		op, name := "", ""
		d.MaybeScanArgs(s.t, "op", &op)
		d.MaybeScanArgs(s.t, "name", &name)
		s.fs.fail = func(o, f string) error {
			if o == op && strings.Contains(f, name) {
				return errors.New("input/output error")
			}
			return nil
		}
	case "files":
		for _, name := range s.fs.names("/") {
			s.printf("%s %d", name, len(s.fs.files[name].data))
		}
	case "status":
		s.status()
	default:
		s.t.Fatalf("unknown command %s", d.Cmd)
	}
}

func (s *scenario) turn() {
	t := s.ts.set.Collect()
	if !t.Empty() {
		s.ts.s.Journal().Submit(t)
	}
	for _, d := range s.ts.s.Journal().Commit() {
		if d.Err != nil {
			s.printf("turn %d: %v", d.Seq, d.Err)
		}
		s.ts.set.Done(d)
	}
	if s.ts.s.Journal().stalled() {
		s.printf("the journal waits for space")
	}
}

func (s *scenario) prepare() {
	for more := true; more; {
		var err error
		if more, err = s.ts.s.Journal().Prepare(); err != nil {
			s.printf("error: %v", err)
		}
	}
}

func (s *scenario) status() {
	for _, l := range s.ts.set.All() {
		if err := l.Damaged(); err != nil {
			s.printf("%d: damaged: %v", l.ID(), err)
			continue
		}
		bases, jobs := s.ts.readAll(l)
		s.printf("%d: entries=[%d,%d] offsets=[%d,%d) flushed=%d segments=%d commit=%d batches=%d jobs=%d", l.ID(), l.FirstIndex(), l.LastIndex(),
			l.LogStart(), l.NextOffset(), l.flushed, len(l.segs), l.HardState().Commit, len(bases), jobs)
	}
}

// findFrame looks for a frame by number.
func (s *scenario) findFrame(seq uint64) (f *memFile, pos int64, size int64) {
	for _, name := range s.fs.names(".jnl") {
		m := s.fs.files[name]
		var fileSeq uint64
		if _, err := fmt.Sscanf(name, journalDir+"/%016x.jnl", &fileSeq); err != nil {
			s.t.Fatal(err)
		}
		for pos := int64(BlockBytes); pos+BlockBytes <= int64(len(m.data)); pos += BlockBytes {
			h, err := parseFrameHeader(m.data[pos:], fileHeader{s.opts.InstanceID, fileSeq})
			if err == nil && h.Seq == seq {
				return m, pos, frameSize(int(h.PayloadLen))
			}
		}
	}
	s.t.Fatalf("no frame %d", seq)
	return nil, 0, 0
}

func (s *scenario) harm(how string, seq uint64) {
	if how == "flip-header" && s.blot != "" { // again: it is repaired
		s.fs.files[s.blot].data[BlockBytes] ^= 0x10
		s.blot = ""
		return
	}
	f, pos, size := s.findFrame(seq)
	switch how {
	case "flip-header":
		if pos != BlockBytes {
			s.t.Fatalf("frame %d is not the first of its file", seq)
		}
		f.data[pos] ^= 0x10
		for name, g := range s.fs.files {
			if g == f {
				s.blot = name
			}
		}
	case "flip":
		f.data[pos+frameHeaderBytes+5] ^= 0x10
	case "erase":
		clear(f.data[pos : pos+size])
	case "tear": // the second sector never arrived
		clear(f.data[pos+sectorBytes : pos+2*sectorBytes])
	}
}

func (s *scenario) removeJournal(seq uint64) {
	f, _, _ := s.findFrame(seq)
	for name, g := range s.fs.files {
		if g == f {
			delete(s.fs.files, name)
		}
	}
}
