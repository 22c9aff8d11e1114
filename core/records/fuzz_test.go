package records

import (
	"bytes"
	"errors"
	"runtime/metrics"
	"testing"

	"millrace/core"
)

const (
	fuzzLimit = 1 << 18
	// fuzzAllocMax is what reading one batch may allocate: the decoders' own windows
	// and blocks (lz4 has blocks of 4 MiB) and what ReadAll throws away as it grows.
	fuzzAllocMax = 64 << 20
)

// allocated is how many bytes of heap the process has ever asked for.
func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// FuzzEach reads the records of foreign batches. What comes out is inside the
// limit, is as many records as the header says, and reads the same after it is
// written again; a bomb does not make the reader allocate.
//
//fuzz:parses records.go:Each,parse,cut decompress.go
func FuzzEach(f *testing.F) {
	f.Add([]byte(plain(3)))
	for _, codec := range []int{codecGzip, codecSnappy, codecSnappy + 8, codecLZ4, codecZstd} {
		f.Add([]byte(compressed(f, plain(5), codec)))
	}
	bomb := []core.Record{{Value: make([]byte, 4<<20)}}
	for _, codec := range []int{codecGzip, codecLZ4, codecZstd} {
		f.Add([]byte(compressed(f, Encode(make([]byte, Size(bomb)), bomb, 1), codec)))
	}
	unknown := plain(1)
	unknown.SetAttributes(7)
	f.Add([]byte(unknown))
	stamped := plain(2)
	stamped.SetAppendTime(5)
	f.Add([]byte(stamped))
	f.Fuzz(func(t *testing.T, p []byte) {
		b, _, err := core.NextBatch(p)
		if err != nil {
			return
		}
		b.Seal() // so that mutations reach the records
		if b.Verify() != nil {
			return
		}
		var got []core.Record
		room := len(b.Records())
		if b.Codec() != codecNone {
			room = fuzzLimit
		}
		before := allocated()
		err = Each(b, fuzzLimit, func(r Record) bool {
			room -= len(r.Key) + len(r.Value)
			got = append(got, core.Record{Key: r.Key, Value: r.Value})
			return true
		})
		if n := allocated() - before; n > fuzzAllocMax+uint64(len(got))*256 {
			t.Fatalf("%d bytes were allocated for a batch of %d", n, len(b))
		}
		if room < 0 {
			t.Fatalf("%d bytes more than there may be", -room)
		}
		if err != nil {
			if !errors.Is(err, core.ErrCorruptBatch) {
				t.Fatal(err)
			}
			return
		}
		if len(got) != int(b.Count()) {
			t.Fatalf("%d records of %d without an error", len(got), b.Count())
		}
		if len(got) > 0 {
			readAgain(t, got)
		}
	})
}

func readAgain(t *testing.T, rs []core.Record) {
	t.Helper()
	b := Encode(make([]byte, Size(rs)), rs, 7)
	i := 0
	err := Each(b, fuzzLimit, func(r Record) bool {
		w := rs[i]
		if !bytes.Equal(r.Key, w.Key) || !bytes.Equal(r.Value, w.Value) || (r.Key == nil) != (w.Key == nil) || (r.Value == nil) != (w.Value == nil) || r.Offset != core.Offset(i) {
			t.Fatalf("record %d is read as %+v", i, r)
		}
		i++
		return true
	})
	if err != nil || i != len(rs) {
		t.Fatalf("%d of %d records are read again, %v", i, len(rs), err)
	}
}

// FuzzEncode writes records of any content.
//
//fuzz:parses records.go:Size,Encode,bodySize,fieldSize,appendField,varintSize
func FuzzEncode(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), uint16(3), true)
	f.Add([]byte(nil), []byte(nil), uint16(200), false)
	f.Fuzz(func(t *testing.T, key, value []byte, n uint16, nulls bool) {
		rs := make([]core.Record, 1+int(n)%300)
		for i := range rs {
			rs[i] = core.Record{Key: key, Value: value[:len(value)*i/len(rs)]}
			if nulls && i%3 == 0 {
				rs[i].Value = nil
			}
		}
		readAgain(t, rs)
	})
}
