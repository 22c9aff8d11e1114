package main

import "slices"

func topicsCell(t *trial) {
	const tool = "TopicCommand"
	a, b := t.prefix+"-a", t.prefix+"-b"
	t.says(t.run(tool, "--create", "--topic", a, "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=3600000"),
		0, "Created topic "+a)
	t.says(t.run(tool, "--create", "--topic", a), 1, "Topic '"+a+"' already exists")
	t.silentOn(t.run(tool, "--create", "--topic", a, "--if-not-exists"), "Created", "rror")
	t.says(t.run(tool, "--create", "--topic", b, "--replica-assignment", "1,1"), 0, "Created topic "+b)
	t.says(t.run(tool, "--create", "--topic", "bad/name"), 1, "Topic name is invalid")
	t.says(t.run(tool, "--create", "--topic", t.prefix+"-rf", "--replication-factor", "3"), 1, "only 1 broker")
	t.says(t.run(tool, "--create", "--topic", t.prefix+"-cfg", "--config", "retention.ms=soon"), 1, "retention.ms")

	t.says(t.run(tool, "--describe", "--topic", a), 0,
		"^Topic: "+a+" TopicId: [\\w-]{22} PartitionCount: 3 ReplicationFactor: 1 Configs: .*retention.ms=3600000",
		"^ Topic: "+a+" Partition: 0 Leader: 1 Replicas: 1 Isr: 1", "Partition: 2 Leader: 1")
	t.says(t.run(tool, "--describe", "--topic", t.prefix+".*", "--topics-with-overrides"), 0, "^Topic: "+a)
	for _, o := range []string{"--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions", "--at-min-isr-partitions"} {
		r := t.run(tool, "--describe", "--topic", a, o)
		t.says(r, 0)
		if o != "--at-min-isr-partitions" {
			t.silentOn(r, "Partition:")
		}
	}
	t.says(t.run(tool, "--describe", "--topic", t.prefix+"-none"), 1, "does not exist as expected")
	t.says(t.run(tool, "--describe", "--topic", t.prefix+"-none", "--if-exists"), 0)

	t.says(t.run(tool, "--alter", "--topic", a, "--partitions", "5"), 0)
	t.says(t.run(tool, "--describe", "--topic", a), 0, "PartitionCount: 5", "Partition: 4 Leader: 1")
	t.says(t.run(tool, "--alter", "--topic", a, "--partitions", "2"), 1, "currently has 5 partition", "would not be an increase")

	t.says(t.run(tool, "--list", "--exclude-internal"), 0, "^"+a+"$", "^"+b+"$")
	t.says(t.run(tool, "--delete", "--topic", a), 0)
	t.says(t.run(tool, "--delete", "--topic", t.prefix+"-none"), 1, "does not exist as expected")
	t.eventually(a+" gone from --list", func() bool {
		list := t.run(tool, "--list", "--topic", t.prefix+".*")
		return !slices.Contains(lines(list.out), a) && slices.Contains(lines(list.out), b)
	})
}
