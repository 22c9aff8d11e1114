package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cespare/xxhash/v2"

	"millrace/core"
)

// fuzzSeeds are valid examples of all that is parsed; with -rewrite they become
// the committed corpora.
func fuzzSeeds() map[string][]byte {
	w := writer{buf: make([]byte, 64<<10)}
	w.n = frameHeaderBytes
	at := w.n
	w.u64(20)
	w.u64(0)
	w.u64(0)
	batch := makeBatch(0, 2, 200, 3, 7000)
	m := entryMeta{term: 3, maxTs: 7000, lastDelta: 1, length: 200, seg: 1, kind: EntryBatch}
	w.putState(&groupState{
		hs: HardState{Term: 3, Vote: 1, Commit: 4}, firstIndex: 1, nextSeg: 2, checkpoint: []byte("x"), damaged: "y",
		epochs: []EpochStart{{1, 1, 0}}, segs: []segInfo{{id: 1, rows: 1, bytes: 10, nextOffset: 0, baseIndex: 1}},
	})
	w.putEntry(1, &m, batch)
	w.putHardState(HardState{Term: 3, Vote: core.NoNode})
	w.putLogStart(1)
	x := extent{seg: 1, pos: 200, length: 20000}
	x.split()
	edge := make([]byte, 8192)
	w.putExtent(&x, edge[:x.head], edge[:x.tail])
	big := m
	big.direct, big.length, big.pos, big.baseOffset = true, 20000, 200, 2
	w.putDirect(2, &big, batch)
	w.recordHeader(recDeleted, 0, 0)
	head := writer{buf: w.buf, n: at + 16}
	head.u32(uint32(w.n - at - sectionHeaderBytes))
	head.u32(7)
	h := frameHeader{Instance: 1, FileSeq: 1, Seq: 1, Oldest: 1, PayloadLen: uint32(w.n - frameHeaderBytes)}
	h.seal(w.buf[:w.n])

	block := make([]byte, BlockBytes)
	place := indexPlace{20, 1, 0}
	putIndexHeader(block, place, -1)
	row := indexRow{0, 1, 7000, 0, 200, 1, 3}
	row.put(block, place, 0)

	id, file := make([]byte, BlockBytes), make([]byte, BlockBytes)
	identity{Node: 1, Cluster: "c", Instance: 1}.encode(id)
	fileHeader{1, 1}.encode(file)
	return map[string][]byte{
		"FuzzFrame": w.buf[:w.n], "FuzzSections": w.buf[frameHeaderBytes:w.n], "FuzzIndexBlock": block[:256], "FuzzIdentity": id, "FuzzFileHeader": file[:fileHeaderBytes],
	}
}

func seed(f *testing.F, name string) {
	data := fuzzSeeds()[name]
	f.Add(data)
	if rewriting() {
		dir := filepath.Join("testdata", "fuzz", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			f.Fatal(err)
		}
		for what, p := range map[string][]byte{"valid": data, "short": data[:len(data)/2], "empty": nil} {
			text := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", p)
			if err := os.WriteFile(filepath.Join(dir, what), []byte(text), 0o644); err != nil {
				f.Fatal(err)
			}
		}
	}
}

//fuzz:parses frame.go:parseFrameHeader,verifyFrame
func FuzzFrame(f *testing.F) {
	seed(f, "FuzzFrame")
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseFrameHeader(b, fileHeader{1, 1})
		if err != nil {
			return
		}
		n := int64(frameHeaderBytes) + int64(h.PayloadLen)
		if n > int64(len(b)) || !verifyFrame(b[:n]) {
			return
		}
		again := append([]byte(nil), b[:n]...)
		h.seal(again)
		if xxhash.Sum64(again) != xxhash.Sum64(b[:n]) {
			// Only bytes that nobody reads may differ.
			if g, err := parseFrameHeader(again, fileHeader{1, 1}); err != nil || g != h {
				t.Errorf("%+v is written as %+v, %v", h, g, err)
			}
		}
	})
}

// FuzzSections feeds the payload of a frame to the replay of one group.
//
//fuzz:parses record.go:nextSection,nextRecord,reader.take,parseEntry,parseExtent,reader.hardState,parseHardState,parseLogStart,parseState,check recover_group.go:section,record,entry,settle,checkOrder
func FuzzSections(f *testing.F) {
	seed(f, "FuzzSections")
	f.Fuzz(func(t *testing.T, b []byte) {
		g := &groupReplay{id: 20}
		jf := &jfile{seq: 1, ord: 1}
		for rest := b; len(rest) > 0; {
			s, next, err := nextSection(rest)
			if err != nil {
				return
			}
			if len(next) >= len(rest) {
				t.Fatal("no progress")
			}
			if err := g.section(jf, 1, 1, &s, 0); err != nil {
				return
			}
			rest = next
		}
		if !g.deleted {
			g.settle()
		}
	})
}

//fuzz:parses index.go:parseIndexHeader,parseIndexRow,rowSum
func FuzzIndexBlock(f *testing.F) {
	seed(f, "FuzzIndexBlock")
	f.Fuzz(func(t *testing.T, b []byte) {
		place := indexPlace{20, 1, 0}
		if _, err := parseIndexHeader(b, place); err == nil && len(b) < indexHeaderBytes {
			t.Error("a short header is taken")
		}
		block := make([]byte, BlockBytes)
		copy(block, b)
		for row := range indexBlockRows {
			r, err := parseIndexRow(block, place, row)
			if err != nil {
				continue
			}
			again := make([]byte, BlockBytes)
			r.put(again, place, row)
			if g, err := parseIndexRow(again, place, row); err != nil || g != r {
				t.Errorf("%+v is written as %+v, %v", r, g, err)
			}
		}
	})
}

//fuzz:parses identity.go:decodeIdentity,identitySum
func FuzzIdentity(f *testing.F) {
	seed(f, "FuzzIdentity")
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := decodeIdentity(b)
		if err != nil {
			return
		}
		again := make([]byte, BlockBytes)
		id.encode(again)
		if g, err := decodeIdentity(again); err != nil || g != id {
			t.Errorf("%+v is written as %+v, %v", id, g, err)
		}
	})
}

//fuzz:parses frame.go:decodeFileHeader
func FuzzFileHeader(f *testing.F) {
	seed(f, "FuzzFileHeader")
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeFileHeader(b)
		if err != nil {
			return
		}
		again := make([]byte, BlockBytes)
		h.encode(again)
		if g, err := decodeFileHeader(again); err != nil || g != h {
			t.Errorf("%+v is written as %+v, %v", h, g, err)
		}
	})
}
