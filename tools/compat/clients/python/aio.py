"""aiokafka, a client on asyncio. Its event loop runs in a thread of its own."""

import asyncio
import threading

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError, for_code

import driver

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def call(coroutine, limit=30):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(limit)


class Poller(ConsumerRebalanceListener):
    def __init__(self, consumer):
        self.consumer, self.quit, self.positions = consumer, False, {}
        self.held = driver.Assignment()

    def start(self):
        self.task = asyncio.run_coroutine_threadsafe(self.run(), LOOP)
        return self

    async def run(self):
        while not self.quit:
            try:
                batches = await self.consumer.getmany(timeout_ms=50)
            except KafkaError as e:
                driver.note(e)
                driver.fault(getattr(e, "errno", None))
                await asyncio.sleep(0.05)
                continue
            for tp, batch in batches.items():
                for m in batch:
                    self.positions[tp] = m.offset + 1
                    driver.got(m.partition, m.offset, m.key, m.value)

    async def on_partitions_revoked(self, revoked):
        self.positions.clear()
        self.held.set([])

    async def on_partitions_assigned(self, assigned):
        self.held.set(p.partition for p in assigned)

    def commit(self):
        async def do():
            if self.positions:
                await self.consumer.commit(dict(self.positions))
        call(do())

    def leave(self):
        self.quit = True
        self.task.result(10)
        call(self.consumer.stop())


class Sender:
    def __init__(self, producer):
        self.producer = producer

    def send(self, topic, records, timestamp):
        async def do():
            futures = [await self.producer.send(topic, v.encode(), k.encode(), 0, timestamp) for k, v in records]
            results = await asyncio.gather(*futures, return_exceptions=True)
            for r in results:
                if isinstance(r, Exception):
                    raise r
        call(do())

    def send_one(self, topic, key, value):
        call(self.producer.send_and_wait(topic, value.encode(), key.encode()), 60)

    def close(self):
        call(self.producer.stop())


def raise_for(code, *text):
    if code:
        raise for_code(code)(*text)


class AIOKafka:
    def __init__(self, brokers):
        self.brokers = brokers

    def code(self, e):
        return getattr(e, "errno", None) if isinstance(e, KafkaError) else None

    def admin(self, do):
        async def with_admin():
            admin = AIOKafkaAdminClient(bootstrap_servers=self.brokers)
            await admin.start()
            try:
                return await do(admin)
            finally:
                await admin.close()
        return call(with_admin())

    def create(self, topic, partitions, configs):
        r = self.admin(lambda a: a.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)]))
        raise_for(*r.topic_errors[0][1:])

    def partitions(self, topic):
        return len(self.admin(lambda a: a.describe_topics([topic]))[0]["partitions"])

    def delete(self, topic):
        raise_for(self.admin(lambda a: a.delete_topics([topic])).topic_error_codes[0][1])

    def grow(self, topic, partitions):
        r = self.admin(lambda a: a.create_partitions({topic: NewPartitions(partitions)}))
        raise_for(*r.topic_errors[0][1:])

    def trim(self, topic, partition, offset):
        tp = TopicPartition(topic, partition)
        return self.admin(lambda a: a.delete_records({tp: RecordsToDelete(offset)}))[tp]

    async def place(self, consumer, tp, form, value):
        """The offset of a position."""
        if form == "offset":
            return value
        if form == "start":
            return (await consumer.beginning_offsets([tp]))[tp]
        if form == "end":
            return (await consumer.end_offsets([tp]))[tp]
        if form == "timestamp":
            return (await consumer.offsets_for_times({tp: value}))[tp].offset
        return await consumer.committed(tp) + value

    def reset(self, group, topic, partition, form, value):
        async def do():
            c = await self.consumer(group_id=group)
            try:
                tp = TopicPartition(topic, partition)
                c.assign([tp])
                await c.commit({tp: await self.place(c, tp, form, value)})
            finally:
                await c.stop()
        call(do())

    def transact(self, topic, id, records):
        async def do():
            p = AIOKafkaProducer(bootstrap_servers=self.brokers, transactional_id=id)
            try:
                await p.start()
                async with p.transaction():
                    for k, v in records:
                        await p.send_and_wait(topic, v.encode(), k.encode(), 0)
            finally:
                await p.stop()
        call(do(), 20)

    def open_producer(self, codec, acks, idempotent, batch):
        async def do():
            more = {"max_batch_size": batch * 230} if batch else {}
            p = AIOKafkaProducer(bootstrap_servers=self.brokers, compression_type=None if codec == "none" else codec,
                                 acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent, **more)
            await p.start()
            return p
        return Sender(call(do()))

    async def consumer(self, **config):
        c = AIOKafkaConsumer(bootstrap_servers=self.brokers, enable_auto_commit=False, fetch_max_wait_ms=200, **config)
        await c.start()
        return c

    def assign(self, topic, form, value):
        async def do():
            c = await self.consumer()
            tp = TopicPartition(topic, 0)
            c.assign([tp])
            c.seek(tp, await self.place(c, tp, form, value))
            return c
        return Poller(call(do())).start()

    def join(self, group, topic, assignor, static, reset, session):
        # start() waits for the first assignment of a topic given there; subscribing
        # later does not.
        more = {"partition_assignment_strategy": (RangePartitionAssignor,)} if assignor == "range" else {}

        async def do():
            p = Poller(await self.consumer(
                group_id=group, group_instance_id=static, auto_offset_reset={"start": "earliest", "end": "latest"}[reset],
                session_timeout_ms=session, heartbeat_interval_ms=500, metadata_max_age_ms=1000, **more))
            p.consumer.subscribe([topic], listener=p)
            return p
        return call(do()).start()


if __name__ == "__main__":
    driver.main(AIOKafka)
