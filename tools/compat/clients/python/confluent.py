"""confluent-kafka, the newest librdkafka."""

import threading

from confluent_kafka import Consumer, OFFSET_BEGINNING, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import scenarios


class Poller:
    """A consumer polled by a thread of its own, which alone touches it."""

    def __init__(self, consumer, topic=None):
        self.consumer, self.received, self.stop = consumer, [], threading.Event()
        self.assigned, self.commits = set(), topic is not None
        if topic:
            consumer.subscribe([topic], on_assign=self.assign, on_revoke=lambda c, parts: self.assigned.clear())
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.is_set():
            m = self.consumer.poll(0.1)
            if m is not None and m.error() is None:
                self.received.append(m.value().decode())
                if self.commits:
                    self.consumer.commit(m, asynchronous=False)
        self.consumer.close()

    def assign(self, consumer, parts):
        self.assigned.update(p.partition for p in parts)

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
        self.producer.produce(self.topic, value, key, on_delivery=self.delivered)
        self.producer.poll(0)

    def delivered(self, err, msg):
        if err is None:
            self.done.append(msg.value().decode())

    def acked(self):
        return list(self.done)

    def close(self):
        self.producer.flush(60)


class Confluent:
    def __init__(self, brokers):
        self.brokers = brokers
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def create(self, topic, partitions):
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(20)

    def partition_count(self, topic):
        return len(self.admin.list_topics(topic, timeout=20).topics[topic].partitions)

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(20)

    def produce(self, topic, codec, acks, idempotent, records):
        errors = []
        p = Producer({"bootstrap.servers": self.brokers, "compression.type": codec, "acks": acks,
                      "enable.idempotence": idempotent, "linger.ms": 5})
        for k, v in records:
            p.produce(topic, v, k, on_delivery=lambda e, m: errors.append(e) if e else None)
        left = p.flush(30)
        if left or errors:
            raise scenarios.Failure("acks=%s: %d not delivered, %s" % (acks, left, errors[:1]))

    def read(self, topic, offset, count):
        c = self.consumer("scenario-read")
        try:
            c.assign([TopicPartition(topic, 0, offset)])
            got = []
            while len(got) < count:
                batch = c.consume(count - len(got), 20)
                if not batch:
                    raise scenarios.Failure("%d of %d records within 20 s" % (len(got), count))
                for m in batch:
                    if m.error():
                        raise scenarios.Failure(str(m.error()))
                    got.append((m.key().decode(), m.value().decode()))
            return got
        finally:
            c.close()

    def consume(self, topic, count):
        return self.read(topic, OFFSET_BEGINNING, count)

    def consume_from(self, topic, timestamp, count):
        c = self.consumer("scenario-read")
        try:
            at = c.offsets_for_times([TopicPartition(topic, 0, timestamp)], 20)[0]
        finally:
            c.close()
        return self.read(topic, at.offset, count)

    def consumer(self, group):
        return Consumer({"bootstrap.servers": self.brokers, "group.id": group, "auto.offset.reset": "earliest",
                         "enable.auto.commit": False, "session.timeout.ms": 10000})

    def member(self, group, topic):
        return Poller(self.consumer(group), topic)

    def sender(self, topic):
        return Sender(Producer({"bootstrap.servers": self.brokers, "acks": "all"}), topic)

    def tail(self, topic):
        c = self.consumer("scenario-tail")
        n = len(c.list_topics(topic, 20).topics[topic].partitions)
        c.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(n)])
        return Poller(c)


if __name__ == "__main__":
    scenarios.main(Confluent)
