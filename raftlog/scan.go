package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"millrace/core/mutant"
)

var errNoMoreFrames = errors.New("no more frames")

const scanBufBytes = 8 << 20

// scanner walks the valid frames of one journal file, over whatever lies
// between them.
type scanner struct {
	s    *Store
	buf  []byte
	from int64 // buf[0] is this position of the file
	to   int64

	f         *jfile
	header    fileHeader
	size      int64
	pos       int64
	payloadAt int64 // of the frame returned last
}

func newScanner(s *Store) *scanner {
	return &scanner{s: s, buf: AlignedBuf(int(min(scanBufBytes, s.opts.JournalFileBytes)))}
}

func (sc *scanner) free() { freeAligned(sc.buf) }

// reset starts over with a file. The file's name says who it is: the header
// block may be what is damaged.
func (sc *scanner) reset(f *jfile, instance uint64) {
	sc.f, sc.header = f, fileHeader{instance, f.seq}
	sc.size = 0
	sc.from, sc.to, sc.pos = 0, 0, BlockBytes
}

// load makes n bytes at position pos available.
func (sc *scanner) load(pos, n int64) ([]byte, error) {
	if pos >= sc.from && pos+n <= sc.to {
		return sc.buf[pos-sc.from : pos-sc.from+n], nil
	}
	if n > int64(len(sc.buf)) {
		freeAligned(sc.buf)
		sc.buf = AlignedBuf(int(n))
	}
	to := min(pos+int64(len(sc.buf)), sc.size)
	sc.from, sc.to = 0, 0
	if err := readFull(sc.f.f, sc.buf[:to-pos], pos); err != nil {
		return nil, fmt.Errorf("reading journal file %d at [%d, %d): %w", sc.f.seq, pos, to, err)
	}
	sc.from, sc.to = pos, to
	return sc.buf[:n], nil
}

// parsesAsFrame says whether a frame has the form of one, whatever its checksum.
// For a known-bad variant alone.
func parsesAsFrame(frame []byte) bool {
	for rest := frame[frameHeaderBytes:]; len(rest) > 0; {
		s, next, err := nextSection(rest)
		if err != nil {
			return false
		}
		for rs := s.Body; len(rs) > 0; {
			r, after, err := nextRecord(rs)
			if err == nil {
				err = parsesAsRecord(r)
			}
			if err != nil {
				return false
			}
			rs = after
		}
		rest = next
	}
	return true
}

func parsesAsRecord(r record) (err error) {
	switch r.Kind {
	case recEntry, recDirect:
		_, _, _, err = parseEntry(r)
	case recExtent:
		_, err = parseExtent(r)
	case recHardState:
		_, err = parseHardState(r)
	case recLogStart:
		_, err = parseLogStart(r)
	case recState:
		_, err = parseState(r)
	case recDeleted:
	default:
		err = errBadRecord
	}
	return err
}

// next returns the next valid frame; payload is good until the next call.
func (sc *scanner) next() (h frameHeader, payload []byte, err error) {
	if sc.size == 0 {
		size, err := sc.f.f.Size()
		if err != nil {
			return h, nil, fmt.Errorf("asking for the size of journal file %d: %w", sc.f.seq, err)
		}
		sc.size = alignDown(size)
	}
	for ; sc.pos+BlockBytes <= sc.size; sc.pos += BlockBytes {
		block, err := sc.load(sc.pos, BlockBytes)
		if err != nil {
			return h, nil, err
		}
		if binary.LittleEndian.Uint64(block) != frameMagic {
			continue
		}
		h, err = parseFrameHeader(block, sc.header)
		n := int64(frameHeaderBytes) + int64(h.PayloadLen)
		if err != nil || sc.pos+alignUp(n) > sc.size {
			continue
		}
		frame, err := sc.load(sc.pos, alignUp(n))
		if err != nil {
			return h, nil, err
		}
		frame = frame[:n]
		if !verifyFrame(frame) && !mutant.On(mutant.NoReplayChecksum) && !(mutant.On(mutant.TornTailAccepted) && parsesAsFrame(frame)) {
			continue
		}
		sc.payloadAt = sc.pos + frameHeaderBytes
		sc.pos += alignUp(n)
		return h, frame[frameHeaderBytes:], nil
	}
	return h, nil, errNoMoreFrames
}
