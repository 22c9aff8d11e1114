package config

import "testing"

func TestListsAndLevelsAsInKafka(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"follower.replication.throttled.replicas", "*", true},
		{"follower.replication.throttled.replicas", "", true},
		{"follower.replication.throttled.replicas", "0:1,1:2", true},
		{"leader.replication.throttled.replicas", "none", false},
		{"leader.replication.throttled.replicas", "0", false},
		{"leader.replication.throttled.replicas", "0:x", false},
		{"cleanup.policy", "delete", true},
		{"cleanup.policy", "delete,", false},
		{"cleanup.policy", ",", false},
		{"compression.gzip.level", "0", false},
		{"compression.gzip.level", "-1", true},
		{"compression.gzip.level", "9", true},
		{"compression.gzip.level", "10", false},
	} {
		if err := ValidateTopic(c.name, c.value); (err == nil) != c.ok {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		}
	}
}

func TestOwnValuesAreShownAsTheyAreRead(t *testing.T) {
	own := map[string]string{
		"preallocate": " TRUE", "segment.ms": " 05 ", "min.cleanable.dirty.ratio": "1", "cleanup.policy": " delete , delete", "compression.type": "producer",
		"leader.replication.throttled.replicas": "0:1, 0:1",
	}
	want := map[string]string{
		"preallocate": "true", "segment.ms": "5", "min.cleanable.dirty.ratio": "1.0", "cleanup.policy": "delete", "compression.type": "producer",
		"leader.replication.throttled.replicas": "0:1,0:1",
	}
	for _, e := range Defaults().DescribeTopic(own) {
		if w, ok := want[e.Setting.Name]; ok && (e.Value != w || e.Synonyms[0].Value != w || e.Given != own[e.Setting.Name]) {
			t.Errorf("%s: %q, given as %q, want %q", e.Setting.Name, e.Value, e.Given, w)
		}
		if e.Setting.Name == "segment.ms" && len(e.Synonyms) != 1 {
			t.Errorf("a default in hours is among the synonyms of a value of its own: %v", e.Synonyms)
		}
		if e.Setting.Name == "retention.ms" && len(e.Synonyms) > 0 {
			t.Errorf("a default in hours is among the synonyms: %v", e.Synonyms)
		}
	}
}
