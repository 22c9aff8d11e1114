// The driver of Node's clients: takes the commands of ../README.md and gives them
// to a client module, which is an object with
//   create(topic, partitions, configs)  configs: [[name, value]]
//   partitions(topic)                   resolves to their number
//   remove(topic), grow(topic, partitions), deleteGroup(group)
//   trim(topic, partition, offset)      resolves to the new log start
//   reset(group, topic, partition, position)
//   producer({codec, acks, idempotent, batch})
//       resolves to { send(topic, messages), close() }; messages: [{key, value,
//       partition, timestamp}]; send resolves when all are acknowledged
//   transact(topic, id, messages)
//   assign(topic, position, report)     resolves to { leave() }
//   join({group, topic, assignor, instance, fromBeginning, session}, report)
//       resolves to { commit(), leave() }
// A position is {form, value}. What a consumer sees it tells its report:
// got(partition, offset, key, value), hold(partitions), release(partitions).
'use strict'
const readline = require('node:readline')
const { createRequire } = require('node:module')
const { parseArgs } = require('node:util')

const limitMs = 30000

// need loads packages of a unit from the suite's cache: nothing is installed
// beside this file.
const need = unit => createRequire(process.env.COMPAT_CACHE + '/' + unit + '/')

const brokers = parseArgs({ options: { brokers: { type: 'string' } } }).values.brokers.split(',')

const line = text => process.stdout.write(text + '\n')
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

const key = n => 'k' + String(n).padStart(6, '0')
function value (n, size) {
  const head = 'v' + String(n).padStart(6, '0') + '-'
  return head + 'x'.repeat(size ? size - head.length : 200)
}

function got (partition, offset, k, v) {
  const n = Number(String(k).slice(1))
  const ours = String(k) === key(n) && String(v) === value(n)
  line(`got ${partition} ${offset} ${ours ? n : '?' + String(v).slice(0, 20)}`)
}

// newReport keeps the partitions that a consumer holds and tells their changes.
function newReport () {
  const held = new Set()
  const change = f => partitions => {
    const before = held.size
    partitions.forEach(f)
    if (held.size !== before) line(('assigned ' + [...held].sort((a, b) => a - b).join(',')).trim())
  }
  return { got, held, hold: change(p => held.add(p)), release: change(p => held.delete(p)) }
}

// codeOf finds the number of the Kafka error in what a client throws, or "-".
// Numbers below zero are the client's own: that of an unknown topic librdkafka gives
// when the metadata come while it takes the record.
const localUnknownTopic = -188
function codeOf (e) {
  if (!e || typeof e !== 'object') return '-'
  for (const code of [e.code, e.errorCode]) {
    if (Number.isInteger(code) && code > 0) return String(code)
    if (code === localUnknownTopic) return '3'
  }
  const inner = [e.cause, e.originalError, e.error, ...(e.errors || []), ...(e.groups || []), ...(e.partitions || [])]
  return inner.map(codeOf).find(code => code !== '-') || '-'
}

// alreadyExists is the error that a client reports by the answer false.
const alreadyExists = () => Object.assign(new Error('not created: it exists'), { code: 36 })

function parse (text) {
  const [verb, ...pairs] = text.split(' ')
  return [verb, Object.fromEntries(pairs.map(p => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)]))]
}

function parsePosition (text) {
  const [form, n] = text.split(':')
  return { form, value: Number(n) }
}

function messages (a, partition) {
  return Array.from({ length: Number(a.count) }, (_, i) => {
    const n = Number(a.first) + i
    const m = { key: key(n), value: value(n, Number(a.size)), partition }
    if (a.timestamp) m.timestamp = a.timestamp
    return m
  })
}

// startStream sends one record after the other, about every ten milliseconds.
function startStream (producer, topic) {
  let stopped = false
  const ended = (async () => {
    let n = 0
    for (; !stopped; n++) {
      await producer.send(topic, [{ key: key(n), value: value(n) }])
      line('acked ' + n)
      await sleep(10)
    }
    return n
  })()
  ended.catch(() => {}) // stop tells of it
  return () => { stopped = true; return ended }
}

// Codes of a commit by a member that has to join first, again perhaps:
// ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS.
const notInGroup = ['22', '25', '27']

// commit repeats until the member is in the group.
async function commit (consumer) {
  for (const end = Date.now() + 20000; ;) {
    try {
      return await consumer.commit()
    } catch (e) {
      if (!notInGroup.includes(codeOf(e)) || Date.now() > end) throw e
    }
    await sleep(100)
  }
}

function commands (client) {
  let producer, consumer, stopStream
  const open = async settings => { producer = await client.producer({ codec: 'none', acks: 'all', ...settings }) }
  return {
    create: a => client.create(a.topic, Number(a.partitions), (a.configs || '').split(',').filter(Boolean).map(c => c.split(':'))),
    partitions: async a => 'count=' + await client.partitions(a.topic),
    delete: a => client.remove(a.topic),
    grow: a => client.grow(a.topic, Number(a.partitions)),
    trim: async a => 'low=' + await client.trim(a.topic, Number(a.partition), a.offset),
    'delete-group': a => client.deleteGroup(a.group),
    reset: a => client.reset(a.group, a.topic, Number(a.partition), parsePosition(a.to)),
    producer: a => open({ ...a, idempotent: a.idempotent === 'yes', batch: Number(a.batch || 0) }),
    send: a => producer.send(a.topic, messages(a, 0)),
    async stream (a) {
      await open({ idempotent: true })
      stopStream = startStream(producer, a.topic)
    },
    stop: async () => 'sent=' + await stopStream(),
    'close-producer': () => producer.close(),
    transact: a => client.transact(a.topic, a.id, messages(a, 0)),
    async assign (a) { consumer = await client.assign(a.topic, parsePosition(a.from), newReport()) },
    async join (a) {
      consumer = await client.join({
        group: a.group, topic: a.topic, assignor: a.assignor, instance: a.static,
        fromBeginning: a.reset !== 'end', session: Number(a.session || 6000),
      }, newReport())
    },
    commit: () => commit(consumer),
    leave: () => consumer.leave(),
  }
}

function within (ms, promise) {
  let timer
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`not within ${ms} ms`)), ms) })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function answer (table, text) {
  const [verb, a] = parse(text)
  try {
    if (!table[verb]) throw new Error('unknown command ' + verb)
    const result = await within(limitMs, table[verb](a))
    return typeof result === 'string' ? 'ok ' + result : 'ok'
  } catch (e) {
    console.error(e)
    return `error ${codeOf(e)} ${String(e && e.message).replaceAll('\n', ' ')}`
  }
}

async function main (client) {
  const table = commands(client)
  for await (const text of readline.createInterface({ input: process.stdin })) line(await answer(table, text))
  process.kill(process.pid, 'SIGKILL') // without leaving groups
}

module.exports = { alreadyExists, brokers, need, main }
