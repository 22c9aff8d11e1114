package raftlog

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"millrace/core"
	"millrace/core/arena"
)

// jobBufBytes is the size of one I/O buffer of a Job, at most that of a journal file:
// a huge page.
const jobBufBytes = hugePageBytes

// readGapMax is how many bytes between two pieces are read along rather than
// skipped by a second read.
const readGapMax = 32 << 10

// piece is a run of bytes somewhere on disk or in memory.
type piece struct {
	jf  *jfile // in a journal file, or
	seg uint32 // in a segment of the partition, or
	buf arena.Buf
	off int64
	n   int
}

// addPieces appends where the payload of a durable entry is: one piece as a
// rule, up to three for a direct one.
func (l *Log) addPieces(ps []piece, pin *filePins, m *entryMeta) []piece {
	if !m.direct {
		return append(ps, piece{jf: pin.acquire(m.file), off: int64(m.jpos), n: int(m.length)})
	}
	x := l.extentOf(m)
	at, end := int64(m.pos), int64(m.pos)+int64(m.length)
	headEnd, tailFrom := int64(x.pos)+int64(x.head), x.end()-int64(x.tail)
	if n := min(end, headEnd) - at; n > 0 {
		ps = append(ps, piece{jf: pin.acquire(x.file), off: int64(x.headAt) + at - int64(x.pos), n: int(n)})
		at += n
	}
	if n := min(end, tailFrom) - at; n > 0 {
		ps = append(ps, piece{seg: x.seg, off: at, n: int(n)})
		at += n
	}
	if n := end - at; n > 0 {
		ps = append(ps, piece{jf: pin.acquire(x.file), off: int64(x.tailAt) + at - tailFrom, n: int(n)})
	}
	return ps
}

func (l *Log) extentOf(m *entryMeta) *extent {
	k := sort.Search(l.extents.len(), func(k int) bool {
		x := l.extents.at(k)
		return x.seg > m.seg || x.seg == m.seg && x.pos > m.pos
	})
	if k > 0 {
		if x := l.extents.at(k - 1); x.seg == m.seg && int64(m.pos)+int64(m.length) <= x.end() {
			return x
		}
	}
	panic(fmt.Sprintf("BUG: no extent holds position %d of segment %d, partition %d", m.pos, m.seg, l.id))
}

// filePins are the journal files that a Job reads from.
type filePins struct {
	j     *Journal
	files []*jfile
}

func (p *filePins) acquire(ord uint32) *jfile {
	for _, f := range p.files {
		if f.ord == ord {
			return f
		}
	}
	f := p.j.acquire(ord)
	p.files = append(p.files, f)
	return f
}

// release may be called by any goroutine, once.
func (p *filePins) release() {
	for _, f := range p.files {
		f.refs.Add(-1)
	}
	p.files = nil
}

// fileReader reads pieces through one aligned buffer. It belongs to one Job.
type fileReader struct {
	store *Store
	id    core.PartitionID
	buf   []byte

	// What buf holds.
	jf       *jfile
	seg      uint32
	from, to int64

	segFile File // of segment segOpen
	segOpen uint32
}

func (r *fileReader) close() error {
	if r.buf != nil {
		r.store.bufs.put(r.buf)
		r.buf = nil
	}
	if r.segFile != nil {
		f := r.segFile
		r.segFile = nil
		return f.Close()
	}
	return nil
}

// read copies piece ps[0] into dst; the pieces after it tell how far to read
// ahead.
func (r *fileReader) read(ps []piece, dst []byte) error {
	p := &ps[0]
	if p.jf == nil && p.seg == 0 {
		copy(dst, p.buf.Bytes()[p.off:p.off+int64(p.n)])
		return nil
	}
	for at, end := p.off, p.off+int64(p.n); at < end; {
		if p.jf != r.jf || p.seg != r.seg || at < r.from || at >= r.to {
			if err := r.fill(p, at, readAhead(ps)); err != nil {
				return err
			}
		}
		n := copy(dst, r.buf[at-r.from:min(r.to, end)-r.from])
		dst, at = dst[n:], at+int64(n)
	}
	return nil
}

// readAhead is the end of the run of pieces that is best read at once.
func readAhead(ps []piece) int64 {
	end := ps[0].off + int64(ps[0].n)
	for i := 1; i < len(ps); i++ {
		p := &ps[i]
		if p.jf != ps[0].jf || p.seg != ps[0].seg || p.off < end || p.off > end+readGapMax || p.off-ps[0].off > jobBufBytes {
			break
		}
		end = p.off + int64(p.n)
	}
	return end
}

// fill loads the buffer from position at, up to end if it fits.
func (r *fileReader) fill(p *piece, at, end int64) error {
	if r.buf == nil {
		r.buf = r.store.bufs.get()
	}
	f, err := r.file(p)
	if err != nil {
		return err
	}
	from := alignDown(at)
	to := min(alignUp(end), from+int64(len(r.buf)))
	r.jf, r.seg, r.from, r.to = nil, 0, 0, 0
	if err := readFull(f, r.buf[:to-from], from); err != nil {
		return fmt.Errorf("reading [%d, %d): %w", from, to, err)
	}
	r.jf, r.seg, r.from, r.to = p.jf, p.seg, from, to
	return nil
}

func (r *fileReader) file(p *piece) (File, error) {
	if p.jf != nil {
		return p.jf.f, nil
	}
	if r.segFile != nil && r.segOpen == p.seg {
		return r.segFile, nil
	}
	if r.segFile != nil {
		if err := r.segFile.Close(); err != nil {
			return nil, err
		}
		r.segFile = nil
	}
	f, err := r.store.fs.Open(segmentName(r.id, p.seg))
	if err != nil {
		return nil, fmt.Errorf("opening a segment: %w", err)
	}
	r.segFile, r.segOpen = f, p.seg
	return f, nil
}

// readFull reads all of p at off; a short file is io.ErrUnexpectedEOF.
func readFull(f File, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := f.ReadAt(p, off)
		p, off = p[n:], off+int64(n)
		if len(p) == 0 {
			return nil
		}
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
