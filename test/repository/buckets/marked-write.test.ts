import {afterEach, beforeEach, describe, expect, test, vi} from 'vitest'
import {Throttled, Unavailable} from '../../../src/lib/dynamo/errors.js'
import type {SendOptions, Transport} from '../../../src/lib/dynamo/transport.js'
import {sendMarked} from '../../../src/lib/repository/buckets/marked-write.js'
import type {BucketUpdate} from '../../../src/lib/repository/buckets/writes.js'
import type {Table} from '../../../src/lib/repository/table/table.js'

const update = {TableName: 't'} as BucketUpdate
const mark = {slot: 0, nonce: 'n'}

describe('the time of a write', () => {
  let nowMs = 0
  let timeouts: SendOptions['timeoutMs'][] = []
  let failures: Error[] = []

  beforeEach(() => {
    nowMs = 1000
    timeouts = []
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
  })
  afterEach(() => vi.restoreAllMocks())

  // Fails as scripted, then is always throttled; an attempt takes no time, a pause as long as it may.
  const send: Transport['send'] = async (_, __, options) => {
    timeouts.push(options?.timeoutMs)
    throw failures.shift() ?? new Throttled('UpdateItem')
  }
  const table: Table = {
    name: 't',
    transport: {send},
    clock: () => 0,
    randomBytes: count => new Uint8Array(count),
    backoff: {
      random: () => 1,
      baseMs: 25,
      sleep: async ms => {
        nowMs += ms
      },
    },
  }
  const failure = (timeoutMs?: number) =>
    sendMarked(table, update, mark, timeoutMs === undefined ? {} : {timeoutMs}).catch((error: unknown) => error)

  test('covers all attempts and pauses, and allows no attempt when none is left', async () => {
    failures = []
    const error = await failure(90)
    expect(timeouts).toEqual([90, 65, 15])
    expect(nowMs).toBe(1090)
    expect(error).toBeInstanceOf(Unavailable)
    expect(error).toMatchObject({maybeApplied: false})
  })

  test('still reports that an attempt may have arrived when it runs out', async () => {
    failures = [new Unavailable('UpdateItem', true)]
    expect(await failure(90)).toMatchObject({maybeApplied: true})
  })

  test('counts attempts when it is unbounded', async () => {
    failures = []
    expect(await failure()).toBeInstanceOf(Throttled)
    expect(timeouts).toEqual(Array.from({length: 6}, () => undefined))
  })
})
