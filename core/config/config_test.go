package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryDefaultIsValid(t *testing.T) {
	for _, scope := range []Scope{Broker, Topic} {
		for s := range All(scope) {
			if s.Text == "" || s.Scope != scope {
				t.Errorf("%s: text or scope is missing", s.Name)
			}
			if (s.Only != "" || s.NoEffect) && s.Why == "" {
				t.Errorf("%s: a restriction without a reason", s.Name)
			}
			if scope == Broker && s.Group == "" {
				t.Errorf("%s: no group", s.Name)
			}
			for _, f := range s.From {
				mustLookup(Broker, f.Name)
			}
			if s.Unset {
				continue
			}
			if err := s.Validate(s.Default); err != nil {
				t.Errorf("%s: its default is refused: %v", s.Name, err)
			}
		}
	}
}

func TestTopicDefaultsAreTheBrokers(t *testing.T) {
	c := Defaults()
	for s := range All(Topic) {
		if got := c.TopicText(nil, s.Name); got != s.Default {
			t.Errorf("%s: %q without configuration, the table says %q", s.Name, got, s.Default)
		}
	}
}

func TestValidateTopic(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"retention.ms", "1000", ""},
		{"retention.ms", "-1", ""},
		{"retention.ms", " 5 ", ""},
		{"retention.ms", "-2", "-1 or more ms"},
		{"retention.ms", "soon", "whole number"},
		{"retention.bytes", "-7", ""},
		{"segment.bytes", "1048576", ""},
		{"segment.bytes", "1048575", "1048576 or more"},
		{"segment.bytes", "3000000000", "32 bits"},
		{"cleanup.policy", "delete", ""},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "compact", "not served yet"},
		{"cleanup.policy", "delete,compact", "not served yet"},
		{"cleanup.policy", "shred", "delete, compact"},
		{"compression.type", "producer", ""},
		{"compression.type", "zstd", "never recompresses"},
		{"compression.type", "bzip2", "not one of"},
		{"remote.storage.enable", "TRUE", "not served"},
		{"remote.storage.enable", "False", ""},
		{"unclean.leader.election.enable", "true", "acknowledged"},
		{"message.timestamp.type", "LogAppendTime", ""},
		{"message.timestamp.type", "Tomorrow", "CreateTime, LogAppendTime"},
		{"min.cleanable.dirty.ratio", "1.5", "0 to 1"},
		{"flush.messages", "1", ""},
		{"retention", "1", "no topic setting"},
		{"retention.mss", "1", "did you mean retention.ms"},
	} {
		err := ValidateTopic(tc.name, tc.value)
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s=%s is refused: %v", tc.name, tc.value, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s=%s: %v, want %q in the message", tc.name, tc.value, err, tc.want)
		}
	}
}

func TestValidateBroker(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"log.retention.ms", "1", ""},
		{"log.retention.ms", "x", "whole number"},
		{"node.id", "4", "restart"},
		{"log.retention.msec", "4", "did you mean log.retention.ms"},
		{"log.dirs", "/data", "did you mean data.dir?"},
		{"Log.Dir", "/data", "did you mean data.dir?"},
		{"broker.id", "1", "did you mean node.id?"},
	} {
		err := ValidateBroker(tc.name, tc.value)
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%s: %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
}

func TestLoadPrecedence(t *testing.T) {
	c, err := Load(Input{
		File:      []byte("num.partitions: 2\nlog:\n  retention:\n    hours: 1\n  segment.bytes: 2097152\nlisteners:\n  - PLAINTEXT://:1\n  - SSL://[::1]:2\nssl: {certificate.file: a, key.file: b}\n"),
		Environ:   []string{"HOME=/", "MILLRACE_NUM_PARTITIONS=3", "MILLRACE_LOG_SEGMENT_BYTES=3145728", "MILLRACE_CONFIG=x"},
		EnvIgnore: []string{"MILLRACE_CONFIG"},
		Flags:     []Assignment{{"num.partitions", "4"}, {"num.partitions", "5"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Int("num.partitions"); got != 5 {
		t.Errorf("num.partitions %d, want the last flag's 5", got)
	}
	if got := c.Int("log.segment.bytes"); got != 3145728 {
		t.Errorf("log.segment.bytes %d, want the environment's 3145728", got)
	}
	if got := c.TopicInt(nil, "retention.ms"); got != 3_600_000 {
		t.Errorf("retention.ms %d, want one hour", got)
	}
	if got := c.TopicInt(map[string]string{"retention.ms": "7"}, "retention.ms"); got != 7 {
		t.Errorf("retention.ms %d, want the topic's own 7", got)
	}
	ls := c.Listeners()
	if len(ls) != 2 || ls[0].Addr() != ":1" || ls[1] != (Listener{"SSL", "::1", 2, true}) {
		t.Errorf("listeners %+v", ls)
	}
}

func TestDynamicSettingsStandOverStaticOnes(t *testing.T) {
	base, err := Load(Input{Flags: []Assignment{{"log.retention.hours", "2"}}})
	if err != nil {
		t.Fatal(err)
	}
	c := base.With(map[string]string{"log.retention.ms": "100", "node.id": "9", "message.max.bytes": "-4"}, nil)
	if got := c.TopicInt(nil, "retention.ms"); got != 100 {
		t.Errorf("retention.ms %d, want the cluster's 100", got)
	}
	if got := c.Int("node.id"); got != 1 {
		t.Errorf("node.id %d was changed dynamically", got)
	}
	if got := c.Int("message.max.bytes"); got != 1048588 {
		t.Errorf("message.max.bytes %d: an invalid dynamic value was taken", got)
	}
	c = c.With(map[string]string{"log.retention.ms": "100"}, map[string]string{"log.retention.ms": "50"})
	for _, e := range c.DescribeTopic(nil) {
		if e.Setting.Name != "retention.ms" {
			continue
		}
		if e.Value != "50" || e.Origin != FromDynamicBroker || len(e.Synonyms) != 4 {
			t.Errorf("retention.ms is described as %+v", e)
		}
	}
	if got := base.TopicInt(nil, "retention.ms"); got != 7_200_000 {
		t.Errorf("With changed its receiver: %d", got)
	}
}

func TestLoadReportsAllFaultsAtOnce(t *testing.T) {
	_, err := Load(Input{
		FileName: "m.yaml",
		File:     []byte("num.partitons: 1\nshard.pin: maybe\nlisteners: PLAINTEXT//x\n"),
		Environ:  []string{"MILLRACE_NODE_ID=0"},
		Flags:    []Assignment{{"retention.ms", "1"}, {"journal.file.bytes", "1048577"}},
	})
	var faults Faults
	if !errors.As(err, &faults) || len(faults) != 6 {
		t.Fatalf("want six faults, got %v", err)
	}
	for i, want := range []string{
		`m.yaml: no broker setting is called "num.partitons"; did you mean num.partitions?`,
		`m.yaml: shard.pin: value "maybe" is not one of auto, on, off`,
		`m.yaml: listeners: value "PLAINTEXT//x" is not NAME://HOST:PORT`,
		`environment MILLRACE_NODE_ID: node.id: value 0 is out of range: allowed are 1 to 2147483647`,
		`command line: no broker setting is called "retention.ms", it is a topic setting; did you mean log.retention.ms?`,
		`command line: journal.file.bytes: value 1048577 is not a multiple of 4096`,
	} {
		if faults[i] != want {
			t.Errorf("fault %d:\n got %s\nwant %s", i, faults[i], want)
		}
	}
}

func TestLoadRefusesWhatDoesNotFitTogether(t *testing.T) {
	for _, tc := range []struct{ file, want string }{
		{"group.min.session.timeout.ms: 10\ngroup.max.session.timeout.ms: 5", "is above group.max"},
		{"listeners: SSL://:0", "ssl.certificate.file is unset"},
		{"listeners: FOO://:0", "FOO has no protocol"},
		{"advertised.listeners: SSL://h:1", "SSL is not one of listeners"},
		{"advertised.listeners: PLAINTEXT://0.0.0.0:1", "clients can reach"},
		{"memory.payload.bytes: 33554432", "half of memory.payload.bytes"},
		{"listeners: 'PLAINTEXT://:0,PLAINTEXT://:1'", "used twice"},
		{"- a\n- b", "name: value"},
		{"node.id: {}\n", ""},
		{"node.id: [[1]]\n", "more than plain values"},
		{"node: {id: 1}\nnode.id: 2\n", "given twice"},
		{"a: b: c", "not valid YAML"},
	} {
		_, err := Load(Input{File: []byte(tc.file)})
		if (tc.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.file, err, tc.want)
		}
	}
}

func TestConfigDocsAreInStep(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "CONFIG.md")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Markdown() {
		t.Errorf("%s is out of step with the table: run `make docs`", path)
	}
}
