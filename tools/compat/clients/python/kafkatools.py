"""Kafka's own command-line tools (Java). The first argument names the tool; the
jars are in the folder that COMPAT_JAVA_LIBS names."""

import datetime
import os
import re
import sys
import time

import processes
import scenarios

ASSIGNMENT = re.compile(r"Notifying assignor about the new Assignment\(partitions=\[(.*?)\]")


def java(name, *args):
    here = os.path.dirname(os.path.abspath(__file__))
    return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Dlog4j2.configurationFile=" + os.path.join(here, "log4j2.properties"),
            "-cp", os.path.join(os.environ["COMPAT_JAVA_LIBS"], "*"), "org.apache.kafka.tools." + name, *args]


def note_assignment(reader, line):
    m = ASSIGNMENT.search(line)
    if m:
        reader.assigned = {int(n) for n in re.findall(r"-(\d+)(?:,|$)", m.group(1))}


class Topics:
    """kafka-topics"""

    def __init__(self, brokers):
        self.at = ["--bootstrap-server", brokers]

    def create(self, topic, partitions):
        processes.run(java("TopicCommand", *self.at, "--create", "--topic", topic, "--partitions", str(partitions)))

    def partition_count(self, topic):
        out, _ = processes.run(java("TopicCommand", *self.at, "--describe", "--topic", topic))
        return int(re.search(r"PartitionCount: (\d+)", out).group(1))

    def delete(self, topic):
        processes.run(java("TopicCommand", *self.at, "--delete", "--topic", topic))
        end = time.monotonic() + 20
        while topic in processes.run(java("TopicCommand", *self.at, "--list"))[0].split():
            if time.monotonic() > end:
                raise scenarios.Failure("still listed after 20 s")


class Console:
    """kafka-console-producer and kafka-console-consumer"""

    def __init__(self, brokers):
        self.at = ["--bootstrap-server", brokers]

    def producer(self, topic, *more):
        return java("ConsoleProducer", *self.at, "--topic", topic, "--reader-property", "parse.key=true",
                    "--reader-property", "key.separator=:", *more)

    def produce(self, topic, codec, acks, idempotent, records):
        more = ["--compression-codec", codec, "--request-required-acks", acks]
        if not idempotent:
            more += ["--command-property", "enable.idempotence=false"]
        _, err = processes.run(self.producer(topic, *more), stdin=processes.lines(records))
        if "ERROR" in err:
            raise scenarios.Failure(err[err.index("ERROR"):][:200])

    def consumer(self, topic, *more):
        return java("consumer.ConsoleConsumer", *self.at, "--topic", topic, *more)

    def consume(self, topic, count):
        out, _ = processes.run(self.consumer(
            topic, "--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000",
            "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"))
        return processes.parse(out)

    def member(self, group, topic):
        return processes.Reader(self.consumer(topic, "--group", group, "--from-beginning", "--command-property",
                                              "session.timeout.ms=10000", "--command-property",
                                              "heartbeat.interval.ms=1000"), note_assignment)

    def sender(self, topic):
        return processes.Writer(self.producer(topic, "--message-send-max-retries", "10000"), ("Error when sending",))

    def tail(self, topic):
        return processes.Reader(self.consumer(topic, "--from-beginning"))


class Perf:
    """kafka-producer-perf-test"""

    def __init__(self, brokers):
        self.at = ["--bootstrap-server", brokers]

    def produce(self, topic, codec, acks, idempotent, records):
        more = [] if idempotent else ["acks=" + acks, "enable.idempotence=false"]
        out, _ = processes.run(java("ProducerPerformance", *self.at, "--topic", topic, "--num-records", str(len(records)),
                                    "--throughput", "-1", "--payload-monotonic", "--command-property",
                                    "compression.type=" + codec, "linger.ms=20", *more))
        if "%d records sent" % len(records) not in out or "xception" in out:
            raise scenarios.Failure(out[:200])


class Groups(Console):
    """kafka-consumer-groups; console consumers are the members that it sees."""

    def command(self, *args):
        return processes.run(java("consumer.group.ConsumerGroupCommand", *self.at, *args))[0]

    def table(self, *args):
        """The rows of a printed table, by column name."""
        rows = [line.split() for line in self.command(*args).splitlines() if line.strip()]
        heads = next((i for i, r in enumerate(rows) if r[0] == "GROUP"), None)
        return [dict(zip(rows[heads], r)) for r in rows[heads + 1:]] if heads is not None else []


def groups_group(c, a):
    one, two = c.member(a.group, a.topic), c.member(a.group, a.topic)
    scenarios.until("split of the partitions", 40, lambda: len(one.partitions()) == 2 and len(two.partitions()) == 2)
    members = c.table("--describe", "--members", "--group", a.group)
    if sorted(m.get("#PARTITIONS") for m in members) != ["2", "2"]:
        raise scenarios.Failure("--members shows %s" % members)
    if a.group not in c.command("--list").split():
        raise scenarios.Failure("--list misses the group")
    two.leave()
    scenarios.until("takeover", 40, lambda: len(one.partitions()) == 4)
    scenarios.ask("more")
    scenarios.until("records", 20, lambda: len(one.received) >= scenarios.PER_ROUND)
    one.leave()
    offsets = c.table("--describe", "--group", a.group)
    if len(offsets) != 4 or sum(int(o["CURRENT-OFFSET"]) for o in offsets) != scenarios.PER_ROUND \
            or any(o["LAG"] != "0" for o in offsets):
        raise scenarios.Failure("--describe shows %s" % offsets)
    c.command("--reset-offsets", "--to-earliest", "--group", a.group, "--topic", a.topic, "--execute")
    if sum(int(o["LAG"]) for o in c.table("--describe", "--group", a.group)) != scenarios.PER_ROUND:
        raise scenarios.Failure("no lag after --reset-offsets --to-earliest")
    c.command("--delete", "--group", a.group)
    if a.group in c.command("--list").split():
        raise scenarios.Failure("--list has the group after --delete")


def groups_seek(c, a):
    at = datetime.datetime.fromtimestamp(a.timestamp / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    rows = c.table("--reset-offsets", "--to-datetime", at + "+00:00", "--group", a.group, "--topic", a.topic, "--execute")
    if [r.get("NEW-OFFSET") for r in rows] != [str(a.first)]:
        raise scenarios.Failure("--to-datetime %s gives %s, want offset %d" % (at, rows, a.first))
    one = c.member(a.group, a.topic)
    scenarios.until("records after the reset", 40, lambda: len(one.received) >= a.count - a.first)
    one.leave()
    scenarios.expect(one.received, [scenarios.value(i) for i in range(a.first, a.count)], "after --to-datetime")


if __name__ == "__main__":
    tool = sys.argv.pop(1)
    if tool == "groups":
        scenarios.RUN.update({"group": groups_group, "seek": groups_seek})
    scenarios.main({"topics": Topics, "console": Console, "perf": Perf, "groups": Groups}[tool])
