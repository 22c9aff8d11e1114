package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFetchFrame(t *testing.T) {
	f, offset := fetchFrame("topic")
	binary.BigEndian.PutUint64(offset, 77)
	var r kmsg.FetchRequest
	r.SetVersion(fetchVersion)
	if err := r.ReadFrom(f[4+8+2+len("bench"):]); err != nil {
		t.Fatal(err)
	}
	p := r.Topics[0].Partitions[0]
	if f[5] != 1 || r.SessionEpoch != -1 || r.Topics[0].Topic != "topic" || p.FetchOffset != 77 || p.PartitionMaxBytes != fetchBytes || p.CurrentLeaderEpoch != -1 {
		t.Errorf("request %+v", r)
	}
}

// fetchAnswer encodes what a broker says.
func fetchAnswer(topic string, code int16, records []byte) []byte {
	a := kmsg.NewFetchResponse()
	a.SetVersion(fetchVersion)
	at, ap := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	at.Topic, ap.ErrorCode, ap.RecordBatches = topic, code, records
	at.Partitions = append(at.Partitions, ap)
	a.Topics = append(a.Topics, at)
	b := a.AppendTo([]byte{0, 0, 0, 0, 0, 0, 0, 1})
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func TestConsumerReadsAnswers(t *testing.T) {
	first, second := makeBatch(4<<10), makeBatch(4<<10)
	n := int64(recordsIn(first))
	binary.BigEndian.PutUint64(first, 100)
	binary.BigEndian.PutUint64(second, uint64(100+n))
	both := append(append([]byte(nil), first...), second...)
	for _, c := range []struct {
		name    string
		answer  []byte
		at, end int64
		ok      bool
	}{
		{"two batches", fetchAnswer("topic", 0, both), 100, 100 + 2*n, true},
		{"from the middle of a batch", fetchAnswer("topic", 0, both), 101, 100 + 2*n, true},
		{"second cut off", fetchAnswer("topic", 0, both[:len(both)-1]), 100, 100 + n, true},
		{"nothing", fetchAnswer("topic", 0, nil), 100, 100, true},
		{"a gap", fetchAnswer("topic", 0, both), 99, 99, false},
		{"an error", fetchAnswer("topic", 1, nil), 100, 100, false},
		{"cut off", fetchAnswer("topic", 0, both)[:500], 100, 100, false},
	} {
		k := &consumer{in: bufio.NewReader(bytes.NewReader(c.answer)), topic: "topic"}
		records, err := k.records()
		end := c.at
		if err == nil {
			end, err = endOf(records, c.at)
		}
		if end != c.end || (err == nil) != c.ok {
			t.Errorf("%s: end %d, %v; want %d", c.name, end, err, c.end)
		}
	}
}

func TestMetricsAreAddedOverShards(t *testing.T) {
	for in, want := range map[string]string{
		"a": "a", `a{shard="1"}`: "a", `a{shard="1",reason="x"}`: `a{reason="x"}`, `a{api="Fetch"}`: `a{api="Fetch"}`,
	} {
		if got := withoutShard(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestReplayedBytesAreThoseOfTheLastStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	text := "msg=recovered logs=0 replayed_bytes=0 torn=1\nmsg=recovered logs=3 replayed_bytes=2097152 torn=1\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if n, err := replayedMiB(path); err != nil || n != 2 {
		t.Errorf("%v MiB, %v", n, err)
	}
}
