"""The conversation of a driver with the runner, for the clients in Python and for
kcat. The commands are in ../README.md.

A client module defines a class and calls main(Class). A method for each command
that the client can do; codes are Kafka's error codes:

    __init__(brokers)
    create(topic, partitions, configs)    partitions(topic) -> number
    delete(topic)                         grow(topic, partitions)
    trim(topic, partition, offset) -> new log start
    delete_group(group)                   reset(group, topic, partition, form, value)
    transact(topic, id, records)
    open_producer(codec, acks, idempotent, batch) -> object with
        send(topic, records, timestamp), send_one(topic, key, value), close();
        with says_acked it does not wait in send_one and says acked by itself
    assign(topic, form, value) -> consumer: an object with commit() and leave()
    join(group, topic, assignor, static, reset, session) -> consumer; it reports what
        it is told of by fault(code)
    code(exception) -> number or None

records are pairs of str, timestamps and sessions milliseconds, None where the
command has none. A consumer reports by got() and by an Assignment.
"""

import concurrent.futures
import logging
import os
import queue
import sys
import threading
import time
import traceback

LOCK = threading.Lock()
# Codes of a commit by a member that has to join first, again perhaps.
NOT_IN_GROUP = (22, 25, 27)  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS


def say(line):
    with LOCK:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def note(what):
    """Something for the log."""
    print(what, file=sys.stderr, flush=True)


def fault(code):
    say("fault %s" % ("-" if code is None else code))


def record(i, size=None):
    v = "v%06d-" % i
    return "k%06d" % i, v + "x" * (200 if size is None else size - len(v))


def got(partition, offset, key, value):
    key, value = key or b"", value or b""
    number = key[1:].decode(errors="replace")
    if number.isdigit() and record(int(number)) == (key.decode(), value.decode(errors="replace")):
        say("got %d %d %d" % (partition, offset, int(number)))
    else:
        say("got %d %d ?%s" % (partition, offset, value[:20].decode(errors="replace").replace("\n", " ")))


class Failure(Exception):
    """What a driver itself finds wrong."""


class Assignment:
    """The partitions that a member holds; says so at each change."""

    def __init__(self):
        self.held = set()

    def add(self, partitions):
        self.set(self.held | set(partitions))

    def remove(self, partitions):
        self.set(self.held - set(partitions))

    def set(self, partitions):
        self.held = set(partitions)
        say("assigned " + ",".join(str(p) for p in sorted(self.held)))


class Poller:
    """A consumer polled by a thread of its own, which alone touches it. Subclasses
    have poll(), which reports what one poll brings, and commit_positions()."""

    def __init__(self, consumer):
        self.consumer, self.positions, self.orders = consumer, {}, queue.Queue()
        self.quit = threading.Event()
        self.held = Assignment()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def run(self):
        while not self.quit.is_set():
            self.poll()
            while not self.orders.empty():
                f = self.orders.get()
                try:
                    f.set_result(self.commit_positions())
                except Exception as e:
                    f.set_exception(e)
        self.consumer.close()

    def commit(self):
        f = concurrent.futures.Future()
        self.orders.put(f)
        f.result(30)

    def leave(self):
        self.quit.set()
        self.thread.join(30)
        if self.thread.is_alive():
            raise Failure("the consumer is not closed within 30 s")


class Stream:
    """Sends one record after the other, about every ten milliseconds."""

    def __init__(self, producer, topic):
        self.producer, self.topic, self.sent, self.error = producer, topic, 0, None
        self.quit = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.quit.wait(0.01):
            try:
                self.producer.send_one(self.topic, *record(self.sent))
            except Exception as e:
                self.error = e
                return
            if not getattr(self.producer, "says_acked", False):
                say("acked %d" % self.sent)
            self.sent += 1

    def stop(self):
        self.quit.set()
        self.thread.join(60)
        if self.error:
            raise self.error
        return self.sent


class Session:
    """The one producer and the one consumer of the process."""

    def __init__(self, client):
        self.client = client
        self.producer = self.stream = self.consumer = None

    def do(self, verb, a):
        c = self.client
        if verb == "create":
            configs = dict(kv.split(":", 1) for kv in a["configs"].split(",")) if a.get("configs") else {}
            c.create(a["topic"], int(a["partitions"]), configs)
        elif verb == "partitions":
            return "count=%d" % c.partitions(a["topic"])
        elif verb == "delete":
            c.delete(a["topic"])
        elif verb == "grow":
            c.grow(a["topic"], int(a["partitions"]))
        elif verb == "trim":
            return "low=%d" % c.trim(a["topic"], int(a["partition"]), int(a["offset"]))
        elif verb == "delete-group":
            c.delete_group(a["group"])
        elif verb == "reset":
            c.reset(a["group"], a["topic"], int(a["partition"]), *position(a["to"]))
        elif verb == "transact":
            c.transact(a["topic"], a["id"], self.records(a))
        else:
            return self.data(verb, a)
        return ""

    def commit(self):
        """Repeats it until the member is in the group."""
        end = time.monotonic() + 20
        while True:
            try:
                return self.consumer.commit()
            except Exception as e:
                if self.client.code(e) not in NOT_IN_GROUP or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def records(self, a):
        first, size = int(a["first"]), int(a["size"]) if a.get("size") else None
        return [record(i, size) for i in range(first, first + int(a["count"]))]

    def data(self, verb, a):
        c = self.client
        if verb == "producer":
            self.producer = c.open_producer(a.get("codec", "none"), a.get("acks", "all"), a.get("idempotent") == "yes",
                                            int(a["batch"]) if a.get("batch") else None)
        elif verb == "send":
            self.producer.send(a["topic"], self.records(a), int(a["timestamp"]) if a.get("timestamp") else None)
        elif verb == "stream":
            self.producer = c.open_producer("none", "all", False, None)
            self.stream = Stream(self.producer, a["topic"])
        elif verb == "stop":
            return "sent=%d" % self.stream.stop()
        elif verb == "close-producer":
            self.producer.close()
        elif verb == "assign":
            self.consumer = c.assign(a["topic"], *position(a["from"]))
        elif verb == "join":
            self.consumer = c.join(a["group"], a["topic"], a.get("assignor", "default"), a.get("static"),
                                   a.get("reset", "start"), int(a.get("session", 6000)))
        elif verb == "commit":
            self.commit()
        elif verb == "leave":
            self.consumer.leave()
        else:
            raise Failure("unknown command " + verb)
        return ""


def position(text):
    form, _, value = text.partition(":")
    return form, int(value or 0)


def until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise Failure("no %s within %d s" % (what, seconds))
        time.sleep(0.01)


def main(client):
    # What the clients say goes to the log, at DEBUG when COMPAT_DEBUG is set.
    logging.basicConfig(level=logging.DEBUG if os.environ.get("COMPAT_DEBUG") else logging.INFO,
                        format="%(asctime)s %(name)s %(levelname)s %(message)s")
    session = Session(client(sys.argv[sys.argv.index("--brokers") + 1]))
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            answer = session.do(verb, dict(w.split("=", 1) for w in words))
            say(("ok " + answer).rstrip())
        except Exception as e:  # whatever a client throws is its verdict
            traceback.print_exc()
            sys.stderr.flush()
            code = session.client.code(e)
            say("error %s %s" % ("-" if code is None else code, (str(e) or type(e).__name__).replace("\n", " ")[:300]))
    # A scenario may leave client threads behind that never end.
    os._exit(0)
