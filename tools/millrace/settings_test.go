package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/core"
	"millrace/core/config"
	"millrace/core/meta"
	"millrace/raftlog"
)

// TestEverySettingIsRead finds settings that are in the table and have no
// effect: no code names them, and no other setting takes its default from them.
func TestEverySettingIsRead(t *testing.T) {
	var code strings.Builder
	for _, dir := range []string{".", "../../net/kafka", "../../core/config"} {
		names, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.Contains(filepath.Base(name), "table_") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	sources := map[string]bool{}
	for _, scope := range []config.Scope{config.Broker, config.Topic} {
		for s := range config.All(scope) {
			for _, f := range s.From {
				sources[f.Name] = true
			}
		}
	}
	for s := range config.All(config.Broker) {
		if !sources[s.Name] && !strings.Contains(code.String(), `"`+s.Name+`"`) {
			t.Errorf("broker setting %s is never read", s.Name)
		}
		if s.Dynamic && !sources[s.Name] {
			t.Errorf("broker setting %s is called dynamic, and nothing reads it again", s.Name)
		}
	}
	for s := range config.All(config.Topic) {
		if !s.NoEffect && s.Only == "" && !strings.Contains(code.String(), `"`+s.Name+`"`) {
			t.Errorf("topic setting %s is never read, and not said to be without effect", s.Name)
		}
	}
}

func TestTopicConfigFollowsTheMetadata(t *testing.T) {
	l := &live{base: config.Defaults(), node: 1}
	topic := &meta.Topic{Name: "t", Configs: map[string]string{
		"retention.ms": "-1", "segment.bytes": "2000000", "cleanup.policy": "", "message.timestamp.type": "LogAppendTime", "max.message.bytes": "77",
	}}
	c := l.topicConfig(&meta.Image{}, topic)
	want := raftlog.LogConfig{SegmentBytes: 2000000, SegmentMs: 604800000, RetentionBytes: -1, RetentionMs: -1, FlushBytesMax: 16 << 20}
	if c.Log != want || !c.LogAppendTime || c.MaxMessageBytes != 77 || c.MinInsyncReplicas != 1 || c.TimestampBeforeMaxMs != math.MaxInt64 || c.TimestampAfterMaxMs != 3600000 {
		t.Errorf("%+v", c)
	}
	topic.Configs = nil
	im := &meta.Image{ClusterConfigs: map[string]string{"log.retention.ms": "9", "message.max.bytes": "5"}}
	im.BrokerConfigs = map[core.NodeID]map[string]string{1: {"message.max.bytes": "6"}, 2: {"message.max.bytes": "7"}}
	if c = l.topicConfig(im, topic); c.Log.RetentionMs != 9 || c.MaxMessageBytes != 6 || !c.Log.Delete {
		t.Errorf("%+v", c)
	}
	topic.Internal = true
	if c = l.topicConfig(im, topic); c.Log.RetentionMs != -1 || c.Log.Delete || c.MaxMessageBytes != math.MaxInt32 {
		t.Errorf("an internal topic follows clients' settings: %+v", c)
	}
}

func TestLiveSettingsAreCachedPerImage(t *testing.T) {
	l := &live{base: config.Defaults(), node: 1}
	a, b := &meta.Image{}, &meta.Image{}
	if l.at(nil) != l.base {
		t.Error("without metadata the static settings hold")
	}
	first := l.at(a)
	if l.at(a) != first {
		t.Error("the same image was combined twice")
	}
	if l.at(b) == first {
		t.Error("another image got the former one's settings")
	}
}
