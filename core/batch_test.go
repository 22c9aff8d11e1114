package core

import (
	"errors"
	"testing"
)

func sampleBatch(records int) Batch {
	b := Batch(make([]byte, BatchHeaderBytes+10*records))
	b.InitHeader(int32(records), 1000, 1005)
	return b
}

func TestBatchHeaderRoundTrip(t *testing.T) {
	b := sampleBatch(3)
	b.SetProducer(77, 4, 2147483647)
	b.Seal()
	b.SetBase(1<<40, 9)
	if err := b.Verify(); err != nil {
		t.Fatal(err)
	}
	if b.BaseOffset() != 1<<40 || b.LastOffset() != 1<<40+2 || b.LeaderEpoch() != 9 || b.Count() != 3 || b.SizeBytes() != len(b) ||
		b.ProducerID() != 77 || b.ProducerEpoch() != 4 || b.BaseSequence() != 2147483647 || b.BaseTimestamp() != 1000 || b.MaxTimestamp() != 1005 {
		t.Fatalf("% x", []byte(b[:BatchHeaderBytes]))
	}
	b.SetAppendTime(5000)
	if err := b.Verify(); err != nil || b.MaxTimestamp() != 5000 || b.Attributes()&AttrLogAppendTime == 0 {
		t.Fatalf("append time: %v, %d", err, b.MaxTimestamp())
	}
}

func TestVerifyFindsEveryFlippedBitThatTheChecksumCovers(t *testing.T) {
	b := sampleBatch(1)
	for i := batchMagic; i < len(b); i++ {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if b.Verify() == nil {
				t.Fatalf("bit %d of byte %d is flipped and nothing is said", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
}

func TestNextBatchCutsByLength(t *testing.T) {
	first, second := sampleBatch(1), sampleBatch(2)
	got, rest, err := NextBatch(append(append([]byte{}, first...), second...))
	if err != nil || len(got) != len(first) || len(rest) != len(second) {
		t.Fatalf("%d and %d bytes, %v", len(got), len(rest), err)
	}
	for n := range first {
		if _, _, err := NextBatch(first[:n]); !errors.Is(err, ErrCorruptBatch) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	old := append([]byte{}, first...)
	old[batchMagic], old[batchLength] = 1, 0x7f
	if _, _, err := NextBatch(old); !errors.Is(err, ErrUnsupportedMagic) {
		t.Fatalf("magic 1: %v", err)
	}
}

func FuzzNextBatch(f *testing.F) {
	f.Add([]byte(sampleBatch(2)))
	f.Add([]byte(sampleBatch(1))[:30])
	f.Fuzz(func(t *testing.T, p []byte) {
		b, rest, err := NextBatch(p)
		if err != nil {
			return
		}
		if len(b) < BatchHeaderBytes || len(b)+len(rest) != len(p) || b.SizeBytes() != len(b) {
			t.Fatalf("%d bytes and %d of %d", len(b), len(rest), len(p))
		}
		if b.Verify() == nil && b.LastOffsetDelta() < b.Count()-1 {
			t.Fatal("fewer offsets than records")
		}
	})
}
