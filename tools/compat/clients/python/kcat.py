"""kcat, a command-line client on an old librdkafka. Each send is a process of its
own; a consumer is a process that runs until it is left."""

import re
import subprocess
import threading
import time

import driver

# kcat shows Kafka's errors by librdkafka's text for them.
CODES = {"Broker: Message size too large": 10, "Broker: Invalid topic": 17, "Broker: Transactional Id authorization failed": 53,
         "Broker: Invalid timestamp": 32, "Broker: Group id not found": 69, "Local: Unknown topic": 3,
         "Static consumer fenced by other consumer": 82}
REBALANCED = re.compile(r"rebalanced.*(?:incremental |: )(assign|revo)[a-z]*[: ]")


class Broken(Exception):
    pass


def run(command, stdin=None, limit=30, bad="ERROR"):
    try:
        p = subprocess.run(command, input=(stdin or "").encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=limit)
    except subprocess.TimeoutExpired as e:
        raise Broken("no end within %d s: %s" % (limit, (e.stderr or b"").decode()[-200:]))
    err = p.stderr.decode(errors="replace")
    driver.note(err)
    if p.returncode != 0 or bad in err:
        raise Broken("exit %d: %s" % (p.returncode, err))
    return p.stdout.decode()


class Reader:
    """A consuming process. A member commits by itself all the time: kcat has no
    other way."""

    def __init__(self, command):
        self.p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.held, self.at_end = driver.Assignment(), threading.Event()
        self.threads = [threading.Thread(target=f, daemon=True) for f in (self.read_out, self.read_err)]
        for t in self.threads:
            t.start()

    def read_out(self):
        for line in self.p.stdout:
            partition, offset, key, value = line.rstrip(b"\n").split(b" ", 3)
            driver.got(int(partition), int(offset), key, value)

    def read_err(self):
        for line in self.p.stderr:
            line = line.decode(errors="replace").rstrip()
            driver.note(line)
            for text, code in CODES.items():
                if text in line:
                    driver.fault(code)
            if "Reached end of topic" in line:
                self.at_end.set()
            m = REBALANCED.search(line)
            if m:
                parts = {int(n) for n in re.findall(r" \[(\d+)\]", line)}
                if m.group(1) == "assign":
                    self.held.add(parts)
                else:
                    self.held.remove(parts)

    def commit(self):
        time.sleep(0.5)  # two intervals of the automatic commit

    def leave(self):
        self.p.terminate()
        self.p.wait(30)
        for t in self.threads:
            t.join(10)
        if self.held.held:
            self.held.set([])


class Sender:
    """Each send is a process; that of send_one runs until close. It reads its input
    in blocks, so that nobody can wait for one record."""

    says_acked = True

    def __init__(self, base, options):
        self.base, self.options, self.p, self.delivered = base, options, None, 0

    def send(self, topic, records, timestamp):
        # -E: without it kcat ends when a connection breaks.
        run(self.base + ["-E", "-P", "-t", topic, "-p", "0", "-K:"] + self.options, "".join("%s:%s\n" % r for r in records),
            bad="Delivery failed")

    def send_one(self, topic, key, value):
        if self.p is None:
            # -vv: it tells of deliveries.
            self.p = subprocess.Popen(self.base + ["-E", "-vv", "-P", "-t", topic, "-K:", "-X", "linger.ms=5"],
                                      stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.watcher = threading.Thread(target=self.watch, daemon=True)
            self.watcher.start()
        self.p.stdin.write(("%s:%s\n" % (key, value)).encode())
        self.p.stdin.flush()

    def watch(self):
        for line in self.p.stderr:
            if b"Message delivered" in line:
                driver.say("acked %d" % self.delivered)
                self.delivered += 1
            else:
                driver.note(line.decode(errors="replace").rstrip())

    def close(self):
        if self.p is not None:
            self.p.stdin.close()
            code = self.p.wait(30)
            self.watcher.join(10)
            if code != 0:
                raise Broken("the producer ended with %d" % self.p.returncode)


class Kcat:
    def __init__(self, brokers):
        self.base = ["kcat", "-b", brokers, "-m", "20"]

    def code(self, e):
        return next((c for text, c in CODES.items() if text in str(e)), None)

    def create(self, topic, partitions, configs):
        # There is no command for it: producing to an unknown topic creates it.
        run(self.base + ["-P", "-t", topic], "x\n")

    def partitions(self, topic):
        return int(re.search(r"with (\d+) partitions", run(self.base + ["-L", "-t", topic])).group(1))

    def transact(self, topic, id, records):
        run(self.base + ["-P", "-t", topic, "-p", "0", "-K:", "-X", "transactional.id=" + id],
            "".join("%s:%s\n" % r for r in records), 25)

    def open_producer(self, codec, acks, idempotent, batch):
        options = ["-z", codec, "-X", "linger.ms=50", "-X", "enable.idempotence=%s" % str(idempotent).lower()]
        if not idempotent:
            options += ["-X", "topic.request.required.acks=" + {"all": "-1"}.get(acks, acks)]
        if batch:
            options += ["-X", "batch.num.messages=%d" % batch]
        return Sender(self.base, options)

    def read(self, *options):
        return self.base + ["-E", "-u", "-f", r"%p %o %k %s\n", "-X", "fetch.wait.max.ms=200", *options]

    def assign(self, topic, form, value):
        at = {"start": "beginning", "end": "end", "offset": str(value), "timestamp": "s@%d" % value}[form]
        r = Reader(self.read("-C", "-t", topic, "-p", "0", "-o", at))
        if form == "end" and not r.at_end.wait(20):
            raise Broken("the end of the topic is not reached")
        return r

    def join(self, group, topic, assignor, static, reset, session):
        options = ["-X", "auto.offset.reset=" + {"start": "earliest", "end": "latest"}[reset],
                   "-X", "session.timeout.ms=%d" % session, "-X", "heartbeat.interval.ms=500",
                   "-X", "topic.metadata.refresh.interval.ms=1000", "-X", "auto.commit.interval.ms=200"]
        if assignor != "default":
            options += ["-X", "partition.assignment.strategy=" + assignor]
        if static:
            options += ["-X", "group.instance.id=" + static]
        return Reader(self.read(*options, "-G", group, topic))


if __name__ == "__main__":
    driver.main(Kcat)
