// @confluentinc/kafka-javascript by its promise interface, which is kafkajs' with
// librdkafka below it. What that lacks (more partitions, a consumer without a
// group) the package's callback interface has.
'use strict'
const { promisify } = require('node:util')
const { alreadyExists, brokers, need, main } = require('./driver.js')
const { AdminClient, KafkaConsumer, KafkaJS, CODES } = need('confluent-js')('@confluentinc/kafka-javascript')
const { Kafka, logLevel } = KafkaJS

// The client's own logger writes to standard output.
const logger = { namespace: () => logger, setLogLevel () {}, debug () {}, info () {}, warn: m => console.error(m), error: m => console.error(m) }
const kafka = new Kafka({ kafkaJS: { clientId: 'compat', brokers, logLevel: logLevel.ERROR, logger } })
const rdkafka = { 'bootstrap.servers': brokers.join(',') }
const timeout = 30000

async function withAdmin (f) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await f(admin) } finally { await admin.disconnect() }
}

async function grow (topic, count) {
  const admin = AdminClient.create(rdkafka)
  try { await promisify(admin.createPartitions.bind(admin))(topic, count, timeout) } finally { admin.disconnect() }
}

// offsetAt finds the offset of a position that is not relative to a group.
async function offsetAt (admin, topic, partition, { form, value }) {
  const ofPartition = all => all.find(o => o.partition === partition)
  switch (form) {
    case 'offset': return value
    case 'start': return Number(ofPartition(await admin.fetchTopicOffsets(topic)).low)
    case 'end': return Number(ofPartition(await admin.fetchTopicOffsets(topic)).high)
    case 'timestamp': return Number(ofPartition(await admin.fetchTopicOffsetsByTimestamp(topic, value)).offset)
  }
  throw new Error('unknown position ' + form)
}

// reset: the client sets a group's offset by the commit of a consumer that has
// not joined it.
async function reset (groupId, topic, partition, position) {
  const offset = await withAdmin(async admin => {
    if (position.form !== 'shift') return offsetAt(admin, topic, partition, position)
    const [committed] = await admin.fetchOffsets({ groupId, topics: [{ topic, partitions: [partition] }] })
    return Number(committed.partitions[0].offset) + position.value
  })
  const consumer = kafka.consumer({ kafkaJS: { groupId, autoCommit: false } })
  await consumer.connect()
  try {
    await consumer.commitOffsets([{ topic, partition, offset: String(offset) }])
  } finally { await consumer.disconnect() }
}

async function producer ({ codec, acks, idempotent, batch }) {
  const settings = { 'linger.ms': 2 }
  if (batch) settings['batch.num.messages'] = batch
  const p = kafka.producer({ kafkaJS: { acks: { 0: 0, 1: 1, all: -1 }[acks], compression: codec, idempotent }, ...settings })
  await p.connect()
  return { send: (topic, messages) => p.send({ topic, messages }), close: () => p.disconnect() }
}

async function transact (topic, transactionalId, messages) {
  const p = kafka.producer({ kafkaJS: { transactionalId, transactionTimeout: 20000 } })
  await p.connect()
  const t = await p.transaction()
  await t.send({ topic, messages })
  await t.commit()
  await p.disconnect()
}

async function assign (topic, position, report) {
  const offset = await withAdmin(admin => offsetAt(admin, topic, 0, position))
  const consumer = new KafkaConsumer({ ...rdkafka, 'group.id': 'compat-reader', 'enable.auto.commit': false, 'fetch.wait.max.ms': 200 }, {})
  consumer.on('data', m => report.got(m.partition, m.offset, m.key, m.value))
  consumer.on('event.error', e => console.error(e))
  await promisify(consumer.connect.bind(consumer))({ timeout })
  consumer.assign([{ topic, partition: 0, offset }])
  consumer.consume()
  return { leave: () => new Promise((resolve, reject) => consumer.disconnect(e => e ? reject(e) : resolve())) }
}

async function join ({ group, topic, assignor, instance, fromBeginning, session }, report) {
  const next = new Map() // offset to commit by partition
  const settings = {
    rebalance_cb (e, partitions) {
      const numbers = partitions.map(p => p.partition)
      numbers.forEach(p => next.delete(p)) // a member goes on at what is committed
      if (e.code === CODES.ERRORS.ERR__ASSIGN_PARTITIONS) report.hold(numbers)
      else report.release(numbers)
    },
  }
  if (instance) settings['group.instance.id'] = instance
  const kafkaJS = {
    groupId: group, fromBeginning, autoCommit: false, sessionTimeout: session, heartbeatInterval: 500, maxWaitTimeInMs: 200, metadataMaxAge: 1000,
  }
  if (assignor !== 'default') kafkaJS.partitionAssignors = [assignor]
  const consumer = kafka.consumer({ kafkaJS, ...settings })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic] })
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      next.set(partition, String(BigInt(message.offset) + 1n))
      report.got(partition, message.offset, message.key, message.value)
    },
  })
  const offsets = () => [...next].filter(([p]) => report.held.has(p)).map(([partition, offset]) => ({ topic, partition, offset }))
  return {
    commit: async () => { if (offsets().length) await consumer.commitOffsets(offsets()) },
    leave: () => consumer.disconnect(),
  }
}

main({
  async create (topic, numPartitions, configs) {
    const configEntries = configs.map(([name, value]) => ({ name, value }))
    const created = await withAdmin(admin => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] }))
    if (!created) throw alreadyExists()
  },
  partitions: topic => withAdmin(async admin => (await admin.fetchTopicMetadata({ topics: [topic] }))[0].partitions.length),
  remove: topic => withAdmin(admin => admin.deleteTopics({ topics: [topic] })),
  grow,
  trim: (topic, partition, offset) => withAdmin(async admin => {
    const [deleted] = await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset }] })
    return deleted.lowWatermark
  }),
  deleteGroup: group => withAdmin(admin => admin.deleteGroups([group])),
  reset,
  producer,
  transact,
  assign,
  join,
})
