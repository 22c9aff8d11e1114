"""kafka-python, a client in pure Python."""

import re

from kafka import errors, AsyncConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.admin._partitions import OffsetSpec, OffsetTimestamp
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

import driver


class Poller(driver.Poller, AsyncConsumerRebalanceListener):
    def __init__(self, consumer, eager=False):
        super().__init__(consumer)
        self.eager = eager

    def poll(self):
        try:
            # A poll that ends while this client rejoins for new metadata leaves it
            # without partitions for ever, on any broker; so a poll is long.
            for tp, batch in self.consumer.poll(500).items():
                for m in batch:
                    self.positions[tp] = OffsetAndMetadata(m.offset + 1, "", -1)
                    driver.got(m.partition, m.offset, m.key, m.value)
        except errors.KafkaError as e:
            driver.note(e)
            driver.fault(getattr(e, "errno", None))

    def commit_positions(self):
        if self.positions:
            self.consumer.commit(dict(self.positions))

    async def on_partitions_revoked(self, revoked):
        # With the cooperative assignor a commit here would wait for the rebalance that
        # waits for it.
        taken = {p: self.positions.pop(p) for p in revoked if p in self.positions}
        try:
            if taken and self.eager:
                await self.consumer.commit_async(taken)
        except errors.KafkaError as e:
            driver.note(e)
        self.held.remove(p.partition for p in revoked)

    async def on_partitions_lost(self, lost):
        for p in lost:
            self.positions.pop(p, None)
        self.held.remove(p.partition for p in lost)

    async def on_partitions_assigned(self, assigned):
        self.held.add(p.partition for p in assigned)


class Sender:
    def __init__(self, producer):
        self.producer = producer

    def send(self, topic, records, timestamp):
        futures = [self.producer.send(topic, v.encode(), k.encode(), partition=0, timestamp_ms=timestamp) for k, v in records]
        self.producer.flush(30)
        for f in futures:
            f.get(10)

    def send_one(self, topic, key, value):
        self.producer.send(topic, value.encode(), key.encode()).get(60)

    def close(self):
        self.producer.close(10)


class KafkaPython:
    def __init__(self, brokers):
        self.brokers = brokers

    def code(self, e):
        if isinstance(e, errors.CommitFailedError):
            return 25  # it does not say which of the codes it was
        # Some errors have the code in their text alone.
        shown = re.search(r"\[Error (\d+)\]", str(e))
        return getattr(e, "errno", None) or (int(shown.group(1)) if shown else None)

    def admin(self, do):
        admin = KafkaAdminClient(bootstrap_servers=self.brokers)
        try:
            return do(admin)
        finally:
            admin.close()

    def create(self, topic, partitions, configs):
        self.admin(lambda a: a.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}}))

    def partitions(self, topic):
        return len(self.admin(lambda a: a.describe_topics([topic]))[0]["partitions"])

    def delete(self, topic):
        self.admin(lambda a: a.delete_topics([topic]))

    def grow(self, topic, partitions):
        self.admin(lambda a: a.create_partitions({topic: partitions}))

    def trim(self, topic, partition, offset):
        tp = TopicPartition(topic, partition)
        return self.admin(lambda a: a.delete_records({tp: offset}))[tp]["low_watermark"]

    def delete_group(self, group):
        result = self.admin(lambda a: a.delete_groups([group]))
        # It shows the name of the error's class.
        if result[group] != "OK":
            raise getattr(errors, result[group])()

    def reset(self, group, topic, partition, form, value):
        tp = TopicPartition(topic, partition)

        def do(a):
            if form == "shift":
                to = a.list_group_offsets({group: [tp]})[group][tp].offset + value
            else:
                to = {"start": OffsetSpec.EARLIEST, "end": OffsetSpec.LATEST, "offset": value, "timestamp": OffsetTimestamp(value)}[form]
            result = a.reset_group_offsets(group, {tp: to})[tp]
            if result["error"] is not None and result["error"].errno:
                raise result["error"]()
        self.admin(do)

    def transact(self, topic, id, records):
        p = KafkaProducer(bootstrap_servers=self.brokers, transactional_id=id, max_block_ms=20000)
        try:
            p.init_transactions()
            p.begin_transaction()
            for k, v in records:
                p.send(topic, v.encode(), k.encode(), partition=0)
            p.commit_transaction()
        finally:
            p.close(5)

    def open_producer(self, codec, acks, idempotent, batch):
        more = {"batch_size": batch * 230} if batch else {}
        return Sender(KafkaProducer(bootstrap_servers=self.brokers, compression_type=None if codec == "none" else codec,
                                    acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent,
                                    linger_ms=5, **more))

    def assign(self, topic, form, value):
        c = KafkaConsumer(bootstrap_servers=self.brokers, enable_auto_commit=False, fetch_max_wait_ms=200)
        tp = TopicPartition(topic, 0)
        c.assign([tp])
        if form == "start":
            c.seek_to_beginning(tp)
        elif form == "end":
            c.seek_to_end(tp)
        else:
            c.seek(tp, value if form == "offset" else c.offsets_for_times({tp: value})[tp].offset)
        c.position(tp)
        return Poller(c).start()

    def join(self, group, topic, assignor, static, reset, session):
        more = {"range": {"partition_assignment_strategy": (RangePartitionAssignor,)},
                "cooperative-sticky": {"partition_assignment_strategy": (CooperativeStickyAssignor,)}}.get(assignor, {})
        c = KafkaConsumer(bootstrap_servers=self.brokers, group_id=group, group_instance_id=static,
                          auto_offset_reset={"start": "earliest", "end": "latest"}[reset], enable_auto_commit=False,
                          session_timeout_ms=session, heartbeat_interval_ms=500, metadata_max_age_ms=3000,
                          fetch_max_wait_ms=200, **more)
        p = Poller(c, eager=assignor != "cooperative-sticky")
        c.subscribe([topic], listener=p)
        # A leader that has no metadata of the topic yet assigns nothing, and one that
        # had it before it subscribed rejoins at the next refresh.
        c.partitions_for_topic(topic)
        return p.start()


if __name__ == "__main__":
    driver.main(KafkaPython)
