package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"millrace/core"
)

// An index file has one row for each batch of its segment, in blocks. A row
// carries its own checksum: the last block is written again as it fills, and a
// torn write of it then harms no row that was durable before. How many rows are
// valid is in the group's state, not here.
const (
	indexMagic       = 0x315844494543524d // "MRCEIDX1"
	indexHeaderBytes = 64
	indexRowBytes    = 48
	indexBlockRows   = (BlockBytes - indexHeaderBytes) / indexRowBytes
)

const _ = uint(indexHeaderBytes + indexBlockRows*indexRowBytes - BlockBytes) // a block is full

var indexTable = crc32.MakeTable(crc32.Castagnoli)

var errBadIndex = errors.New("the segment's index is damaged")

// indexRow describes one batch.
type indexRow struct {
	baseOffset core.Offset
	index      core.Index
	maxTs      int64
	pos        uint32
	length     uint32
	lastDelta  uint32
	term       uint32
}

func (r *indexRow) nextOffset() core.Offset { return r.baseOffset + core.Offset(r.lastDelta) + 1 }

// indexPlace says which block is meant, so that a block in a wrong place is
// not taken for it.
type indexPlace struct {
	id    core.PartitionID
	seg   uint32
	block uint32
}

// putIndexHeader writes what is known when the block's first row is written and
// never changes: maxTsBefore is the largest timestamp of all earlier blocks.
func putIndexHeader(b []byte, at indexPlace, maxTsBefore int64) {
	le := binary.LittleEndian
	clear(b[:indexHeaderBytes])
	le.PutUint64(b[0:], indexMagic)
	le.PutUint64(b[8:], uint64(at.id))
	le.PutUint32(b[16:], at.seg)
	le.PutUint32(b[20:], at.block)
	le.PutUint64(b[24:], uint64(maxTsBefore))
	le.PutUint32(b[60:], crc32.Checksum(b[:60], indexTable))
}

func parseIndexHeader(b []byte, at indexPlace) (maxTsBefore int64, err error) {
	le := binary.LittleEndian
	if len(b) < indexHeaderBytes || le.Uint64(b) != indexMagic || le.Uint32(b[60:]) != crc32.Checksum(b[:60], indexTable) {
		return 0, fmt.Errorf("%w: block %d", errBadIndex, at.block)
	}
	if core.PartitionID(le.Uint64(b[8:])) != at.id || le.Uint32(b[16:]) != at.seg || le.Uint32(b[20:]) != at.block {
		return 0, fmt.Errorf("%w: block %d is that of another place", errBadIndex, at.block)
	}
	return int64(le.Uint64(b[24:])), nil
}

func (r *indexRow) put(b []byte, at indexPlace, row int) {
	b = b[indexHeaderBytes+row*indexRowBytes:][:indexRowBytes]
	le := binary.LittleEndian
	le.PutUint64(b[0:], uint64(r.baseOffset))
	le.PutUint64(b[8:], uint64(r.index))
	le.PutUint64(b[16:], uint64(r.maxTs))
	le.PutUint32(b[24:], r.pos)
	le.PutUint32(b[28:], r.length)
	le.PutUint32(b[32:], r.lastDelta)
	le.PutUint32(b[36:], r.term)
	le.PutUint32(b[40:], 0)
	le.PutUint32(b[44:], rowSum(b, at, row))
}

// rowSum covers the row's place too.
func rowSum(b []byte, at indexPlace, row int) uint32 {
	var p [20]byte
	binary.LittleEndian.PutUint64(p[0:], uint64(at.id))
	binary.LittleEndian.PutUint32(p[8:], at.seg)
	binary.LittleEndian.PutUint32(p[12:], at.block)
	binary.LittleEndian.PutUint32(p[16:], uint32(row))
	return crc32.Update(crc32.Checksum(p[:], indexTable), indexTable, b[:44])
}

func parseIndexRow(b []byte, at indexPlace, row int) (r indexRow, err error) {
	if row < 0 || row >= indexBlockRows || len(b) < BlockBytes {
		return r, fmt.Errorf("%w: no row %d", errBadIndex, row)
	}
	b = b[indexHeaderBytes+row*indexRowBytes:][:indexRowBytes]
	le := binary.LittleEndian
	if le.Uint32(b[44:]) != rowSum(b, at, row) {
		return r, fmt.Errorf("%w: row %d of block %d", errBadIndex, row, at.block)
	}
	r = indexRow{
		baseOffset: core.Offset(le.Uint64(b[0:])), index: core.Index(le.Uint64(b[8:])), maxTs: int64(le.Uint64(b[16:])),
		pos: le.Uint32(b[24:]), length: le.Uint32(b[28:]), lastDelta: le.Uint32(b[32:]), term: le.Uint32(b[36:]),
	}
	if r.length < core.BatchHeaderBytes || r.baseOffset < 0 || r.lastDelta > 1<<31-1 {
		return r, fmt.Errorf("%w: row %d of block %d makes no sense", errBadIndex, row, at.block)
	}
	return r, nil
}

// indexReader reads rows of one segment. It belongs to one Job.
type indexReader struct {
	f    File
	id   core.PartitionID
	seg  uint32
	rows int // valid ones
	buf  []byte
	from uint32 // blocks [from, to) are in buf
	to   uint32
}

const indexBufBlocks = 16

func openIndex(s *Store, id core.PartitionID, g *segInfo) (*indexReader, error) {
	f, err := s.fs.Open(indexName(id, g.id))
	if err != nil {
		return nil, fmt.Errorf("opening a segment's index: %w", err)
	}
	return &indexReader{f: f, id: id, seg: g.id, rows: int(g.rows), buf: AlignedBuf(indexBufBlocks * BlockBytes)}, nil
}

func (r *indexReader) close() error {
	freeAligned(r.buf)
	return r.f.Close()
}

func (r *indexReader) blocks() int { return (r.rows + indexBlockRows - 1) / indexBlockRows }

// block loads block k; ahead says that its followers will be wanted too.
func (r *indexReader) block(k uint32, ahead bool) ([]byte, error) {
	if k < r.from || k >= r.to {
		n := uint32(1)
		if ahead {
			n = min(indexBufBlocks, uint32(r.blocks())-k)
		}
		r.from, r.to = 0, 0
		if err := readFull(r.f, r.buf[:n*BlockBytes], int64(k)*BlockBytes); err != nil {
			return nil, fmt.Errorf("reading block %d of an index: %w", k, err)
		}
		r.from, r.to = k, k+n
	}
	return r.buf[(k-r.from)*BlockBytes:][:BlockBytes], nil
}

func (r *indexReader) row(n int) (indexRow, error) {
	at := indexPlace{r.id, r.seg, uint32(n / indexBlockRows)}
	b, err := r.block(at.block, true)
	if err != nil {
		return indexRow{}, err
	}
	return parseIndexRow(b, at, n%indexBlockRows)
}

// find returns the first row for which ok is true; r.rows if there is none. It
// must be false and then true along the rows.
func (r *indexReader) find(ok func(indexRow) bool) (int, error) {
	lo, hi := 0, r.blocks() // the answer is in block lo-1 or the first of block hi
	for lo < hi {
		mid := (lo + hi) / 2
		at := indexPlace{r.id, r.seg, uint32(mid)}
		b, err := r.block(at.block, false)
		if err != nil {
			return 0, err
		}
		row, err := parseIndexRow(b, at, 0)
		if err != nil {
			return 0, err
		}
		if ok(row) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return r.scan(max(0, (lo-1)*indexBlockRows), ok)
}

// scan goes through the rows from n on.
func (r *indexReader) scan(n int, ok func(indexRow) bool) (int, error) {
	for ; n < r.rows; n++ {
		row, err := r.row(n)
		if err != nil {
			return 0, err
		}
		if ok(row) {
			break
		}
	}
	return n, nil
}

// findTime returns the first row whose maxTs is at or above ms.
func (r *indexReader) findTime(ms int64) (int, error) {
	lo, hi := 0, r.blocks()
	for lo < hi {
		mid := (lo + hi) / 2
		at := indexPlace{r.id, r.seg, uint32(mid)}
		b, err := r.block(at.block, false)
		if err != nil {
			return 0, err
		}
		before, err := parseIndexHeader(b, at)
		if err != nil {
			return 0, err
		}
		if before >= ms { // it is in an earlier block
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return r.scan(max(0, (lo-1)*indexBlockRows), func(row indexRow) bool { return row.maxTs >= ms })
}
