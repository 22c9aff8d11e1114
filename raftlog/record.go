package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/core"
)

// A frame's payload is a run of sections, one per partition and turn, each a
// header and records. All numbers are little-endian.
const (
	sectionHeaderBytes = 24
	recordHeaderBytes  = 8
	entryFixedBytes    = 48
	// directExtraBytes follow the fixed part of an entry whose payload is in a
	// segment: eight zeros, and its batch header, whose checksum covers the rest.
	directExtraBytes  = 8 + core.BatchHeaderBytes
	extentFixedBytes  = 16
	hardStateBytes    = 24
	logStartBytes     = 8
	stateFixedBytes   = 24 + 6*8 + 6*4 + 8
	stateEpochBytes   = 24
	stateSegmentBytes = 56
)

// recordKind is the first byte of a record.
type recordKind uint8

const (
	recEntry     recordKind = 1 // an entry with its payload
	recDirect    recordKind = 2 // an entry whose payload is in the extent before it
	recExtent    recordKind = 3 // bytes written straight to a segment
	recHardState recordKind = 4
	recLogStart  recordKind = 5
	recState     recordKind = 6 // everything about the group but its later entries
	recDeleted   recordKind = 7
)

var errBadRecord = errors.New("malformed journal record")

// section is a parsed section header with its records.
type section struct {
	ID core.PartitionID
	// PrevFrame is the frame of the section of this partition before this one.
	PrevFrame uint64
	Records   uint32
	Body      []byte
}

// nextSection cuts the first section off a frame's payload.
func nextSection(b []byte) (s section, rest []byte, err error) {
	le := binary.LittleEndian
	if len(b) < sectionHeaderBytes {
		return s, nil, fmt.Errorf("%w: %d bytes where a section header should be", errBadRecord, len(b))
	}
	n := le.Uint32(b[16:])
	s = section{ID: core.PartitionID(le.Uint64(b)), PrevFrame: le.Uint64(b[8:]), Records: le.Uint32(b[20:])}
	b = b[sectionHeaderBytes:]
	if uint64(n) > uint64(len(b)) {
		return s, nil, fmt.Errorf("%w: a section of %d bytes in %d", errBadRecord, n, len(b))
	}
	s.Body = b[:n:n]
	return s, b[n:], nil
}

// record is one parsed record; Body aliases the frame.
type record struct {
	Kind      recordKind
	EntryKind EntryKind
	Body      []byte
}

func nextRecord(b []byte) (r record, rest []byte, err error) {
	if len(b) < recordHeaderBytes {
		return r, nil, fmt.Errorf("%w: %d bytes where a record header should be", errBadRecord, len(b))
	}
	n := binary.LittleEndian.Uint32(b[4:])
	r = record{Kind: recordKind(b[0]), EntryKind: EntryKind(b[1])}
	b = b[recordHeaderBytes:]
	if uint64(n) > uint64(len(b)) {
		return r, nil, fmt.Errorf("%w: a record of %d bytes in %d", errBadRecord, n, len(b))
	}
	r.Body = b[:n:n]
	return r, b[n:], nil
}

// writer fills a frame. The caller has made room: it computes sizes first.
type writer struct {
	buf []byte
	n   int
}

func (w *writer) u8(v uint8)   { w.buf[w.n] = v; w.n++ }
func (w *writer) u16(v uint16) { binary.LittleEndian.PutUint16(w.buf[w.n:], v); w.n += 2 }
func (w *writer) u32(v uint32) { binary.LittleEndian.PutUint32(w.buf[w.n:], v); w.n += 4 }
func (w *writer) u64(v uint64) { binary.LittleEndian.PutUint64(w.buf[w.n:], v); w.n += 8 }
func (w *writer) bytes(p []byte) {
	if copy(w.buf[w.n:], p) != len(p) {
		panic("BUG: a journal frame is larger than computed")
	}
	w.n += len(p)
}

func (w *writer) recordHeader(kind recordKind, ek EntryKind, bodyLen int) {
	w.u8(uint8(kind))
	w.u8(uint8(ek))
	w.u16(0)
	w.u32(uint32(bodyLen))
}

// reader takes little-endian fields off b and remembers that it ran out.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, min(max(n, 0), 8))
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) u16() uint16 { return binary.LittleEndian.Uint16(r.take(2)) }
func (r *reader) u32() uint32 { return binary.LittleEndian.Uint32(r.take(4)) }
func (r *reader) u64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }

// entryMeta describes an entry without its payload; it holds no pointers.
type entryMeta struct {
	term       core.Term
	baseOffset core.Offset
	maxTs      int64
	lastDelta  int32 // last offset less base offset; -1 where there is no record
	length     uint32
	// seg and pos are a batch's place in a segment, given when it is appended.
	seg uint32
	pos uint32
	// file (its ordinal) and jpos are where the journal has the payload; file is
	// 0 until it is durable. For a direct entry jpos is unused.
	file uint32
	jpos uint32
	kind EntryKind
	// direct: an extent has the payload, and the segment its inside.
	direct bool
	// placed: a direct write of it has been handed to the writer, whatever became
	// of it. An entry that is written again keeps its old place until the turn is
	// done, so this is not direct.
	placed bool
}

func (m *entryMeta) nextOffset() core.Offset { return m.baseOffset + core.Offset(m.lastDelta) + 1 }

func (m *entryMeta) isBatch() bool { return m.kind == EntryBatch }

// putEntry writes an entry with its payload and returns where the payload begins.
func (w *writer) putEntry(i core.Index, m *entryMeta, payload []byte) int {
	w.recordHeader(recEntry, m.kind, entryFixedBytes+len(payload))
	w.entryFixed(i, m)
	at := w.n
	w.bytes(payload)
	return at
}

func (w *writer) entryFixed(i core.Index, m *entryMeta) {
	w.u64(uint64(i))
	w.u64(uint64(m.term))
	w.u64(uint64(m.baseOffset))
	w.u64(uint64(m.maxTs))
	w.u32(uint32(m.lastDelta))
	w.u32(m.length)
	w.u32(m.seg)
	w.u32(m.pos)
}

// putDirect writes an entry whose payload went straight to a segment.
func (w *writer) putDirect(i core.Index, m *entryMeta, header []byte) {
	w.recordHeader(recDirect, m.kind, entryFixedBytes+directExtraBytes)
	w.entryFixed(i, m)
	w.u64(0)
	w.bytes(header[:core.BatchHeaderBytes])
}

// parseEntry reads an entry record; extra is the payload of an inline one, and
// eight bytes and the batch header of a direct one.
func parseEntry(r record) (i core.Index, m entryMeta, extra []byte, err error) {
	b := reader{b: r.Body}
	i = core.Index(b.u64())
	m = entryMeta{kind: r.EntryKind, direct: r.Kind == recDirect}
	m.term = core.Term(b.u64())
	m.baseOffset = core.Offset(b.u64())
	m.maxTs = int64(b.u64())
	m.lastDelta = int32(b.u32())
	m.length = b.u32()
	m.seg = b.u32()
	m.pos = b.u32()
	want := int(m.length)
	if m.direct {
		want = directExtraBytes
	}
	if b.bad || len(b.b) != want || i == 0 || m.kind > EntryLogStart {
		return 0, m, nil, fmt.Errorf("%w: entry", errBadRecord)
	}
	if batch := m.kind == EntryBatch; batch != (m.lastDelta >= 0) || batch && m.length < core.BatchHeaderBytes || m.direct && !batch {
		return 0, m, nil, fmt.Errorf("%w: entry %d of kind %d", errBadRecord, i, m.kind)
	}
	return i, m, b.b, nil
}

// extent is a run of direct entries [pos, pos+length) of one segment. Whole
// blocks inside it were written by the journal's writer; the bytes before the
// first and after the last block border are in the journal, because those
// blocks belong to the flush Jobs alone.
type extent struct {
	seg    uint32
	pos    uint32
	length uint32
	// head and tail are the bytes kept in the journal, at headAt and tailAt of
	// the file with ordinal file.
	head, tail     uint16
	file           uint32
	headAt, tailAt uint32
}

func (x *extent) end() int64 { return int64(x.pos) + int64(x.length) }

// split computes head and tail: what lies outside whole blocks.
func (x *extent) split() {
	from, to := alignUp(int64(x.pos)), alignDown(x.end())
	if from >= to { // no whole block inside
		from, to = x.end(), x.end()
		if x.length > 2*BlockBytes {
			panic("BUG: a long extent without a whole block")
		}
	}
	x.head, x.tail = uint16(from-int64(x.pos)), uint16(x.end()-to)
}

// putExtent writes the extent's record and notes where its edges are in the
// journal file.
func (w *writer) putExtent(x *extent, head, tail []byte) (headAt, tailAt int) {
	w.recordHeader(recExtent, 0, extentFixedBytes+len(head)+len(tail))
	w.u32(x.seg)
	w.u32(x.pos)
	w.u32(x.length)
	w.u16(uint16(len(head)))
	w.u16(uint16(len(tail)))
	headAt = w.n
	w.bytes(head)
	tailAt = w.n
	w.bytes(tail)
	return headAt, tailAt
}

func parseExtent(r record) (x extent, err error) {
	b := reader{b: r.Body}
	x = extent{seg: b.u32(), pos: b.u32(), length: b.u32(), head: b.u16(), tail: b.u16()}
	y := x
	if b.bad || len(b.b) != int(x.head)+int(x.tail) || x.end() > 1<<32 || x.length == 0 {
		return x, fmt.Errorf("%w: extent", errBadRecord)
	}
	if alignUp(int64(x.pos)) >= alignDown(x.end()) && x.length > 2*BlockBytes {
		return x, fmt.Errorf("%w: extent", errBadRecord)
	}
	if y.split(); y != x {
		return x, fmt.Errorf("%w: the edges of an extent", errBadRecord)
	}
	return x, nil
}

func (w *writer) putHardState(hs HardState) {
	w.recordHeader(recHardState, 0, hardStateBytes)
	w.hardState(hs)
}

func (w *writer) hardState(hs HardState) {
	w.u64(uint64(hs.Term))
	w.u64(uint64(hs.Commit))
	w.u32(uint32(hs.Vote))
	w.u32(0)
}

func (r *reader) hardState() (hs HardState) {
	hs = HardState{Term: core.Term(r.u64()), Commit: core.Index(r.u64()), Vote: core.NodeID(int32(r.u32()))}
	r.u32()
	return hs
}

func parseHardState(r record) (HardState, error) {
	b := reader{b: r.Body}
	hs := b.hardState()
	if b.bad || len(b.b) != 0 {
		return hs, fmt.Errorf("%w: hard state", errBadRecord)
	}
	return hs, nil
}

func (w *writer) putLogStart(o core.Offset) {
	w.recordHeader(recLogStart, 0, logStartBytes)
	w.u64(uint64(o))
}

func parseLogStart(r record) (core.Offset, error) {
	b := reader{b: r.Body}
	o := core.Offset(b.u64())
	if b.bad || len(b.b) != 0 || o < 0 {
		return 0, fmt.Errorf("%w: log start", errBadRecord)
	}
	return o, nil
}

// segInfo is one segment: what is in it, and where its file ends for us.
type segInfo struct {
	id         uint32
	rows       uint32 // batches
	bytes      int64
	baseOffset core.Offset
	nextOffset core.Offset
	baseIndex  core.Index // of its first batch
	maxTs      int64
	createdMs  int64

	// named says that the directory entry of its .log is durable. In memory only.
	named bool
}

// groupState is the record that makes all older ones of a group needless, but
// for the entries above flushed.
type groupState struct {
	hs              HardState
	logStart        core.Offset
	firstIndex      core.Index
	firstTerm       core.Term  // of firstIndex-1
	flushed         core.Index // entries up to here are in segments
	flushedOffset   core.Offset
	last            core.Index // in the frames before this one, at or above flushed
	nextSeg         uint32
	checkpointIndex core.Index
	checkpoint      []byte
	damaged         string // the reason; empty for a good log
	epochs          []EpochStart
	segs            []segInfo
}

func (s *groupState) size() int {
	return recordHeaderBytes + stateFixedBytes + len(s.epochs)*stateEpochBytes +
		len(s.segs)*stateSegmentBytes + len(s.checkpoint) + len(s.damaged)
}

func (w *writer) putState(s *groupState) {
	w.recordHeader(recState, 0, s.size()-recordHeaderBytes)
	w.hardState(s.hs)
	w.u64(uint64(s.logStart))
	w.u64(uint64(s.firstIndex))
	w.u64(uint64(s.firstTerm))
	w.u64(uint64(s.flushed))
	w.u64(uint64(s.flushedOffset))
	w.u64(uint64(s.checkpointIndex))
	w.u32(s.nextSeg)
	w.u32(uint32(len(s.epochs)))
	w.u32(uint32(len(s.segs)))
	w.u32(uint32(len(s.checkpoint)))
	w.u32(uint32(len(s.damaged)))
	w.u32(0)
	w.u64(uint64(s.last))
	for _, e := range s.epochs {
		w.u64(uint64(e.Term))
		w.u64(uint64(e.Index))
		w.u64(uint64(e.Offset))
	}
	for i := range s.segs {
		g := &s.segs[i]
		w.u32(g.id)
		w.u32(g.rows)
		w.u64(uint64(g.bytes))
		w.u64(uint64(g.baseOffset))
		w.u64(uint64(g.nextOffset))
		w.u64(uint64(g.baseIndex))
		w.u64(uint64(g.maxTs))
		w.u64(uint64(g.createdMs))
	}
	w.bytes(s.checkpoint)
	w.bytes([]byte(s.damaged))
}

func parseState(r record) (*groupState, error) {
	b := reader{b: r.Body}
	s := &groupState{hs: b.hardState()}
	s.logStart = core.Offset(b.u64())
	s.firstIndex = core.Index(b.u64())
	s.firstTerm = core.Term(b.u64())
	s.flushed = core.Index(b.u64())
	s.flushedOffset = core.Offset(b.u64())
	s.checkpointIndex = core.Index(b.u64())
	s.nextSeg = b.u32()
	epochs, segs, blob, reason := b.u32(), b.u32(), b.u32(), b.u32()
	b.take(4)
	s.last = core.Index(b.u64())
	want := uint64(epochs)*stateEpochBytes + uint64(segs)*stateSegmentBytes + uint64(blob) + uint64(reason)
	if b.bad || want != uint64(len(b.b)) {
		return nil, fmt.Errorf("%w: group state", errBadRecord)
	}
	s.epochs = make([]EpochStart, epochs)
	for i := range s.epochs {
		s.epochs[i] = EpochStart{core.Term(b.u64()), core.Index(b.u64()), core.Offset(b.u64())}
	}
	s.segs = make([]segInfo, segs)
	for i := range s.segs {
		s.segs[i] = segInfo{
			id: b.u32(), rows: b.u32(), bytes: int64(b.u64()),
			baseOffset: core.Offset(b.u64()), nextOffset: core.Offset(b.u64()),
			baseIndex: core.Index(b.u64()), maxTs: int64(b.u64()), createdMs: int64(b.u64()),
		}
	}
	if blob > 0 {
		s.checkpoint = append([]byte(nil), b.take(int(blob))...)
	}
	s.damaged = string(b.take(int(reason)))
	return s, s.check()
}

// check refuses states that no writer makes.
func (s *groupState) check() error {
	bad := s.firstIndex == 0 || s.flushed+1 < s.firstIndex || s.flushedOffset < 0 || s.logStart < 0
	for i := range s.segs {
		g := &s.segs[i]
		bad = bad || g.id >= s.nextSeg || g.bytes < 0 || g.nextOffset < g.baseOffset
		bad = bad || i > 0 && (g.id <= s.segs[i-1].id || g.baseOffset != s.segs[i-1].nextOffset)
	}
	if n := len(s.segs); n > 0 {
		bad = bad || s.segs[n-1].nextOffset > s.flushedOffset
	}
	if bad {
		return fmt.Errorf("%w: contradictory group state", errBadRecord)
	}
	return nil
}
