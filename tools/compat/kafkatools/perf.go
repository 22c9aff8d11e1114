package main

import (
	"fmt"
	"strings"
	"time"
)

func producerPerfCell(t *trial) {
	const tool = "ProducerPerformance"
	topic := t.topic("", 1, 0, time.Now())
	done := func(n int) string { return fmt.Sprintf("^%d records sent, [\\d.]+ records/sec .* ms 99th", n) }
	bad := []string{"xception", "ERROR"}
	for _, args := range [][]string{
		{"--record-size", "100", "--throughput", "-1"},
		{"--record-size", "100", "--throughput", "1000", "--print-metrics"},
		{"--record-size", "100", "--throughput", "-1", "--command-property", "acks=1", "compression.type=lz4", "enable.idempotence=false"},
		{"--record-size", "100", "--throughput", "-1", "--command-property", "acks=0", "enable.idempotence=false"},
		{"--payload-file", t.file("payload", "one\ntwo\nthree\n"), "--throughput", "-1", "--command-property", "compression.type=zstd", "batch.size=100000"},
	} {
		r := t.run(tool, append([]string{"--topic", topic, "--num-records", "200"}, args...)...)
		t.says(r, 0, done(200))
		t.silentOn(r, bad...)
	}
	t.eventually("a thousand records in "+topic, func() bool {
		ends, err := t.adm.ListEndOffsets(t.ctx, topic)
		t.must(err)
		end, _ := ends.Lookup(topic, 0)
		return end.Offset == 1000
	})
}

func consumerPerfCell(t *trial) {
	topic := t.topic("", 2, 300, time.Now())
	for _, args := range [][]string{
		{"--group", t.prefix + "-one"},
		{"--group", t.prefix + "-two", "--show-detailed-stats", "--reporting-interval", "1"},
		{"--group", t.prefix + "-three", "--include", topic, "--hide-header"},
	} {
		if !strings.Contains(strings.Join(args, " "), "--include") {
			args = append(args, "--topic", topic)
		}
		r := t.run("ConsumerPerformance", append(args, "--num-records", "600", "--timeout", "20000", "--command-property", "auto.offset.reset=earliest")...)
		if strings.Contains(r.out, "threadId") { // a line each millisecond in which something came
			t.says(r, 0, "^[\\d: -]+, 0, 0\\.\\d+, [\\d.]+, [1-9]\\d*, ")
		} else {
			t.says(r, 0, ", 600, ")
		}
		t.silentOn(r, "ERROR", "Exiting before consuming")
	}
}

func endToEndCell(t *trial) {
	r := t.run("EndToEndLatency", "--topic", t.prefix, "--num-records", "50", "--producer-acks", "all", "--record-size", "100")
	t.says(r, 0, "Will create topic with 1 partition", "^Avg latency: [\\d.]+ ms", "^Percentiles: 50th = \\d+, 99th = \\d+, 99.9th = \\d+")
	t.says(t.run("EndToEndLatency", "--topic", t.prefix, "--num-records", "20", "--producer-acks", "1", "--record-size", "50",
		"--record-key-size", "8", "--num-headers", "2", "--record-header-key-size", "4", "--record-header-size", "6"), 0, "^Percentiles:")
}

func verifiableProducerCell(t *trial) {
	topic := t.topic("", 1, 0, time.Now())
	r := t.alone("VerifiableProducer", "--topic", topic, "--max-messages", "20", "--throughput", "1000", "--acks", "-1", "--value-prefix", "7")
	t.says(r, 0, `"name":"startup_complete"`, `"name":"producer_send_success","key":null,"value":"7.19","offset":19,"topic":"`+topic+`","partition":0`,
		`"name":"shutdown_complete"`, `"name":"tool_data","sent":20,"acked":20`)
	t.silentOn(r, "producer_send_error")
}

func verifiableConsumerCell(t *trial) {
	topic := t.topic("", 2, 50, time.Now())
	r := t.alone("VerifiableConsumer", "--topic", topic, "--group-id", t.prefix, "--max-messages", "100", "--reset-policy", "earliest", "--verbose")
	t.says(r, 0, `"name":"partitions_assigned","partitions":\[\{"topic":"`+topic+`","partition":0\},\{"topic":"`+topic+`","partition":1\}`,
		`"name":"records_consumed","count":`, `"name":"offsets_committed".*"success":true`, `"name":"shutdown_complete"`)
	if n := strings.Count(r.out, `"name":"record_data"`); n != 100 {
		t.failf("VerifiableConsumer shows %d records, want 100", n)
	}
	if got := t.offsets(t.prefix); got != "0:50 1:50" {
		t.failf("VerifiableConsumer committed %s", got)
	}
}

func clientCompatibilityCell(t *trial) {
	acls := "true" // the reference answers, if only that it has no authorizer
	if t.ours {
		acls = "false"
	}
	t.says(t.run("ClientCompatibilityTest", "--topic", t.prefix, "--num-cluster-nodes", "1", "--offsets-for-times-supported", "true",
		"--cluster-id-supported", "true", "--expect-record-too-large-exception", "false", "--create-topics-supported", "true",
		"--describe-acls-supported", acls, "--describe-configs-supported", "true", "--idempotent-producer-supported", "true"), 0, "SUCCESS")
}
