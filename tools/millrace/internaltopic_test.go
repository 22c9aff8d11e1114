package main

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestClientsAndTheOffsetsTopic: as in Kafka, clients may grow, configure and
// delete the topic of committed offsets, and neither write to it nor trim it.
// After it is deleted the next lookup of a coordinator makes it anew, empty.
func TestClientsAndTheOffsetsTopic(t *testing.T) {
	p := startProcess(t, t.TempDir(), "--set", "offsets.topic.num.partitions=4")
	manual := kgo.RecordPartitioner(kgo.ManualPartitioner())
	cl := client(t, p.kafka, manual)
	adm := kadm.NewClient(cl)
	createTopic(t, cl, "t", 1, nil)
	commit := func() {
		t.Helper()
		offsets := kadm.Offsets{}
		offsets.AddOffset("t", 0, 5, -1)
		if err := adm.CommitAllOffsets(within(t, 20*time.Second), "g", offsets); err != nil {
			t.Fatal(err)
		}
	}
	committed := func() int64 {
		t.Helper()
		got, err := adm.FetchOffsets(within(t, 20*time.Second), "g")
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := got.Lookup("t", 0); ok {
			return o.At
		}
		return -1
	}
	ctx := within(t, 60*time.Second)
	commit()
	if at := committed(); at != 5 {
		t.Fatalf("committed %d, want 5", at)
	}

	trimmed := kadm.Offsets{}
	trimmed.AddOffset(offsetsTopic, 0, -1, -1)
	deleted, err := adm.DeleteRecords(ctx, trimmed)
	if r, _ := deleted.Lookup(offsetsTopic, 0); err != nil || !errors.Is(r.Err, kerr.InvalidTopicException) {
		t.Errorf("DeleteRecords: %v, %v", err, r.Err)
	}
	for _, id := range []string{"anybody", "__admin_client"} {
		writer := client(t, p.kafka, manual, kgo.ClientID(id))
		err := writer.ProduceSync(ctx, &kgo.Record{Topic: offsetsTopic, Key: []byte("k"), Value: []byte("v")}).FirstErr()
		if !errors.Is(err, kerr.InvalidTopicException) {
			t.Errorf("Produce by %s: %v", id, err)
		}
	}
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "segment.bytes", Value: kadm.StringPtr("52428800")}}, offsetsTopic)
	if err != nil || altered[0].Err != nil {
		t.Errorf("AlterConfigs: %v, %v", err, altered)
	}
	if at := committed(); at != 5 {
		t.Errorf("committed %d after all that, want 5", at)
	}
	grown, err := adm.CreatePartitions(ctx, 1, offsetsTopic)
	if err == nil {
		err = grown.Error()
	}
	if err != nil {
		t.Errorf("CreatePartitions: %v", err)
	}

	gone, err := adm.DeleteTopics(ctx, offsetsTopic)
	if err == nil {
		err = gone.Error()
	}
	if err != nil {
		t.Fatalf("DeleteTopics: %v", err)
	}
	if at := committed(); at != -1 {
		t.Errorf("committed %d in a topic that was deleted", at)
	}
	commit()
	topics, err := adm.ListTopicsWithInternal(ctx, offsetsTopic)
	if n := len(topics[offsetsTopic].Partitions); err != nil || n != 4 {
		t.Errorf("made anew with %d partitions, %v", n, err)
	}
	if at := committed(); at != 5 {
		t.Errorf("committed %d, want 5", at)
	}
	p.stop()
}
