package core

import (
	"bytes"
	"errors"
	"strings"
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

// FuzzNextBatch cuts batches off foreign bytes until none is left. What is cut
// off is inside the bytes, its accessors and Verify look at nothing else, and what
// the broker writes into a batch that verifies leaves it one that verifies.
//
//fuzz:parses batch.go:NextBatch,Verify,BaseOffset,LeaderEpoch,SetBase,Attributes,LastOffsetDelta,LastOffset,BaseTimestamp,MaxTimestamp,ProducerID,ProducerEpoch,BaseSequence,Count,Codec,IsControl,IsTransactional,Records,SetAppendTime,SetAttributes,Seal,SizeBytes
func FuzzNextBatch(f *testing.F) {
	two := append([]byte(sampleBatch(2)), sampleBatch(1)...)
	f.Add([]byte(sampleBatch(2)), false)
	f.Add([]byte(sampleBatch(1))[:30], false)
	f.Add(two, true)
	f.Add(append(two, 0), true)
	old := append([]byte{}, two...)
	old[batchMagic] = 1
	f.Add(old, true)
	f.Add(old[:20], false)
	f.Fuzz(func(t *testing.T, p []byte, seal bool) {
		for len(p) > 0 {
			b, rest, err := NextBatch(p)
			if err != nil {
				if !errors.Is(err, ErrCorruptBatch) && !errors.Is(err, ErrUnsupportedMagic) {
					t.Fatal(err)
				}
				return
			}
			if len(b) < BatchHeaderBytes || len(b)+len(rest) != len(p) || b.SizeBytes() != len(b) || cap(b) != len(b) {
				t.Fatalf("%d bytes and %d of %d", len(b), len(rest), len(p))
			}
			before := bytes.Clone(rest)
			checkBatch(t, b, seal)
			if !bytes.Equal(rest, before) {
				t.Fatal("what is written into a batch reaches what follows it")
			}
			p = rest
		}
	})
}

func checkBatch(t *testing.T, b Batch, seal bool) {
	t.Helper()
	if seal {
		b.Seal() // let mutations reach what is behind the checksum
	}
	if err := b.Verify(); err != nil {
		if !errors.Is(err, ErrCorruptBatch) && !errors.Is(err, ErrUnsupportedMagic) && !errors.Is(err, ErrInvalidRecord) {
			t.Fatal(err)
		}
		return
	}
	if n, last := b.Count(), b.LastOffsetDelta(); n < 0 || last < n-1 || last < 0 {
		t.Fatalf("%d records with a last offset delta of %d", n, last)
	}
	id, epoch, seq, codec, control, transactional := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Codec(), b.IsControl(), b.IsTransactional()
	base, attributes := b.BaseTimestamp(), b.Attributes()
	b.SetBase(1<<50, 12)
	b.SetAppendTime(99)
	if err := b.Verify(); err != nil {
		t.Fatalf("after the broker wrote its part: %v", err)
	}
	if b.BaseOffset() != 1<<50 || b.LeaderEpoch() != 12 || b.LastOffset() != 1<<50+Offset(b.LastOffsetDelta()) || b.MaxTimestamp() != 99 ||
		b.Attributes() != attributes&AttrKnown|AttrLogAppendTime || b.BaseTimestamp() != base || b.ProducerID() != id || b.ProducerEpoch() != epoch ||
		b.BaseSequence() != seq || b.Codec() != codec || b.IsControl() != control || b.IsTransactional() != transactional || len(b.Records()) != len(b)-BatchHeaderBytes {
		t.Fatalf("the broker's part changed another: % x", []byte(b[:BatchHeaderBytes]))
	}
	b.SetAttributes(attributes)
	b.Seal()
	if err := b.Verify(); err != nil || b.Attributes() != attributes {
		t.Fatalf("attributes %x, %v", b.Attributes(), err)
	}
}

// FuzzCheckTopicName holds the check against Kafka's rule, written another way.
//
//fuzz:parses topicname.go
func FuzzCheckTopicName(f *testing.F) {
	for _, s := range []string{"", ".", "..", "a.b_c-9", "a b", "\x00", "ä", strings.Repeat("a", 249), strings.Repeat("a", 250)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ok := s != "" && s != "." && s != ".." && len(s) <= 249
		for _, c := range []byte(s) {
			ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-')
		}
		if why := CheckTopicName(s); (why == "") != ok {
			t.Fatalf("%q: %q", s, why)
		}
	})
}
