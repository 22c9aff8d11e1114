"""kafka-python, a client in pure Python."""

import threading
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

import scenarios


class Poller:
    """A consumer polled by a thread of its own, which alone touches it."""

    def __init__(self, consumer, commits=False):
        self.consumer, self.received, self.stop, self.commits = consumer, [], threading.Event(), commits
        self.assigned = set()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            for batch in self.consumer.poll(100).values():
                self.received += [m.value.decode() for m in batch]
                if self.commits:
                    self.consumer.commit()
            self.assigned = {p.partition for p in self.consumer.assignment()}
        self.assigned = set()
        self.consumer.close()

    def partitions(self):
        return set(self.assigned)

    def leave(self):
        self.stop.set()
        self.thread.join()

    close = leave


class Sender:
    def __init__(self, producer, topic):
        self.producer, self.topic, self.done = producer, topic, []

    def send(self, key, value):
        f = self.producer.send(self.topic, value.encode(), key.encode())
        f.add_callback(lambda _: self.done.append(value))

    def acked(self):
        return list(self.done)

    def close(self):
        self.producer.flush(60)
        self.producer.close(10)


class KafkaPython:
    def __init__(self, brokers):
        self.brokers = brokers

    def create(self, topic, partitions):
        admin = KafkaAdminClient(bootstrap_servers=self.brokers)
        admin.create_topics([NewTopic(topic, partitions, 1)])

    def partition_count(self, topic):
        return len(KafkaAdminClient(bootstrap_servers=self.brokers).describe_topics([topic])[0]["partitions"])

    def delete(self, topic):
        KafkaAdminClient(bootstrap_servers=self.brokers).delete_topics([topic])

    def producer(self, codec, acks, idempotent):
        return KafkaProducer(bootstrap_servers=self.brokers, compression_type=None if codec == "none" else codec,
                             acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent,
                             linger_ms=5)

    def produce(self, topic, codec, acks, idempotent, records):
        p = self.producer(codec, acks, idempotent)
        futures = [p.send(topic, v.encode(), k.encode()) for k, v in records]
        p.flush(30)
        for f in futures:
            f.get(10)
        p.close(10)

    def read(self, topic, count, place):
        c = KafkaConsumer(bootstrap_servers=self.brokers, enable_auto_commit=False)
        tp = TopicPartition(topic, 0)
        c.assign([tp])
        place(c, tp)
        got, end = [], time.monotonic() + 20
        while len(got) < count:
            if time.monotonic() > end:
                raise scenarios.Failure("%d of %d records within 20 s" % (len(got), count))
            for batch in c.poll(500).values():
                got += [(m.key.decode(), m.value.decode()) for m in batch]
        c.close()
        return got

    def consume(self, topic, count):
        return self.read(topic, count, lambda c, tp: c.seek_to_beginning(tp))

    def consume_from(self, topic, timestamp, count):
        return self.read(topic, count, lambda c, tp: c.seek(tp, c.offsets_for_times({tp: timestamp})[tp].offset))

    def member(self, group, topic):
        return Poller(KafkaConsumer(topic, bootstrap_servers=self.brokers, group_id=group, auto_offset_reset="earliest",
                                    enable_auto_commit=False, session_timeout_ms=10000, heartbeat_interval_ms=1000), commits=True)

    def sender(self, topic):
        return Sender(self.producer("none", "all", True), topic)

    def tail(self, topic):
        c = KafkaConsumer(bootstrap_servers=self.brokers, enable_auto_commit=False)
        parts = [TopicPartition(topic, p) for p in c.partitions_for_topic(topic)]
        c.assign(parts)
        c.seek_to_beginning(*parts)
        return Poller(c)


if __name__ == "__main__":
    scenarios.main(KafkaPython)
