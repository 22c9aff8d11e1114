package main

import (
	"fmt"
	"time"
)

func getOffsetsCell(t *trial) {
	const tool = "GetOffsetShell"
	base := time.Now().Add(-time.Hour).Truncate(time.Second)
	topic := t.topic("", 3, 20, base)
	for _, c := range []struct {
		args []string
		want string // printed lines, "PARTITION:OFFSET ..."
	}{
		{[]string{"--topic", topic}, "0:20 1:20 2:20"},
		{[]string{"--topic", topic, "--time", "-1"}, "0:20 1:20 2:20"},
		{[]string{"--topic", topic, "--time", "latest"}, "0:20 1:20 2:20"},
		{[]string{"--topic", topic, "--time", "-2"}, "0:0 1:0 2:0"},
		{[]string{"--topic", topic, "--time", "earliest"}, "0:0 1:0 2:0"},
		{[]string{"--topic", topic, "--time", "max-timestamp"}, "0:19 1:19 2:19"},
		{[]string{"--topic", topic, "--time", "earliest-local"}, "0:0 1:0 2:0"},
		{[]string{"--topic", topic, "--time", fmt.Sprint(base.Add(7 * time.Second).UnixMilli())}, "0:7 1:7 2:7"},
		{[]string{"--topic", topic, "--partitions", "0,2"}, "0:20 2:20"},
		{[]string{"--topic-partitions", topic + ":1-3"}, "1:20 2:20"},
		{[]string{"--topic-partitions", topic + ":0," + t.prefix + ".*:2", "--exclude-internal-topics"}, "0:20 2:20"},
	} {
		r := t.run(tool, c.args...)
		t.says(r, 0)
		got := ""
		for _, line := range lines(r.out) {
			if len(line) > len(topic) && line[:len(topic)] == topic {
				got += line[len(topic)+1:] + " "
			} else if line != "" {
				t.failf("%s prints %q", r.command(), line)
			}
		}
		if got != c.want+" " {
			t.failf("%s prints %s, want %s", r.command(), got, c.want)
		}
	}
	t.says(t.run(tool, "--topic", topic, "--time", "latest-tiered"), 0)
	t.says(t.run(tool, "--topic", t.prefix+"-none"), 1, "Could not match any topic-partitions")
	t.says(t.run(tool, "--topic", topic, "--time", "later"), 1, "Malformed time argument")
}

func deleteRecordsCell(t *trial) {
	const tool = "DeleteRecordsCommand"
	topic := t.topic("", 2, 20, time.Now())
	order := func(name, partitions string) string {
		return t.file(name, `{"version":1,"partitions":[`+partitions+`]}`)
	}
	part := func(p, offset int) string {
		return fmt.Sprintf(`{"topic":%q,"partition":%d,"offset":%d}`, topic, p, offset)
	}
	t.says(t.run(tool, "--offset-json-file", order("delete1.json", part(0, 7)+","+part(1, -1))), 0,
		"Records delete operation completed", "partition: "+topic+"-0 low_watermark: 7", "partition: "+topic+"-1 low_watermark: 20")
	t.says(t.run("GetOffsetShell", "--topic", topic, "--time", "earliest"), 0, "^"+topic+":0:7$", "^"+topic+":1:20$")
	t.says(t.run(tool, "--offset-json-file", order("delete2.json", part(0, 21))), 0, "partition: "+topic+"-0 error: .*OffsetOutOfRange")
	t.says(t.run(tool, "--offset-json-file", order("delete3.json", part(0, 3))), 0, "partition: "+topic+"-0 low_watermark: 7")
	t.says(t.run(tool, "--offset-json-file", order("delete4.json", part(0, 8)+","+part(0, 9))), 1, "duplicate")
}
