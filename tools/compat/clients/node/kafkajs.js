// kafkajs.
'use strict'
const { alreadyExists, brokers, need, main } = require('./driver.js')
const load = need('kafkajs')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = load('kafkajs')

// kafkajs brings gzip and leaves the other codecs to whoever uses it.
function registerCodecs () {
  const snappy = load('snappyjs')
  const lz4 = load('lz4-napi')
  const { ZstdCodec } = load('zstd-codec')
  const magic = Buffer.from([0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0])
  CompressionCodecs[CompressionTypes.Snappy] = () => ({
    async compress (encoder) { return Buffer.from(snappy.compress(encoder.buffer)) },
    async decompress (b) {
      if (!b.subarray(0, 8).equals(magic)) return Buffer.from(snappy.uncompress(b))
      const parts = [] // the framing of snappy-java: header of 16 bytes, then blocks
      for (let i = 16; i < b.length;) {
        const n = b.readUInt32BE(i)
        parts.push(Buffer.from(snappy.uncompress(b.subarray(i + 4, i + 4 + n))))
        i += 4 + n
      }
      return Buffer.concat(parts)
    },
  })
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: encoder => lz4.compressFrame(encoder.buffer),
    decompress: b => lz4.decompressFrame(b),
  })
  const zstd = new Promise(resolve => ZstdCodec.run(z => resolve(new z.Streaming())))
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    async compress (encoder) { return Buffer.from((await zstd).compress(encoder.buffer)) },
    async decompress (b) { return Buffer.from((await zstd).decompress(b)) },
  })
}

const compressionTypes = {
  none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD,
}

const kafka = new Kafka({
  clientId: 'compat',
  brokers,
  logLevel: logLevel.ERROR,
  logCreator: () => ({ log }) => console.error(JSON.stringify(log)),
})
// For producers and consumers that shall live through restarts of the broker.
const patient = { initialRetryTime: 200, maxRetryTime: 2000, retries: 60 }

async function withAdmin (f) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await f(admin) } finally { await admin.disconnect() }
}

// offsetAt finds the offset of a position that is not relative to a group.
async function offsetAt (admin, topic, partition, { form, value }) {
  const ofPartition = all => all.find(o => o.partition === partition)
  switch (form) {
    case 'offset': return String(value)
    case 'start': return ofPartition(await admin.fetchTopicOffsets(topic)).low
    case 'end': return ofPartition(await admin.fetchTopicOffsets(topic)).high
    case 'timestamp': return ofPartition(await admin.fetchTopicOffsetsByTimestamp(topic, value)).offset
  }
  throw new Error('unknown position ' + form)
}

async function reset (groupId, topic, partition, position) {
  await withAdmin(async admin => {
    // For the end resetOffsets commits -1, after which a consumer that begins at
    // the start where nothing is committed does just that.
    if (position.form === 'start') return admin.resetOffsets({ groupId, topic, earliest: true })
    let offset
    if (position.form === 'shift') {
      const [committed] = await admin.fetchOffsets({ groupId, topics: [topic] })
      offset = String(Number(committed.partitions.find(p => p.partition === partition).offset) + position.value)
    } else {
      offset = await offsetAt(admin, topic, partition, position)
    }
    await admin.setOffsets({ groupId, topic, partitions: [{ partition, offset }] })
  })
}

// producer: each send of the client is a request, so many in flight are many
// sends that nobody waits for. The idempotent producer does not keep the order of
// sends that overlap.
async function producer ({ codec, acks, idempotent, batch }) {
  const p = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined, retry: patient })
  await p.connect()
  const settings = { acks: { 0: 0, 1: 1, all: -1 }[acks], compression: compressionTypes[codec] }
  return {
    async send (topic, messages) {
      const size = batch || messages.length
      const sends = []
      for (let i = 0; i < messages.length; i += size) {
        const sent = p.send({ topic, ...settings, messages: messages.slice(i, i + size) })
        if (idempotent) await sent
        sends.push(sent)
      }
      await Promise.all(sends)
    },
    close: () => p.disconnect(),
  }
}

async function transact (topic, transactionalId, messages) {
  const p = kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })
  await p.connect()
  const t = await p.transaction()
  await t.send({ topic, messages })
  await t.commit()
  await p.disconnect()
}

// consume joins a group; seekTo: start partition 0 there.
async function consume ({ group, topic, fromBeginning, session, seekTo }, report) {
  const consumer = kafka.consumer({
    groupId: group, sessionTimeout: session, rebalanceTimeout: 10000, heartbeatInterval: 500, maxWaitTimeInMs: 200, metadataMaxAge: 1000, retry: patient,
  })
  const next = new Map() // offset to commit by partition held
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    const held = payload.memberAssignment[topic] || []
    next.clear() // a member goes on at what is committed
    // Before the member fetches, and after consumer.run has made what seeks.
    if (seekTo !== undefined) consumer.seek({ topic, partition: 0, offset: seekTo })
    report.release([...report.held].filter(p => !held.includes(p)))
    report.hold(held)
  })
  consumer.on(consumer.events.REBALANCING, () => report.release([...report.held]))
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      next.set(partition, String(BigInt(message.offset) + 1n))
      if (seekTo !== undefined) seekTo = next.get(partition)
      report.got(partition, message.offset, message.key, message.value)
    },
  })
  return {
    commit: () => consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset }))),
    leave: () => consumer.disconnect(),
  }
}

// assign: kafkajs consumes by group only, so it is a group of one that seeks.
let readers = 0
async function assign (topic, position, report) {
  const seekTo = await withAdmin(admin => offsetAt(admin, topic, 0, position))
  return consume({ group: `${topic}-reader-${readers++}`, topic, fromBeginning: true, session: 10000, seekTo }, report)
}

registerCodecs()
main({
  async create (topic, numPartitions, configs) {
    const configEntries = configs.map(([name, value]) => ({ name, value }))
    const created = await withAdmin(admin => admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }] }))
    if (!created) throw alreadyExists()
  },
  partitions: topic => withAdmin(async admin => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length),
  remove: topic => withAdmin(admin => admin.deleteTopics({ topics: [topic] })),
  grow: (topic, count) => withAdmin(admin => admin.createPartitions({ topicPartitions: [{ topic, count }] })),
  trim: (topic, partition, offset) => withAdmin(async admin => {
    await admin.fetchTopicOffsets(topic) // deleteTopicRecords fails without metadata that the client has fetched
    await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset }] })
    return offsetAt(admin, topic, partition, { form: 'start' })
  }),
  deleteGroup: group => withAdmin(admin => admin.deleteGroups([group])),
  reset,
  producer,
  transact,
  assign,
  join: consume,
})
