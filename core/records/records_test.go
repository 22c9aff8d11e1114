package records

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"millrace/core"
)

func plain(n int) core.Batch {
	rs := make([]core.Record, n)
	for i := range rs {
		rs[i] = core.Record{Key: []byte(fmt.Sprint("key", i)), Value: bytes.Repeat([]byte{byte(i)}, i)}
	}
	rs[0].Value = nil
	return Encode(make([]byte, Size(rs)), rs, 1000)
}

func compressed(tb testing.TB, b core.Batch, codec int) core.Batch {
	tb.Helper()
	var out bytes.Buffer
	out.Write(b[:core.BatchHeaderBytes])
	switch codec {
	case codecGzip:
		w := gzip.NewWriter(&out)
		w.Write(b.Records())
		w.Close()
	case codecSnappy:
		out.Write(snappy.Encode(nil, b.Records()))
	case codecSnappy + 8: // the Java client's framing
		out.Write(xerialMagic)
		out.Write(make([]byte, 8))
		for p := b.Records(); len(p) > 0; {
			n := min(len(p), 100)
			block := snappy.Encode(nil, p[:n])
			out.Write([]byte{0, 0, byte(len(block) >> 8), byte(len(block))})
			out.Write(block)
			p = p[n:]
		}
	case codecLZ4:
		w := lz4.NewWriter(&out)
		w.Write(b.Records())
		w.Close()
	case codecZstd:
		w, _ := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		w.Write(b.Records())
		w.Close()
	}
	c := core.Batch(out.Bytes())
	count := b.Count()
	c.InitHeader(count, b.BaseTimestamp(), b.MaxTimestamp())
	c.SetAttributes(int16(codec & core.AttrCodecMask))
	c.Seal()
	return c
}

func TestEachYieldsWhatEncodeWroteUnderEveryCodec(t *testing.T) {
	for _, codec := range []int{codecNone, codecGzip, codecSnappy, codecSnappy + 8, codecLZ4, codecZstd} {
		b := plain(40)
		if codec != codecNone {
			b = compressed(t, b, codec)
		}
		b.SetBase(500, 3)
		if err := b.Verify(); err != nil {
			t.Fatalf("codec %d: %v", codec, err)
		}
		i := 0
		err := Each(b, 1<<20, func(r Record) bool {
			if r.Offset != core.Offset(500+i) || r.TimestampMs != 1000 || string(r.Key) != fmt.Sprint("key", i) || len(r.Value) != i {
				t.Fatalf("codec %d: record %d is %+v", codec, i, r)
			}
			if (r.Value == nil) != (i == 0) {
				t.Fatalf("codec %d: record %d: null and empty are mixed up", codec, i)
			}
			i++
			return true
		})
		if err != nil || i != 40 {
			t.Fatalf("codec %d: %d records, %v", codec, i, err)
		}
	}
}

func TestEachRefusesWhatGrowsBeyondTheLimit(t *testing.T) {
	rs := []core.Record{{Value: make([]byte, 1<<20)}}
	big := Encode(make([]byte, Size(rs)), rs, 1)
	for _, codec := range []int{codecGzip, codecSnappy, codecLZ4, codecZstd} {
		err := Each(compressed(t, big, codec), 1<<16, func(Record) bool { return true })
		if !errors.Is(err, core.ErrCorruptBatch) {
			t.Errorf("codec %d: %v", codec, err)
		}
	}
}

func TestLogAppendTimeGivesEveryRecordTheBatchTime(t *testing.T) {
	b := plain(3)
	b.SetAppendTime(7777)
	if err := Each(b, 1<<20, func(r Record) bool { return r.TimestampMs == 7777 || t.Failed() || fail(t, r) }); err != nil {
		t.Fatal(err)
	}
}

func fail(t *testing.T, r Record) bool {
	t.Errorf("timestamp %d", r.TimestampMs)
	return true
}
