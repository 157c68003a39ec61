import {afterAll, beforeAll, describe, expect, test} from 'vitest'
import {batchGet, batchWrite} from '../../src/lib/dynamo/batch.js'
import {Aborted, Throttled, Unavailable, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import {type Key, n, s} from '../../src/lib/schema/attribute-value.js'
import {keyId} from '../../src/lib/schema/keys.js'
import {type Act, answer, localTransport, refusal, ScriptedServer} from './transports/scripted-server.js'

const server = new ScriptedServer()
let transport: ReturnType<typeof localTransport>

beforeAll(async () => {
  await server.start()
  transport = localTransport(server.endpoint)
})

afterAll(async () => {
  await transport.close()
  await server.stop()
})

type Wire = {PK: {S: string}; SK: {S: string}}

const key = (i: number): Key => ({PK: `p${i}`, SK: 'x'})
const keys = (count: number) => Array.from({length: count}, (_, i) => key(i))

function recorded() {
  const waits: number[] = []
  return {waits, backoff: {random: () => 1, sleep: async (ms: number) => void waits.push(ms), attempts: 4}}
}

const lastBody = () => server.requests.at(-1)?.body as {RequestItems: {t: never}}

/** Answers the first `count` keys and leaves the others unprocessed. */
function getSome(count: number): Act {
  return (request, response) => {
    const {Keys, ...settings} = lastBody().RequestItems.t as {Keys: Wire[]}
    const left = Keys.slice(count)
    const body = {
      Responses: {t: Keys.slice(0, count).reverse()},
      UnprocessedKeys: left.length > 0 ? {t: {Keys: left, ...settings}} : {},
    }
    answer(200, body)(request, response)
  }
}

/** Writes the first `count` items and leaves the others unprocessed. */
function writeSome(count: number): Act {
  return (request, response) => {
    const left = (lastBody().RequestItems.t as unknown[]).slice(count)
    answer(200, {UnprocessedItems: left.length > 0 ? {t: left} : {}})(request, response)
  }
}

describe('D-38 batchGet never returns a partial result', () => {
  test('retries unprocessed keys until it has them all, in the requested order', async () => {
    server.play(getSome(2), getSome(0), getSome(1), getSome(100))
    const {backoff, waits} = recorded()
    const found = await batchGet(transport, 't', keys(7), {backoff})
    expect([...found.keys()]).toEqual(keys(7).map(keyId))
    expect(found.get(keyId(key(3)))).toEqual({PK: s('p3'), SK: s('x')})
    expect(server.requests).toHaveLength(4)
    // Each try with progress restarts the backoff.
    expect(waits).toEqual([25, 50, 25])
  })

  test('throws without progress', async () => {
    server.play(getSome(3), getSome(0))
    const {backoff} = recorded()
    await expect(batchGet(transport, 't', keys(7), {backoff})).rejects.toBeInstanceOf(Throttled)
    expect(server.requests).toHaveLength(5)
  })

  test('retries after throttling and lost answers, but not after a bug', async () => {
    server.play(refusal('ThrottlingException'), refusal('InternalServerError', {}, 500), getSome(100))
    expect((await batchGet(transport, 't', keys(7), recorded())).size).toBe(7)
    server.play(refusal('ValidationException'))
    await expect(batchGet(transport, 't', keys(1), recorded())).rejects.toBeInstanceOf(ValidationFailed)
    expect(server.requests).toHaveLength(1)
  })

  test('treats an item missing from a complete response as absent', async () => {
    server.play(answer(200, {Responses: {t: [{PK: s('p1'), SK: s('x'), v: n(1)}]}, UnprocessedKeys: {}}))
    const found = await batchGet(transport, 't', keys(3), recorded())
    expect([...found]).toEqual([[keyId(key(1)), {PK: s('p1'), SK: s('x'), v: n(1)}]])
  })
})

describe('batchGet', () => {
  test('requests each key once, a hundred at a time', async () => {
    server.play(getSome(100))
    const found = await batchGet(transport, 't', [...keys(250), ...keys(250)], recorded())
    expect(found.size).toBe(250)
    const sizes = server.requests.map(({body}) => (body as {RequestItems: {t: {Keys: []}}}).RequestItems.t.Keys.length)
    expect(sizes.sort()).toEqual([100, 100, 50])
  })

  test('sends nothing without keys', async () => {
    server.play(getSome(100))
    expect((await batchGet(transport, 't', [], recorded())).size).toBe(0)
    expect(server.requests).toHaveLength(0)
  })

  test('reads the projection and the key, consistently on request', async () => {
    server.play(getSome(100))
    await batchGet(transport, 't', keys(1), {...recorded(), projection: ['b.tk', 'SK'], consistent: true})
    expect(server.body(0)).toEqual({
      RequestItems: {
        t: {
          Keys: [{PK: {S: 'p0'}, SK: {S: 'x'}}],
          ConsistentRead: true,
          ProjectionExpression: '#0, #1, #2',
          ExpressionAttributeNames: {'#0': 'PK', '#1': 'SK', '#2': 'b.tk'},
        },
      },
    })
  })
})

describe('D-38 batchWrite writes everything', () => {
  const deletions = (count: number) => keys(count).map(key => ({delete: key}))

  test('retries unprocessed items until none remain, and reports progress', async () => {
    server.play(writeSome(10), writeSome(0), writeSome(100))
    const progress: number[] = []
    const {backoff, waits} = recorded()
    await batchWrite(transport, 't', deletions(25), {backoff, onProgress: done => void progress.push(done)})
    expect(progress).toEqual([10, 10, 25])
    expect(server.requests).toHaveLength(3)
    expect(waits).toEqual([25, 50])
  })

  test('throws without progress', async () => {
    server.play(writeSome(10), writeSome(0))
    await expect(batchWrite(transport, 't', deletions(25), recorded())).rejects.toBeInstanceOf(Throttled)
    expect(server.requests).toHaveLength(5)
  })

  test('throws a lasting outage', async () => {
    server.play(refusal('InternalServerError', {}, 500))
    await expect(batchWrite(transport, 't', deletions(1), recorded())).rejects.toBeInstanceOf(Unavailable)
    expect(server.requests).toHaveLength(4)
  })

  test('writes and deletes, 25 at a time, from a source that is still being read', async () => {
    server.play(writeSome(100))
    async function* source() {
      for (const key of keys(60)) yield {delete: key}
      yield {put: {PK: s('new'), SK: s('x'), v: n(1)}}
    }
    await batchWrite(transport, 't', source(), recorded())
    const sent = server.requests.map(({body}) => (body as {RequestItems: {t: object[]}}).RequestItems.t)
    expect(sent.map(requests => requests.length).sort()).toEqual([11, 25, 25])
    expect(sent.flat()).toContainEqual({DeleteRequest: {Key: {PK: {S: 'p59'}, SK: {S: 'x'}}}})
    expect(sent.flat()).toContainEqual({PutRequest: {Item: {PK: {S: 'new'}, SK: {S: 'x'}, v: {N: '1'}}}})
  })

  test('keeps few requests in flight and reads no more of its source than it can send', async () => {
    const held: (() => void)[] = []
    let taken = 0
    function* source() {
      for (const key of keys(1_000)) {
        taken++
        yield {delete: key}
      }
    }
    server.play((request, response) => void held.push(() => answer(200, {})(request, response)))
    const writing = batchWrite(transport, 't', source(), recorded())
    await expect.poll(() => held.length).toBe(4)
    expect(taken).toBe(100)
    server.play(answer(200, {}))
    for (const release of held) release()
    await writing
    expect(taken).toBe(1_000)
  })

  test('starts nothing new after a failure', async () => {
    server.play(refusal('ValidationException'))
    await expect(batchWrite(transport, 't', deletions(1_000), recorded())).rejects.toBeInstanceOf(ValidationFailed)
    expect(server.requests.length).toBeLessThanOrEqual(4)
  })

  test('stops when the signal fires', async () => {
    const stop = new AbortController()
    server.play((request, response) => {
      stop.abort()
      answer(200, {})(request, response)
    })
    const writing = batchWrite(transport, 't', deletions(1_000), {...recorded(), signal: stop.signal})
    await expect(writing).rejects.toBeInstanceOf(Aborted)
    expect(server.requests.length).toBeLessThanOrEqual(4)
  })
})
