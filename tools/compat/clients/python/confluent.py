"""confluent-kafka, on the newest librdkafka or, with the package of Debian, on an
old one. What the old one lacks is in the table of the runner."""

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import driver


def code_of(error):
    """Kafka's code for an error of librdkafka's."""
    if error.code() == KafkaError._UNKNOWN_TOPIC:
        return 3  # its own name for it, when the metadata come while it takes the record
    if error.code() == KafkaError._FATAL and "fenced" in error.str():
        return KafkaError.FENCED_INSTANCE_ID  # which is in the text alone
    return error.code() if error.code() >= -1 else None


class Poller(driver.Poller):
    def poll(self):
        m = self.consumer.poll(0.05)
        if m is not None and m.error() is not None:
            driver.note(m.error())
            driver.fault(code_of(m.error()))
        elif m is not None:
            self.positions[m.topic(), m.partition()] = m.offset() + 1
            driver.got(m.partition(), m.offset(), m.key(), m.value())

    def on_assign(self, consumer, parts):
        self.held.add(p.partition for p in parts)

    def on_revoke(self, consumer, parts):
        for p in parts:
            self.positions.pop((p.topic, p.partition), None)
        self.held.remove(p.partition for p in parts)

    def commit_positions(self):
        offsets = [TopicPartition(t, p, o) for (t, p), o in self.positions.items()]
        if offsets:
            for p in self.consumer.commit(offsets=offsets, asynchronous=False):
                if p.error:
                    raise KafkaException(p.error)


class Sender:
    def __init__(self, producer):
        self.producer = producer

    def send(self, topic, records, timestamp):
        errors, more = [], {} if timestamp is None else {"timestamp": timestamp}
        for k, v in records:
            self.producer.produce(topic, v, k, 0, lambda e, m: errors.append(e) if e else None, **more)
        left = self.producer.flush(30)
        if errors:
            raise KafkaException(errors[0])
        if left:
            raise driver.Failure("%d records are not delivered after 30 s" % left)

    def send_one(self, topic, key, value):
        done = []
        self.producer.produce(topic, value, key, on_delivery=lambda e, m: done.append(e))
        while not done:
            self.producer.poll(0.1)
        if done[0] is not None:
            raise KafkaException(done[0])

    def close(self):
        self.producer.flush(30)


class Confluent:
    def __init__(self, brokers):
        self.brokers = brokers
        self.admin = AdminClient({"bootstrap.servers": brokers})

    def code(self, e):
        return code_of(e.args[0]) if isinstance(e, KafkaException) else None

    def create(self, topic, partitions, configs):
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic].result(30)

    def partitions(self, topic):
        return len(self.admin.list_topics(topic, timeout=20).topics[topic].partitions)

    def delete(self, topic):
        self.admin.delete_topics([topic])[topic].result(30)

    def grow(self, topic, partitions):
        self.admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)

    def trim(self, topic, partition, offset):
        (f,) = self.admin.delete_records([TopicPartition(topic, partition, offset)]).values()
        return f.result(30).low_watermark

    def delete_group(self, group):
        self.admin.delete_consumer_groups([group])[group].result(30)

    def place(self, consumer, topic, partition, form, value):
        """The offset of a position."""
        if form == "offset":
            return value
        if form == "timestamp":
            return consumer.offsets_for_times([TopicPartition(topic, partition, value)], 20)[0].offset
        if form == "shift":
            return consumer.committed([TopicPartition(topic, partition)], 20)[0].offset + value
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), 20)
        return low if form == "start" else high

    def reset(self, group, topic, partition, form, value):
        c = self.consumer(group)
        try:
            to = TopicPartition(topic, partition, self.place(c, topic, partition, form, value))
            if not hasattr(self.admin, "alter_consumer_group_offsets"):
                c.commit(offsets=[to], asynchronous=False)
                return
        finally:
            c.close()
        from confluent_kafka import ConsumerGroupTopicPartitions
        request = ConsumerGroupTopicPartitions(group, [to])
        for p in self.admin.alter_consumer_group_offsets([request])[group].result(30).topic_partitions:
            if p.error:
                raise KafkaException(p.error)

    def transact(self, topic, id, records):
        p = Producer({"bootstrap.servers": self.brokers, "transactional.id": id})
        p.init_transactions(20)
        p.begin_transaction()
        for k, v in records:
            p.produce(topic, v, k, 0)
        p.commit_transaction(20)

    def open_producer(self, codec, acks, idempotent, batch):
        config = {"bootstrap.servers": self.brokers, "compression.type": codec, "acks": acks,
                  "enable.idempotence": idempotent, "linger.ms": 5}
        if batch:
            config["batch.num.messages"] = batch
        return Sender(Producer(config))

    def consumer(self, group, **more):
        config = {"bootstrap.servers": self.brokers, "group.id": group, "enable.auto.commit": False,
                  "fetch.wait.max.ms": 200}
        config.update({k.replace("_", "."): v for k, v in more.items()})
        return Consumer(config)

    def assign(self, topic, form, value):
        c = self.consumer("unused")
        at = self.place(c, topic, 0, form, value)
        c.assign([TopicPartition(topic, 0, at)])
        return Poller(c).start()

    def join(self, group, topic, assignor, static, reset, session):
        more = {"auto_offset_reset": {"start": "earliest", "end": "latest"}[reset], "session_timeout_ms": session,
                "heartbeat_interval_ms": 500, "topic_metadata_refresh_interval_ms": 1000}
        if assignor != "default":
            more["partition_assignment_strategy"] = assignor
        if static:
            more["group_instance_id"] = static
        p = Poller(self.consumer(group, **more))
        p.consumer.subscribe([topic], on_assign=p.on_assign, on_revoke=p.on_revoke)
        return p.start()


if __name__ == "__main__":
    driver.main(Confluent)
