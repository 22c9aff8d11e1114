package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

func logDirsCell(t *trial) {
	const tool = "LogDirsCommand"
	topic := t.topic("", 2, 50, time.Now())
	other := t.topic("-other", 1, 0, time.Now())
	r := t.run(tool, "--describe", "--topic-list", topic)
	t.says(r, 0, "Received log directory information from brokers 1")
	var answer struct {
		Brokers []struct {
			Broker  int
			LogDirs []struct {
				Error      *string
				LogDir     string
				Partitions []struct {
					Partition       string
					Size, OffsetLag int64
					IsFuture        bool
				}
			}
		}
	}
	text := lines(r.out)
	if err := json.Unmarshal([]byte(text[len(text)-1]), &answer); err != nil || len(answer.Brokers) != 1 || len(answer.Brokers[0].LogDirs) != 1 {
		t.failf("%s prints %.400s", r.command(), r.out)
	}
	d := answer.Brokers[0].LogDirs[0]
	if d.Error != nil || d.LogDir != t.dataDir || len(d.Partitions) != 2 {
		t.failf("%s shows %+v, want two partitions in %s", r.command(), d, t.dataDir)
	}
	for _, p := range d.Partitions {
		if p.Size < 50*100 || p.Size > 1<<20 || p.OffsetLag != 0 || p.IsFuture {
			t.failf("%s shows %+v of 50 records of 100 bytes", r.command(), p)
		}
	}
	t.says(t.run(tool, "--describe"), 0, `"`+topic+`-1"`, `"`+other+`-0","size":0`)
	t.says(t.run(tool, "--describe", "--broker-list", "1"), 0, `"broker":1`)
	t.says(t.run(tool, "--describe", "--broker-list", "1,9"), 1, "do not exist from --broker-list: 9")
}

// dumpLogCell: the tool reads files, not the broker. Our segments are not Kafka's;
// it has to fail clearly, and not to show what is not there.
func dumpLogCell(t *trial) {
	const tool = "DumpLogSegments"
	topic := t.topic("", 1, 500, time.Now())
	if !t.ours {
		segment := filepath.Join(t.dataDir, topic+"-0", "00000000000000000000.log")
		t.says(t.runPlain(tool, "--files", segment), 0, "baseOffset: 0 ", "isvalid: true")
		return
	}
	segments, err := filepath.Glob(filepath.Join(t.dataDir, "partitions", "*", "*.log"))
	t.must(err)
	journal, err := filepath.Glob(filepath.Join(t.dataDir, "journal", "*.jnl"))
	t.must(err)
	if len(segments) == 0 || len(journal) == 0 {
		t.failf("%d segments and %d journal files in %s", len(segments), len(journal), t.dataDir)
	}
	for _, more := range [][]string{{}, {"--print-data-log"}, {"--deep-iteration"}} {
		r := t.runPlain(tool, append([]string{"--files", segments[len(segments)-1]}, more...)...)
		// What it says depends on what stands at the segment's beginning.
		t.says(r, r.exit, "CorruptRecordException: Found record size 0 smaller than minimum|Found \\d+ invalid bytes at the end")
	}
	t.says(t.runPlain(tool, "--files", journal[0]), 0, "Ignoring unknown file")
	t.says(t.runPlain(tool, "--files", filepath.Join(os.TempDir(), "none", "00000000000000000000.log")), 1, "NoSuchFileException")
}

func apiVersionsCell(t *trial) {
	r := t.run("BrokerApiVersionsCommand")
	t.says(r, 0, regexp.QuoteMeta(t.broker)+" \\(id: 1 rack: null isFenced: false\\) -> \\(",
		`Produce\(0\): 0 to 13 \[usable: 13\]`, `Fetch\(1\): 4 to 18 \[usable: 18\]`, `ListOffsets\(2\): 1 to 11 \[usable: 11\]`,
		`Metadata\(3\): 0 to 13 \[usable: 13\]`, `OffsetCommit\(8\): 2 to 10 \[usable: 10\]`, `JoinGroup\(11\): 0 to 9 \[usable: 9\]`,
		`ApiVersions\(18\): 0 to 5 \[usable: 5\]`, `InitProducerId\(22\): 0 to 5 \[usable: 5\]`, `DescribeCluster\(60\): 0 to 2 \[usable: 2\]`,
		`AlterClientQuotas\(49\): 0 to 1 \[usable: 1\]`)
	if t.ours {
		t.says(r, 0, `AddPartitionsToTxn\(24\): UNSUPPORTED`, `ConsumerGroupHeartbeat\(68\): UNSUPPORTED`)
	}
	t.silentOn(r, "ERROR", "UNKNOWN")
}

func clusterCell(t *trial) {
	const tool = "ClusterTool"
	t.says(t.runPlain(tool, "cluster-id", "--bootstrap-server", t.broker), 0, "Cluster ID: [\\w-]{22}$")
	t.says(t.runPlain(tool, "list-endpoints", "--bootstrap-server", t.broker), 0, "^1 127.0.0.1 \\d+ null unfenced broker")
	r := t.runPlain(tool, "unregister", "--bootstrap-server", t.broker, "--id", "9")
	if t.ours {
		t.says(r, 0, "does not support the broker unregistration API")
	} else {
		t.says(r, 1, "not currently registered")
	}
}

// featuresCell: no feature is finalized yet, as docs/COMPATIBILITY.md says.
func featuresCell(t *trial) {
	const tool = "FeatureCommand"
	r := t.run(tool, "describe")
	up := t.run(tool, "upgrade", "--feature", "group.version=1")
	if t.ours {
		t.says(r, 0)
		t.silentOn(r, "Feature:", "xception")
		t.says(up, 1, "Could not upgrade group.version to 1. The node does not support UPDATE_FEATURES")
	} else {
		t.says(r, 0, "Feature: metadata.version .*FinalizedVersionLevel: 4.4")
		t.says(up, 0)
	}
	t.says(t.runPlain(tool, "version-mapping", "--release-version", "4.2"), 0, "metadata.version=29")
}

// reassignCell: one node has nowhere to move replicas to.
func reassignCell(t *trial) {
	const tool = "reassign.ReassignPartitionsCommand"
	topic := t.topic("", 2, 1, time.Now())
	plan := func(name, replicas string) string {
		return t.file(name, `{"version":1,"partitions":[{"topic":"`+topic+`","partition":0,"replicas":[`+replicas+`]},{"topic":"`+topic+`","partition":1,"replicas":[1]}]}`)
	}
	topics := t.file("topics.json", `{"version":1,"topics":[{"topic":"`+topic+`"}]}`)
	t.says(t.run(tool, "--generate", "--topics-to-move-json-file", topics, "--broker-list", "1"), 0,
		"Current partition replica assignment", "Proposed partition reassignment configuration", `"topic":"`+topic+`","partition":1,"replicas":\[1\]`)
	stay := plan("stay.json", "1")
	t.says(t.run(tool, "--execute", "--reassignment-json-file", stay), 0, "Successfully started partition reassignments for "+topic+"-0,"+topic+"-1")
	t.says(t.run(tool, "--verify", "--reassignment-json-file", stay), 0, "Reassignment of partition "+topic+"-0 is completed", topic+"-1 is completed")
	t.says(t.run(tool, "--list"), 0, "No partition reassignments found")
	t.says(t.run(tool, "--cancel", "--reassignment-json-file", stay), 0, "None of the specified partition reassignments are active")
	t.says(t.run(tool, "--execute", "--reassignment-json-file", plan("move.json", "9")), 1, "9")
}
