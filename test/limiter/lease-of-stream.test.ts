import {Readable, Writable} from 'node:stream'
import {pipeline} from 'node:stream/promises'
import {beforeEach, describe, expect, it} from 'vitest'
import type {Lease} from '../../src/lib/limiter/lease.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {failure, request} from './visit.js'

const CHUNKS = ['one', 'two', 'three']
const BROKEN = new Error('the model failed')

/** Yields all chunks, or fails after two. */
async function* chunks(lease: Lease, fails = false): AsyncGenerator<string> {
  let sent = 0
  try {
    for (const chunk of CHUNKS) {
      if (fails && sent === 2) throw BROKEN
      yield chunk
      sent++
    }
  } finally {
    // The lease is still open: the stream settles what it has sent.
    if (sent > 0) await lease.adjust({tpm: sent})
  }
}

const streamOf = (lease: Lease, fails = false) => ReadableStream.from(chunks(lease, fails))
const bytesOf = (lease: Lease, fails = false) =>
  streamOf(lease, fails).pipeThrough(new TextEncoderStream() as TransformStream<string, Uint8Array>)

const KINDS: Record<string, (lease: Lease, fails?: boolean) => AsyncIterable<unknown>> = {
  'an async generator': chunks,
  'an async iterable': (lease, fails) => ({[Symbol.asyncIterator]: () => chunks(lease, fails)}),
  'a ReadableStream': streamOf,
  'a Node stream': (lease, fails) => Readable.from(chunks(lease, fails)),
}

describeOnBoth('withLease of a stream', {}, table => {
  let scene: Scene
  let lease: Lease
  beforeEach(async () => {
    scene = new Scene(table)
    await scene.configure({level: 'resource', resource: 'gpt-4'}, 'rpm=10/day@UTC', 'tpm=1000/day@UTC')
  })
  const charged = async () => {
    const [rpm, tpm] = await Promise.all(['rpm', 'tpm'].map(name => scene.totals('user-1', 'gpt-4', name)))
    return {rpm: rpm?.consumed, tpm: tpm?.consumed}
  }
  const leased = <T>(work: (lease: Lease) => T | Promise<T>): Promise<T> =>
    scene.limiter().withLease(request({rpm: 1, tpm: 100}), each => {
      lease = each
      return work(each)
    })
  /** The end of a Node stream waits for nobody. */
  const ended = async () => {
    await expect.poll(() => lease.isEnded, {timeout: 10_000}).toBe(true)
    await lease.written()
    return lease.isEnded
  }

  describe.each(Object.entries(KINDS))('%s', (kind, make) => {
    it('keeps the lease open until the end, then commits', async () => {
      const stream = await leased(each => make(each))
      expect(lease.isEnded).toBe(false)
      const read: unknown[] = []
      for await (const chunk of stream) read.push(chunk)
      expect(read).toEqual(CHUNKS)
      if (kind !== 'a Node stream') expect(lease.isEnded).toBe(true)
      expect(await ended()).toBe(true)
      await expect(lease.commit()).rejects.toThrow('already been committed')
      expect(await charged()).toEqual({rpm: 1, tpm: 103})
    })

    it('commits if the reader stops early', async () => {
      const stream = await leased(each => make(each))
      let read = 0
      for await (const _ of stream) if (++read === 2) break
      expect(await ended()).toBe(true)
      await expect(lease.commit()).rejects.toThrow('already been committed')
      expect((await charged()).rpm).toBe(1)
    })

    it('refunds if the stream fails, and passes its error on', async () => {
      const stream = await leased(each => make(each, true))
      const reading = (async () => {
        for await (const _ of stream);
      })()
      expect(await failure(reading)).toBe(BROKEN)
      expect(await ended()).toBe(true)
      await scene.limiter().settled()
      await expect(lease.commit()).rejects.toThrow('already been rolled back')
      await expect.poll(charged).toEqual({rpm: 0, tpm: 0})
    })
  })

  it('keeps the type, methods and private state of an iterable', async () => {
    class Answer {
      readonly #text = 'done'
      readonly stream: AsyncIterable<string>
      constructor(of: Lease) {
        this.stream = chunks(of)
      }
      text() {
        return this.#text
      }
      [Symbol.asyncIterator]() {
        return this.stream[Symbol.asyncIterator]()
      }
    }
    const answer = await leased(each => new Answer(each))
    expect(answer).toBeInstanceOf(Answer)
    expect(answer.text()).toBe('done')
    for await (const _ of answer);
    expect(lease.isEnded).toBe(true)
  })

  it('ends with a Node stream that is piped, or whose reader has gone', async () => {
    const read: string[] = []
    const write = (chunk: string, _: string, done: () => void) => {
      read.push(chunk)
      done()
    }
    const sink = () => new Writable({objectMode: true, write})
    await pipeline(await leased(each => Readable.from(chunks(each))), sink())
    expect(read).toEqual(CHUNKS)
    expect(await ended()).toBe(true)
    const gone = sink()
    const piping = pipeline(await leased(each => Readable.from(chunks(each))), gone)
    gone.destroy()
    await failure(piping)
    expect(await ended()).toBe(true)
    await expect(lease.commit()).rejects.toThrow('already been committed')
  })

  it('ends with the body of a Response, and keeps everything else', async () => {
    const headers = {'content-type': 'text/event-stream', 'x-request-id': 'r1'}
    const response = await leased(each => {
      const upstream = new Response(bytesOf(each), {status: 201, statusText: 'Made', headers})
      return Object.defineProperty(upstream, 'url', {value: 'https://api.example/v1'})
    })
    expect(response).toBeInstanceOf(Response)
    expect(response).toMatchObject({status: 201, statusText: 'Made', url: 'https://api.example/v1', redirected: false})
    expect(Object.fromEntries(response.headers)).toEqual(headers)
    const clone = response.clone()
    expect(clone).toMatchObject({status: 201, url: 'https://api.example/v1'})
    expect(clone.clone().url).toBe('https://api.example/v1')
    expect(lease.isEnded).toBe(false)
    expect(await Promise.all([response.text(), clone.text()])).toEqual(['onetwothree', 'onetwothree'])
    expect(lease.isEnded).toBe(true)
    expect(await charged()).toEqual({rpm: 1, tpm: 103})
  })

  it('cancels the source at once, even while it waits for the next chunk', async () => {
    let cancelled: unknown
    const response = await leased(
      each =>
        new Response(
          new ReadableStream({
            pull: () => new Promise(() => {}),
            cancel: async reason => {
              await new Promise(resolve => setImmediate(resolve))
              await each.adjust({tpm: -40})
              cancelled = reason
            },
          }),
        ),
    )
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    const reading = reader.read()
    await reader.cancel('the client has gone')
    expect(await reading).toMatchObject({done: true})
    expect(cancelled).toBe('the client has gone')
    expect(lease.isEnded).toBe(true)
    expect(await charged()).toEqual({rpm: 1, tpm: 60})
  })

  it('reads no more than requested', async () => {
    let pulled = 0
    const pull = (controller: ReadableStreamDefaultController<Uint8Array>) =>
      controller.enqueue(new Uint8Array([++pulled]))
    const response = await leased(() => new Response(new ReadableStream({pull}, {highWaterMark: 0})))
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    expect(pulled).toBe(0)
    await reader.read()
    expect(pulled).toBe(1)
    await reader.cancel()
  })

  it.each<[string, () => Promise<unknown> | unknown]>([
    ['a Response without a body', () => new Response(null, {status: 204})],
    [
      'a Response that was read',
      async () => {
        const read = new Response('text')
        await read.text()
        return read
      },
    ],
    [
      'a locked stream',
      () => {
        const locked = new ReadableStream()
        locked.getReader()
        return locked
      },
    ],
    ['a closed Node stream', () => new Promise(resolve => resolve(Readable.from([]).destroy()))],
    ['an array', () => [1]],
    ['null', () => null],
    ['a text', () => 'done'],
  ])('commits at once for %s', async (what, make) => {
    const made = await make()
    if (what === 'a closed Node stream') await new Promise(resolve => setImmediate(resolve))
    expect(await leased(() => made)).toBe(made)
    expect(lease.isEnded).toBe(true)
  })

  it('returns the stream of a callback that ended the lease itself', async () => {
    const source = new ReadableStream()
    const result = await leased(async each => {
      await each.commit()
      return source
    })
    expect(result).toBe(source)
  })
})
