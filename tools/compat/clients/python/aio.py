"""aiokafka, a client on asyncio. Its event loop runs in a thread of its own."""

import asyncio
import threading

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

import scenarios

LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()


def call(coroutine, limit=60):
    return asyncio.run_coroutine_threadsafe(coroutine, LOOP).result(limit)


class Poller:
    def __init__(self, consumer, commits=False):
        self.consumer, self.received, self.left, self.commits = consumer, [], False, commits
        self.task = asyncio.run_coroutine_threadsafe(self.run(), LOOP)

    async def run(self):
        while not self.left:
            for batch in (await self.consumer.getmany(timeout_ms=100)).values():
                self.received += [m.value.decode() for m in batch]
                if self.commits:
                    await self.consumer.commit()

    def partitions(self):
        return set() if self.left else {p.partition for p in self.consumer.assignment()}

    def leave(self):
        self.left = True
        self.task.result(10)
        call(self.consumer.stop())

    close = leave


class Sender:
    def __init__(self, producer, topic):
        self.producer, self.topic, self.done, self.tasks = producer, topic, [], []

    def send(self, key, value):
        self.tasks.append(asyncio.run_coroutine_threadsafe(self.one(key, value), LOOP))

    async def one(self, key, value):
        await self.producer.send_and_wait(self.topic, value.encode(), key.encode())
        self.done.append(value)

    def acked(self):
        return list(self.done)

    def close(self):
        for t in self.tasks:
            t.exception(60)
        call(self.producer.stop())


class AIOKafka:
    def __init__(self, brokers):
        self.brokers = brokers

    async def with_admin(self, do):
        admin = AIOKafkaAdminClient(bootstrap_servers=self.brokers)
        await admin.start()
        try:
            return await do(admin)
        finally:
            await admin.close()

    def create(self, topic, partitions):
        call(self.with_admin(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1)])))

    def partition_count(self, topic):
        return len(call(self.with_admin(lambda admin: admin.describe_topics([topic])))[0]["partitions"])

    def delete(self, topic):
        call(self.with_admin(lambda admin: admin.delete_topics([topic])))

    def produce(self, topic, codec, acks, idempotent, records):
        async def do():
            p = AIOKafkaProducer(bootstrap_servers=self.brokers, compression_type=None if codec == "none" else codec,
                                 acks="all" if acks == "all" else int(acks), enable_idempotence=idempotent, linger_ms=5)
            await p.start()
            try:
                for f in [await p.send(topic, v.encode(), k.encode()) for k, v in records]:
                    await f
            finally:
                await p.stop()
        call(do())

    def read(self, topic, count, place):
        async def do():
            c = AIOKafkaConsumer(bootstrap_servers=self.brokers, enable_auto_commit=False)
            await c.start()
            try:
                tp = TopicPartition(topic, 0)
                c.assign([tp])
                await place(c, tp)
                got = []
                while len(got) < count:
                    batches = await c.getmany(timeout_ms=20000)
                    if not batches:
                        raise scenarios.Failure("%d of %d records within 20 s" % (len(got), count))
                    for batch in batches.values():
                        got += [(m.key.decode(), m.value.decode()) for m in batch]
                return got
            finally:
                await c.stop()
        return call(do())

    def consume(self, topic, count):
        return self.read(topic, count, lambda c, tp: c.seek_to_beginning(tp))

    def consume_from(self, topic, timestamp, count):
        async def place(c, tp):
            c.seek(tp, (await c.offsets_for_times({tp: timestamp}))[tp].offset)
        return self.read(topic, count, place)

    async def consumer(self, *topics, **config):
        c = AIOKafkaConsumer(*topics, bootstrap_servers=self.brokers, enable_auto_commit=False,
                             auto_offset_reset="earliest", **config)
        await c.start()
        return c

    def member(self, group, topic):
        # start() waits for the first assignment of a topic given there, so two
        # members would wait for each other; subscribing later does not wait.
        async def do():
            c = await self.consumer(group_id=group, session_timeout_ms=10000, heartbeat_interval_ms=1000)
            c.subscribe([topic])
            return c
        return Poller(call(do()), commits=True)

    def sender(self, topic):
        async def do():
            p = AIOKafkaProducer(bootstrap_servers=self.brokers, enable_idempotence=True, request_timeout_ms=60000)
            await p.start()
            return p
        return Sender(call(do()), topic)

    def tail(self, topic):
        async def do():
            c = await self.consumer()
            n = await c._client.fetch_all_metadata()
            parts = [TopicPartition(topic, p) for p in n.partitions_for_topic(topic)]
            c.assign(parts)
            await c.seek_to_beginning(*parts)
            return c
        return Poller(call(do()))


if __name__ == "__main__":
    scenarios.main(AIOKafka)
