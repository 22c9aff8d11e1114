package main

import (
	"strings"
	"time"
)

func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

const configTool = "ConfigCommand"

func configsCell(t *trial) {
	topicConfigs(t)
	brokerConfigs(t)
	quotaConfigs(t)
}

func topicConfigs(t *trial) {
	topic := t.topic("", 1, 0, time.Now())
	on := func(args ...string) result {
		return t.run(configTool, append([]string{"--entity-type", "topics", "--entity-name", topic}, args...)...)
	}
	t.says(on("--describe"), 0, "Dynamic configs for topic "+topic+" are:")
	t.says(on("--describe", "--all"), 0, "^ retention.ms=604800000 sensitive=false", "^ cleanup.policy=delete", "^ segment.bytes=1073741824",
		"max.message.bytes=1048588 sensitive=false synonyms=.*DEFAULT_CONFIG:message.max.bytes=1048588")
	t.says(on("--alter", "--add-config", "retention.ms=1000,segment.bytes=2097152"), 0, "Completed updating config for topic "+topic)
	t.says(on("--alter", "--add-config", "leader.replication.throttled.replicas=[0:1,0:1]"), 0, "Completed")
	t.says(on("--describe"), 0, "^ retention.ms=1000 sensitive=false synonyms=.DYNAMIC_TOPIC_CONFIG:retention.ms=1000",
		"^ segment.bytes=2097152", "throttled.replicas=0:1,0:1")
	t.says(on("--alter", "--add-config-file", t.file("topic.properties", "retention.ms=2000\nmin.insync.replicas=1\n")), 0, "Completed")
	t.says(on("--describe"), 0, "^ retention.ms=2000", "^ min.insync.replicas=1")
	t.says(on("--alter", "--delete-config", "retention.ms,leader.replication.throttled.replicas"), 0, "Completed")
	t.silentOn(on("--describe"), "^ retention.ms", "throttled")
	t.says(on("--alter", "--add-config", "retention.ms=abc"), 1, "InvalidConfigurationException: .*retention.ms")
	t.says(on("--alter", "--add-config", "nope=1"), 1, "InvalidConfigurationException: .*nope")
	t.says(on("--alter", "--delete-config", "nope"), 0)
	t.says(t.run(configTool, "--entity-type", "topics", "--describe"), 0, "Dynamic configs for topic "+topic+" are:")
	t.says(t.run(configTool, "--entity-type", "topics", "--entity-name", t.prefix+"-none", "--describe"), 0, "doesn't exist")
	t.says(t.run(configTool, "--topic", topic, "--describe"), 0, "^ segment.bytes=2097152")
}

func brokerConfigs(t *trial) {
	one := func(args ...string) result {
		return t.run(configTool, append([]string{"--entity-type", "brokers", "--entity-name", "1"}, args...)...)
	}
	all := func(args ...string) result {
		return t.run(configTool, append([]string{"--entity-type", "brokers", "--entity-default"}, args...)...)
	}
	t.says(one("--describe"), 0, "Dynamic configs for broker 1 are:")
	t.says(one("--describe", "--all"), 0, "^ listeners=PLAINTEXT://", "^ num.partitions=1 ", "^ log.retention.hours=168 ",
		"^ message.max.bytes=1048588 sensitive=false synonyms=.DEFAULT_CONFIG:message.max.bytes=1048588")
	t.says(all("--alter", "--add-config", "log.retention.ms=7200000"), 0, "Completed updating default config for brokers")
	t.says(all("--describe"), 0, "Default configs for brokers", "^ log.retention.ms=7200000 sensitive=false synonyms=.DYNAMIC_DEFAULT_BROKER_CONFIG")
	t.says(one("--alter", "--add-config", "message.max.bytes=900000"), 0, "Completed updating config for broker 1")
	t.says(one("--describe"), 0, "^ message.max.bytes=900000 sensitive=false synonyms=.DYNAMIC_BROKER_CONFIG:message.max.bytes=900000, DEFAULT_CONFIG")
	t.says(one("--describe", "--all"), 0, "^ log.retention.ms=7200000 .*DYNAMIC_DEFAULT_BROKER_CONFIG")
	t.says(t.run(configTool, "--entity-type", "brokers", "--describe"), 0, "Dynamic configs for broker 1", "Default configs for brokers")
	t.says(one("--alter", "--delete-config", "message.max.bytes"), 0, "Completed")
	t.says(all("--alter", "--delete-config", "log.retention.ms"), 0, "Completed")
	t.silentOn(one("--describe"), "message.max.bytes")
	t.silentOn(all("--describe"), "log.retention.ms")
	t.says(one("--alter", "--add-config", "node.id=7"), 1, "InvalidRequestException: .*node.id")
	t.says(t.run(configTool, "--entity-type", "brokers", "--entity-name", "9", "--describe"), 0, "The broker '9' doesn't exist")
	t.says(t.run(configTool, "--entity-type", "groups", "--entity-name", t.prefix, "--describe"), 0, "doesn't exist")
	t.says(t.run(configTool, "--entity-type", "client-metrics", "--describe"), 0)
	loggers := t.run(configTool, "--entity-type", "broker-loggers", "--entity-name", "1", "--describe")
	if t.ours {
		t.says(loggers, 1, "InvalidRequestException: .*not served")
	} else {
		t.says(loggers, 0)
	}
}

func quotaConfigs(t *trial) {
	client := t.prefix
	on := func(args ...string) result {
		return t.run(configTool, append([]string{"--entity-type", "clients", "--entity-name", client}, args...)...)
	}
	t.says(on("--alter", "--add-config", "producer_byte_rate=102400,request_percentage=50.5"), 0, "Completed updating config for client "+client)
	t.says(on("--describe"), 0, "Quota configs for client-id '"+client+"' are", "producer_byte_rate=102400.0", "request_percentage=50.5")
	t.says(on("--alter", "--delete-config", "producer_byte_rate"), 0, "Completed")
	t.silentOn(on("--describe"), "producer_byte_rate")
	t.says(on("--alter", "--delete-config", "request_percentage"), 0, "Completed")
	t.says(on("--alter", "--add-config", "nope=1"), 1)
	pair := []string{"--entity-type", "users", "--entity-name", client, "--entity-type", "clients", "--entity-default"}
	t.says(t.run(configTool, append(pair, "--alter", "--add-config", "consumer_byte_rate=2048")...), 0, "Completed")
	t.says(t.run(configTool, append(pair, "--describe")...), 0, "user-principal '"+client+"', the default client-id are consumer_byte_rate=2048.0")
	t.says(t.run(configTool, append(pair, "--alter", "--delete-config", "consumer_byte_rate")...), 0, "Completed")
	ip := []string{"--entity-type", "ips", "--entity-name", "127.0.0.9"}
	t.says(t.run(configTool, append(ip, "--alter", "--add-config", "connection_creation_rate=5")...), 0, "Completed")
	t.says(t.run(configTool, "--entity-type", "ips", "--describe"), 0, "ip '127.0.0.9' are connection_creation_rate=5.0")
	t.says(t.run(configTool, append(ip, "--alter", "--delete-config", "connection_creation_rate")...), 0, "Completed")
}
