// kafkajs. The scenarios are those of ../python/scenarios.py, with the same
// arguments and the same conversation with the runner.
'use strict'
const readline = require('node:readline')
const { parseArgs } = require('node:util')
const { createRequire } = require('node:module')
// The packages are installed in the suite's cache, not beside this file.
const need = createRequire(process.env.COMPAT_NODE_MODULES + '/')
const kafkajs = need('kafkajs')
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = kafkajs

const { values: a } = parseArgs({
  options: Object.fromEntries(['brokers', 'scenario', 'topic', 'group', 'codec', 'count', 'first', 'timestamp']
    .map(name => [name, { type: 'string', default: '' }])),
})
const count = Number(a.count)
const first = Number(a.first)
const perRound = 100

// kafkajs brings gzip and leaves the other codecs to whoever uses it.
function registerCodecs () {
  const snappy = need('snappyjs')
  const lz4 = need('lz4-napi')
  const { ZstdCodec } = need('zstd-codec')
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

const kafka = new Kafka({
  clientId: 'compat',
  brokers: a.brokers.split(','),
  logLevel: logLevel.ERROR,
  retry: { initialRetryTime: 200, maxRetryTime: 2000, retries: 60 },
})
const value = i => 'v' + String(i).padStart(6, '0') + '-' + 'x'.repeat(200)
const record = i => ({ key: 'k' + String(i).padStart(6, '0'), value: value(i) })
const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i)
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

async function until (what, seconds, holds) {
  const end = Date.now() + seconds * 1000
  while (!holds()) {
    if (Date.now() > end) throw new Error(`no ${typeof what === 'function' ? what() : what} within ${seconds} s`)
    await sleep(20)
  }
}

const input = readline.createInterface({ input: process.stdin })
async function ask (what) {
  const answer = new Promise(resolve => input.once('line', resolve))
  console.log('ask ' + what)
  const line = await answer
  if (line !== 'done') throw new Error(`the runner could not ${what}: ${line}`)
}

function expect (got, want, what) {
  for (let i = 0; i < Math.max(got.length, want.length); i++) {
    if (JSON.stringify(got[i]) !== JSON.stringify(want[i])) {
      throw new Error(`${what}: record ${i} of ${got.length} is ${JSON.stringify(got[i])}, want ${JSON.stringify(want[i])}`.slice(0, 250))
    }
  }
}

async function withAdmin (f) {
  const admin = kafka.admin()
  await admin.connect()
  try { return await f(admin) } finally { await admin.disconnect() }
}

async function produce (topic, codec, acks, idempotent) {
  const producer = kafka.producer({ idempotent, maxInFlightRequests: idempotent ? 1 : undefined })
  await producer.connect()
  const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }[codec]
  for (let i = 0; i < count; i += 100) {
    await producer.send({ topic, acks, compression, messages: range(i, Math.min(i + 100, count)).map(record) })
  }
  await producer.disconnect()
}

// A consumer with its received values and its partitions. kafkajs consumes by
// group only.
async function member (group, topic, onRunning) {
  const consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 1000, maxWaitTimeInMs: 200 })
  const m = { records: [], received: [], partitions: [], consumer }
  consumer.on(consumer.events.GROUP_JOIN, e => { m.partitions = e.payload.memberAssignment[topic] || [] })
  consumer.on(consumer.events.REBALANCING, () => { m.partitions = [] })
  await consumer.connect()
  await consumer.subscribe({ topics: [topic], fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      m.records.push({ key: message.key.toString(), value: message.value.toString() })
      m.received.push(message.value.toString())
    },
  })
  if (onRunning) onRunning(consumer)
  m.leave = () => consumer.disconnect() // commits what was processed
  return m
}

async function readFrom (topic, n, onRunning) {
  const m = await member(a.group || topic + '-reader', topic, onRunning)
  await until(() => `${n} records (have ${m.received.length})`, 40, () => m.received.length >= n)
  await m.leave()
  return m.records
}

const scenarios = {
  async create () {
    await withAdmin(async admin => {
      await admin.createTopics({ topics: [{ topic: a.topic, numPartitions: 3, replicationFactor: 1 }] })
      let n = 0
      for (let i = 0; n !== 3 && i < 50; i++, await sleep(200)) {
        n = (await admin.fetchTopicMetadata({ topics: [a.topic] })).topics[0].partitions.length
      }
      if (n !== 3) throw new Error(`metadata shows ${n} partitions`)
    })
  },
  delete: () => withAdmin(admin => admin.deleteTopics({ topics: [a.topic] })),
  async produce () {
    for (const [name, acks] of [['0', 0], ['1', 1], ['all', -1]]) await produce(a.topic + '-' + name, a.codec, acks, false)
  },
  idempotent: () => produce(a.topic, 'none', -1, true),
  async consume () {
    expect(await readFrom(a.topic, count), range(0, count).map(record), 'from the start')
  },
  async seek () {
    const found = await withAdmin(admin => admin.fetchTopicOffsetsByTimestamp(a.topic, Number(a.timestamp)))
    const got = await readFrom(a.topic, count - first, c => c.seek({ topic: a.topic, partition: 0, offset: found[0].offset }))
    expect(got, range(first, count).map(record), 'from the timestamp')
  },
  async group () {
    const want = k => range(k * perRound, (k + 1) * perRound).map(value).sort()
    const [one, two] = await Promise.all([member(a.group, a.topic), member(a.group, a.topic)])
    await until(() => `split of four partitions in two (have ${one.partitions} and ${two.partitions})`, 40,
      () => one.partitions.length === 2 && two.partitions.length === 2)
    await ask('more')
    await until('first hundred', 20, () => one.received.length + two.received.length >= perRound)
    expect([...one.received, ...two.received].sort(), want(0), 'both members')
    if (!one.received.length || !two.received.length) throw new Error('one member received everything')
    const before = one.received.length
    await two.leave()
    await until('takeover of all partitions', 40, () => one.partitions.length === 4)
    await ask('more')
    await until('second hundred', 20, () => one.received.length - before >= perRound)
    expect(one.received.slice(before).sort(), want(1), 'the member that stayed')
    await one.leave()
    const three = await member(a.group, a.topic)
    await until('assignment of a later member', 40, () => three.partitions.length === 4)
    await ask('more')
    await until('third hundred', 20, () => three.received.length >= perRound)
    expect(three.received.sort(), want(2), 'a member that resumes')
    await three.leave()
  },
  async restart () {
    const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    const tail = await member(a.topic + '-tail', a.topic)
    const acked = []
    const unexpected = []
    let sent = 0
    let stop = false
    const producing = (async () => {
      while (!stop) {
        const r = record(sent++)
        try {
          await producer.send({ topic: a.topic, acks: -1, messages: [r] })
          acked.push(r.value)
        } catch (e) { unexpected.push(e.message) }
        await sleep(10)
      }
    })()
    await until('50 records through the broker before its restart', 40, () => tail.received.length >= 50)
    await ask('restart')
    const mark = acked.length
    await until(() => `records acknowledged after the restart (${unexpected.slice(0, 1)})`, 60, () => acked.length >= mark + 50)
    stop = true
    await producing
    if (unexpected.length) throw new Error(`${unexpected.length} sends failed: ${unexpected[0]}`)
    await until('delivery of all acknowledged records', 60, () => { const s = new Set(tail.received); return acked.every(v => s.has(v)) })
    await tail.leave()
    await producer.disconnect()
  },
}

registerCodecs()
scenarios[a.scenario]().then(
  () => { console.log('ok'); process.exit(0) },
  e => { console.error(e); console.log('fail: ' + String(e.message).replaceAll('\n', ' ').slice(0, 300)); process.exit(1) })
