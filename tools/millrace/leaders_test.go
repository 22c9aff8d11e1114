package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// leaders asks once who leads the partitions of t and counts those without.
func leaders(t *testing.T, cl *kgo.Client) (with, without int) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr("t")
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(within(t, 20*time.Second), cl)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range resp.Topics[0].Partitions {
		if p.ErrorCode == 0 && p.Leader == 1 {
			with++
		} else {
			without++
		}
	}
	return with, without
}

// slowDisk leaves a directory with a topic of many partitions, on a disk where
// elections take their time.
func slowDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	t.Setenv(asMillrace, failingDisk)
	p := startProcess(t, dir)
	createTopic(t, client(t, p.kafka), "t", 300, nil)
	p.kill()
	beside(t, dir, "slow")
	return dir
}

func beside(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstClientFindsLeaders(t *testing.T) {
	dir := slowDisk(t)
	p := startProcess(t, dir)
	if with, without := leaders(t, client(t, p.kafka)); with != 300 || without != 0 {
		t.Errorf("%d partitions have a leader and %d have none", with, without)
	}
	if strings.Contains(p.stderr(), "no leader") {
		t.Error("it says that some have no leader")
	}
	p.stop()
}

// The registration and the elections share the slow disk's syncs, so on a crowded
// machine most elections, or all, may be over when the short wait begins: another
// start is then asked to show it.
func TestClientsAreAcceptedAlthoughElectionsTakeLong(t *testing.T) {
	dir := slowDisk(t)
	beside(t, dir, "hasty")
	named := regexp.MustCompile(`accepted although some partitions have no leader yet" partitions=[1-9]\d* first="t-\d+`)
	for range 5 {
		p := startProcess(t, dir)
		produce(t, client(t, p.kafka), "t", 0, 10)
		told := named.MatchString(p.stderr())
		p.stop()
		if told {
			return
		}
	}
	t.Error("no start accepted clients before the elections were over and named the partitions")
}
