"""The scenarios of the compatibility suite for every client that a Python
script can drive: Python's own clients, and command-line tools as processes.

A client module defines one class with the methods that it supports and calls
main(Class). The runner starts it with --scenario and reads its last line: `ok`
or `fail: reason`. In between the script may print `ask more` (the runner
produces the next hundred records) or `ask restart` (the runner restarts the
broker) and then reads one line when that is done.

The class has, as far as the client can:
    __init__(brokers)
    create(topic, partitions), delete(topic)
    partition_count(topic) -> number, as metadata shows it
    produce(topic, codec, acks, idempotent, records)   records: [(key, value)]
    consume(topic, count) -> [(key, value)]            from the start
    consume_from(topic, timestamp_ms, count) -> same   from a point in time
    member(group, topic) -> object with partitions() -> set of numbers,
                            received: list of values, leave()
    sender(topic) -> object with send(key, value), acked() -> list of values,
                     close()
    tail(topic) -> object with received: list of values, close()
"""

import argparse
import sys
import threading
import time
import traceback

ACKS = ("0", "1", "all")
PER_ROUND = 100  # records per `ask more`


def record(i):
    """The i-th record of every topic of the suite."""
    return "k%06d" % i, "v%06d-" % i + "x" * 200


def value(i):
    return record(i)[1]


def ask(what):
    print("ask " + what, flush=True)
    line = sys.stdin.readline().strip()
    if line != "done":
        raise Failure("the runner could not %s: %s" % (what, line))


class Failure(Exception):
    pass


def until(what, limit, holds):
    """Waits until holds() is true, at most limit seconds."""
    end = time.monotonic() + limit
    while not holds():
        if time.monotonic() > end:
            raise Failure("no %s within %d s" % (what() if callable(what) else what, limit))
        time.sleep(0.02)


def expect(got, want, what):
    if got == want:
        return
    for i, (g, w) in enumerate(zip(got, want)):
        if g != w:
            raise Failure("%s: record %d is %r, want %r" % (what, i, short(g), short(w)))
    raise Failure("%s: %d records, want %d" % (what, len(got), len(want)))


def short(x):
    return tuple(s[:12] for s in x) if isinstance(x, tuple) else x[:12]


def run_create(c, a):
    c.create(a.topic, 3)
    if hasattr(c, "partition_count"):
        until("metadata with three partitions", 10, lambda: c.partition_count(a.topic) == 3)


def run_delete(c, a):
    c.delete(a.topic)


def run_produce(c, a):
    for acks in ACKS:
        c.produce(a.topic + "-" + acks, a.codec, acks, False, [record(i) for i in range(a.count)])


def run_idempotent(c, a):
    c.produce(a.topic, "none", "all", True, [record(i) for i in range(a.count)])


def run_consume(c, a):
    expect(c.consume(a.topic, a.count), [record(i) for i in range(a.count)], "from the start")


def run_seek(c, a):
    got = c.consume_from(a.topic, a.timestamp, a.count - a.first)
    expect(got, [record(i) for i in range(a.first, a.count)], "from the timestamp")


def run_group(c, a):
    want = lambda k: sorted(value(i) for i in range(k * PER_ROUND, (k + 1) * PER_ROUND))
    one, two = c.member(a.group, a.topic), c.member(a.group, a.topic)
    until(lambda: "split of four partitions in two (have %s and %s)" % (one.partitions(), two.partitions()), 40,
          lambda: len(one.partitions()) == 2 and len(two.partitions()) == 2
          and len(one.partitions() | two.partitions()) == 4)
    ask("more")
    until(lambda: "first hundred (have %d and %d)" % (len(one.received), len(two.received)), 20,
          lambda: len(one.received) + len(two.received) >= PER_ROUND)
    expect(sorted(one.received + two.received), want(0), "both members")
    if not one.received or not two.received:
        raise Failure("one member received everything")
    before = len(one.received)
    two.leave()
    until(lambda: "takeover of all partitions (has %s)" % one.partitions(), 40, lambda: len(one.partitions()) == 4)
    ask("more")
    until(lambda: "second hundred (have %d)" % (len(one.received) - before), 20,
          lambda: len(one.received) - before >= PER_ROUND)
    expect(sorted(one.received[before:]), want(1), "the member that stayed")
    one.leave()
    three = c.member(a.group, a.topic)
    until(lambda: "assignment of a later member (has %s)" % three.partitions(), 40, lambda: len(three.partitions()) == 4)
    ask("more")
    until(lambda: "third hundred (have %d)" % len(three.received), 20, lambda: len(three.received) >= PER_ROUND)
    expect(sorted(three.received), want(2), "a member that resumes")
    three.leave()


def run_restart(c, a):
    sender, tail = c.sender(a.topic), c.tail(a.topic)
    stop = threading.Event()
    sent = [0]

    def produce():
        while not stop.is_set():
            sender.send(*record(sent[0]))
            sent[0] += 1
            stop.wait(0.01)

    t = threading.Thread(target=produce, daemon=True)
    t.start()
    until("50 records through the broker before its restart", 40, lambda: len(tail.received) >= 50)
    ask("restart")
    mark = sent[0]
    until("records sent after the restart", 60, lambda: sent[0] >= mark + 50)
    stop.set()
    t.join(60)
    sender.close()
    acked = sender.acked()
    if len(acked) < mark:
        raise Failure("only %d of %d records acknowledged" % (len(acked), sent[0]))
    until(lambda: "delivery of all acknowledged records (miss %d of %d)" % (len(set(acked) - set(tail.received)), len(acked)),
          40, lambda: set(acked) <= set(tail.received))
    extra = set(tail.received) - {value(i) for i in range(sent[0])}
    if extra:
        raise Failure("%d records that nobody sent" % len(extra))
    tail.close()


RUN = {"create": run_create, "delete": run_delete, "produce": run_produce, "idempotent": run_idempotent,
       "consume": run_consume, "seek": run_seek, "group": run_group, "restart": run_restart}


def main(client):
    p = argparse.ArgumentParser()
    p.add_argument("--brokers", required=True)
    p.add_argument("--scenario", required=True, choices=sorted(RUN))
    p.add_argument("--topic", required=True)
    p.add_argument("--group", default="")
    p.add_argument("--codec", default="none")
    p.add_argument("--count", type=int, default=0)
    p.add_argument("--first", type=int, default=0, help="number of the first record at or after --timestamp")
    p.add_argument("--timestamp", type=int, default=0, help="milliseconds since 1970")
    a = p.parse_args()
    try:
        c = client(a.brokers)
        RUN[a.scenario](c, a)
        print("ok", flush=True)
        code = 0
    except Exception as e:  # whatever a client throws is its verdict
        if not isinstance(e, Failure):
            traceback.print_exc()
        print("fail: %s" % (str(e) or type(e).__name__).replace("\n", " ")[:300], flush=True)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # A failed scenario may leave client threads behind that never end.
    import os
    os._exit(code)
