package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"

	"millrace/bench/peers"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// TestLatencyCountsFromTheIntendedTime: requests that were due during a stall
// count with the time that they waited for it.
func TestLatencyCountsFromTheIntendedTime(t *testing.T) {
	begin := time.Unix(100, 0)
	times := newLatencies()
	l := times.window(begin, time.Second)
	stallEnd := begin.Add(time.Second)
	for i := range 100 {
		l.record(begin.Add(time.Duration(i)*10*time.Millisecond), stallEnd)
	}
	l.record(begin.Add(-time.Millisecond), stallEnd) // warm-up
	l.record(begin.Add(time.Second), stallEnd)       // after the end
	r := times.result()
	if r.P50 < 490 || r.P50 > 520 || r.Max < 990 || r.PerSecond != 100 {
		t.Errorf("p50 %.0f ms, max %.0f ms, %.0f answers: want about 500, 1000 and 100", r.P50, r.Max, r.PerSecond)
	}
}

func TestAlignedBlocksSuitDirectIO(t *testing.T) {
	for range 50 {
		b := aligned(blockBytes)
		if len(b) != blockBytes || uintptr(unsafe.Pointer(&b[0]))%blockBytes != 0 {
			t.Fatalf("%d bytes at %p", len(b), &b[0])
		}
	}
}

func TestBatchesAreWhatKafkaCallsBatches(t *testing.T) {
	for _, size := range []int{1 << 10, 16 << 10, 64 << 10} {
		b := makeBatch(size)
		if len(b) > size || len(b) < size*9/10 {
			t.Errorf("a batch of %d bytes where %d were asked for", len(b), size)
		}
		var r kmsg.RecordBatch
		if err := r.ReadFrom(b); err != nil {
			t.Fatal(err)
		}
		if r.Magic != 2 || r.Length != int32(len(b)-12) || r.LastOffsetDelta != r.NumRecords-1 || r.ProducerID != -1 {
			t.Errorf("header %+v", r)
		}
		if sum := crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)); uint32(r.CRC) != sum {
			t.Errorf("checksum %x, want %x", uint32(r.CRC), sum)
		}
		rest := r.Records
		for i := range r.NumRecords {
			n, k := binary.Varint(rest)
			var rec kmsg.Record
			if err := rec.ReadFrom(rest[:k+int(n)]); err != nil {
				t.Fatal(err)
			}
			if rec.OffsetDelta != i || len(rec.Value) < 900 {
				t.Errorf("record %d has delta %d and %d bytes", i, rec.OffsetDelta, len(rec.Value))
			}
			rest = rest[k+int(n):]
		}
		if len(rest) != 0 {
			t.Errorf("%d bytes behind the records", len(rest))
		}
	}
}

func TestProduceFrameAndItsAnswer(t *testing.T) {
	batch := makeBatch(1 << 10)
	f := produceFrame("topic", 7, batch)
	if int(binary.BigEndian.Uint32(f)) != len(f)-4 || f[4] != 0 || f[5] != 0 || f[7] != produceVersion {
		t.Fatalf("frame % x", f[:16])
	}
	var r kmsg.ProduceRequest
	r.SetVersion(produceVersion)
	if err := r.ReadFrom(f[4+8+2+len("bench"):]); err != nil {
		t.Fatal(err)
	}
	if p := r.Topics[0].Partitions[0]; r.Acks != -1 || r.Topics[0].Topic != "topic" || p.Partition != 7 || !bytes.Equal(p.Records, batch) {
		t.Errorf("request %+v", r)
	}

	for code, want := range map[int16]string{0: "", 6: "error 6"} {
		a := kmsg.NewProduceResponse()
		a.SetVersion(produceVersion)
		at, ap := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
		at.Topic, ap.Partition, ap.ErrorCode = "topic", 7, code
		at.Partitions = append(at.Partitions, ap)
		a.Topics = append(a.Topics, at)
		body := a.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 1})
		binary.BigEndian.PutUint32(body, uint32(len(body)-4))
		got, err := readAnswer(bytes.NewReader(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkProduced(got); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("code %d: %v", code, err)
		}
	}
	if checkProduced([]byte{0, 0, 0, 1, 0, 0, 0, 0}) == nil {
		t.Error("an answer without a partition passed")
	}
}

func TestVerdicts(t *testing.T) {
	m := &measurement{
		letter: "x", title: "Test", rows: []row{{name: "speed", label: "speed", unit: "x", digits: 2}, {name: "lag", label: "lag", unit: "ms"}},
		targets: []target{{"speed", 0.6, true}, {"lag", 3, false}},
	}
	results := [][]figures{{{"speed": 0.5, "lag": 1}, {"speed": 0.7, "lag": 9}, {"speed": 0.65, "lag": 4}}}
	got := markdown(options{broker: peers.Choice{Peer: "millrace"}, repeats: 3, seconds: 1}, []*measurement{m}, results)
	for _, want := range []string{
		"| x | speed | at least 0.6x | 0.65x (0.50 to 0.70) | met |", "| x | lag | at most 3 ms | 4 ms (1 to 9) | MISSED |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	var js bytes.Buffer
	if err := printJSON(&js, options{}, []*measurement{m}, results); err != nil || !strings.Contains(js.String(), `"median": 0.65`) {
		t.Errorf("%v\n%s", err, js.String())
	}
}

func TestEveryFigureMustBeMeasured(t *testing.T) {
	m := &measurement{rows: []row{{name: "a"}, {name: "b", zero: true}}}
	if err := m.complete(figures{"a": 1, "b": 0}); err != nil {
		t.Error(err)
	}
	nan := 0.0
	for _, f := range []figures{{"a": 1}, {"a": 0, "b": 1}, {"a": 1 / nan, "b": 1}, {"a": nan / nan, "b": 1}, {"a": -1, "b": 1}} {
		if m.complete(f) == nil {
			t.Errorf("%v passed", f)
		}
	}
}

// TestMeasurementsFitTogether: a target without a row could not be printed, and
// --only goes by letters.
func TestMeasurementsFitTogether(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range measurements {
		if seen[m.letter] {
			t.Errorf("two measurements %s", m.letter)
		}
		seen[m.letter] = true
		names := map[string]bool{}
		for _, r := range m.rows {
			if names[r.name] {
				t.Errorf("%s: two rows %s", m.letter, r.name)
			}
			names[r.name] = true
		}
		for _, g := range m.targets {
			if !names[g.name] {
				t.Errorf("%s: the target %s has no row", m.letter, g.name)
			}
		}
	}
	if _, err := choose(options{only: "a,zz", repeats: 1, seconds: 1}); err == nil {
		t.Error("an unknown letter was taken")
	}
	if ms, err := choose(options{only: "b", repeats: 1, seconds: 1}); err != nil || len(ms) != 1 || ms[0].letter != "b" {
		t.Errorf("%v, %v", ms, err)
	}
}

func TestStepsAlternate(t *testing.T) {
	var order []int
	step := func(i int) func() error { return func() error { order = append(order, i); return nil } }
	for repeat := range 2 {
		if err := inTurn(repeat, step(1), step(2), step(3)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(order, []int{1, 2, 3, 3, 2, 1}) {
		t.Errorf("order %v", order)
	}
	bad := errors.New("bad")
	if err := inTurn(0, func() error { return bad }, step(9)); err != bad {
		t.Errorf("%v", err)
	}
}
