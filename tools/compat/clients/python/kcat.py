"""kcat, a command-line client on an old librdkafka."""

import re

import processes
import scenarios

ASSIGNED = re.compile(r"rebalanced.*: assigned: (.*)")


def note_assignment(reader, line):
    m = ASSIGNED.search(line)
    if m:
        reader.assigned = {int(n) for n in re.findall(r"\[(\d+)\]", m.group(1))}
    elif "revoked:" in line:
        reader.assigned = set()


class Kcat:
    def __init__(self, brokers):
        self.base = ["kcat", "-b", brokers, "-X", "topic.metadata.refresh.interval.ms=5000"]

    def create(self, topic, partitions):
        # kcat has no command for it: producing to an unknown topic creates it.
        processes.run(self.base + ["-P", "-t", topic, "-X", "message.timeout.ms=20000"], stdin="x\n")

    def produce(self, topic, codec, acks, idempotent, records):
        options = ["-z", codec, "-X", "enable.idempotence=%s" % str(idempotent).lower(), "-X", "linger.ms=50"]
        if not idempotent:
            options += ["-X", "topic.request.required.acks=" + {"all": "-1"}.get(acks, acks)]
        processes.run(self.base + ["-P", "-t", topic, "-K:"] + options, stdin=processes.lines(records))

    def consume(self, topic, count):
        out, _ = processes.run(self.base + ["-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-K:"])
        return processes.parse(out)

    def consume_from(self, topic, timestamp, count):
        out, _ = processes.run(self.base + ["-C", "-t", topic, "-p", "0", "-o", "s@%d" % timestamp, "-e", "-q", "-K:"])
        return processes.parse(out)

    def member(self, group, topic):
        return processes.Reader(self.base + ["-u", "-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=10000",
                                             "-X", "heartbeat.interval.ms=1000", "-G", group, topic], note_assignment)

    # -E: without it kcat ends when the only broker is away.
    def sender(self, topic):
        return processes.Writer(self.base + ["-E", "-P", "-t", topic, "-K:", "-X", "linger.ms=5"], ("Delivery failed",))

    def tail(self, topic):
        return processes.Reader(self.base + ["-E", "-u", "-C", "-t", topic, "-o", "beginning"])


if __name__ == "__main__":
    scenarios.main(Kcat)
