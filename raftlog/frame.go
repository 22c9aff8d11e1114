package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"millrace/core"
	"millrace/core/mutant"
)

// A journal file is one header block and then frames, each at a block border.
// docs/FORMATS.md has the layout byte by byte. Little-endian throughout.
const (
	fileMagic     = 0x314c4e4a4543524d // "MRCEJNL1"
	frameMagic    = 0x314d52464543524d // "MRCEFRM1"
	formatVersion = 1

	fileHeaderBytes = 64

	frameFixedBytes  = 64
	frameBloomBytes  = 128
	frameBlooms      = 4 // of the frames before this one
	frameHeaderBytes = frameFixedBytes + frameBlooms*frameBloomBytes
)

// errInvalidFrame is returned for bytes that are no frame of this file.
var errInvalidFrame = errors.New("not a valid frame")

// fileHeader identifies one use of one journal file: a recycled file gets a new
// Seq, and frames of its former use name another.
type fileHeader struct {
	Instance uint64
	Seq      uint64
}

func (h fileHeader) encode(block []byte) {
	clear(block[:BlockBytes])
	le := binary.LittleEndian
	le.PutUint64(block[0:], fileMagic)
	le.PutUint16(block[8:], formatVersion)
	le.PutUint64(block[16:], h.Instance)
	le.PutUint64(block[24:], h.Seq)
	le.PutUint64(block[56:], xxhash.Sum64(block[:56]))
}

func decodeFileHeader(block []byte) (h fileHeader, err error) {
	le := binary.LittleEndian
	if len(block) < fileHeaderBytes || le.Uint64(block) != fileMagic {
		return h, errors.New("not a journal file")
	}
	if le.Uint64(block[56:]) != xxhash.Sum64(block[:56]) {
		return h, errors.New("the header's checksum does not match")
	}
	if v := le.Uint16(block[8:]); v != formatVersion {
		return h, fmt.Errorf("%w: journal format %d, this program reads %d", ErrOtherVersion, v, formatVersion)
	}
	return fileHeader{Instance: le.Uint64(block[16:]), Seq: le.Uint64(block[24:])}, nil
}

// bloom is a set of partitions with false positives.
type bloom [frameBloomBytes]byte

func bloomBits(id core.PartitionID) (a, b uint32) {
	h := uint64(id) * 0x9E3779B97F4A7C15
	h ^= h >> 29
	h *= 0xBF58476D1CE4E5B9
	return uint32(h>>32) % (frameBloomBytes * 8), uint32(h) % (frameBloomBytes * 8)
}

func (f *bloom) add(id core.PartitionID) {
	a, b := bloomBits(id)
	f[a/8] |= 1 << (a % 8)
	f[b/8] |= 1 << (b % 8)
}

func (f *bloom) has(id core.PartitionID) bool {
	a, b := bloomBits(id)
	return f[a/8]&(1<<(a%8)) != 0 && f[b/8]&(1<<(b%8)) != 0
}

// frameHeader is the fixed part of a frame.
type frameHeader struct {
	Instance uint64
	FileSeq  uint64
	Seq      uint64 // consecutive over all files, from 1
	// Oldest is the first frame that was needed when this one was written: if
	// frames from there on are missing, the journal is damaged.
	Oldest     uint64
	PayloadLen uint32
	// Prev[i] is the set of partitions in frame Seq-1-i. It tells who lost
	// something when that frame is unreadable.
	Prev [frameBlooms]bloom
}

// seal writes the header and the checksum into a frame whose payload is already
// in place. buf is exactly header and payload.
func (h *frameHeader) seal(buf []byte) {
	le := binary.LittleEndian
	clear(buf[:frameFixedBytes])
	le.PutUint64(buf[0:], frameMagic)
	le.PutUint16(buf[8:], formatVersion)
	le.PutUint64(buf[16:], h.Instance)
	le.PutUint64(buf[24:], h.FileSeq)
	le.PutUint64(buf[32:], h.Seq)
	le.PutUint64(buf[40:], h.Oldest)
	le.PutUint32(buf[48:], h.PayloadLen)
	for i := range h.Prev {
		copy(buf[frameFixedBytes+i*frameBloomBytes:], h.Prev[i][:])
	}
	le.PutUint64(buf[56:], xxhash.Sum64(buf))
}

// frameSize is the number of bytes of a whole frame, its padding included.
func frameSize(payloadLen int) int64 { return alignUp(int64(frameHeaderBytes) + int64(payloadLen)) }

// parseFrameHeader reads the fixed part and checks everything but the
// checksum, which needs the payload.
func parseFrameHeader(b []byte, file fileHeader) (h frameHeader, err error) {
	le := binary.LittleEndian
	if len(b) < frameHeaderBytes || le.Uint64(b) != frameMagic {
		return h, errInvalidFrame
	}
	h = frameHeader{
		Instance: le.Uint64(b[16:]), FileSeq: le.Uint64(b[24:]), Seq: le.Uint64(b[32:]),
		Oldest: le.Uint64(b[40:]), PayloadLen: le.Uint32(b[48:]),
	}
	if le.Uint16(b[8:]) != formatVersion || h.Instance != file.Instance || h.FileSeq != file.Seq && !mutant.On(mutant.RecycledTakenForNew) || h.Seq == 0 {
		return h, errInvalidFrame
	}
	for i := range h.Prev {
		copy(h.Prev[i][:], b[frameFixedBytes+i*frameBloomBytes:])
	}
	return h, nil
}

// unused says of the block where the first frame of a file would be that the file has
// none: it is as it was when it was made, or has a frame of the file's former use.
func (file fileHeader) unused(b []byte) bool {
	le := binary.LittleEndian
	if le.Uint64(b) == 0 {
		return len(bytes.TrimLeft(b, "\x00")) == 0
	}
	return le.Uint64(b) == frameMagic && le.Uint16(b[8:]) == formatVersion && le.Uint64(b[16:]) == file.Instance && le.Uint64(b[24:]) < file.Seq
}

// verifyFrame checks the checksum of a whole frame (header and payload, without
// padding). It changes buf for the time of the call.
func verifyFrame(buf []byte) bool {
	le := binary.LittleEndian
	want := le.Uint64(buf[56:])
	le.PutUint64(buf[56:], 0)
	got := xxhash.Sum64(buf)
	le.PutUint64(buf[56:], want)
	return got == want
}
