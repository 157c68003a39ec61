import {describe, expect, it} from 'vitest'
import {batchSettlements, dueInDoubt, type Settlement} from '../../../src/lib/limiter/queue/settlements.js'
import type {BucketRecord} from '../../../src/lib/schema/bucket-record.js'
import {milli} from '../../helpers/limiter.js'

const NAMES = Array.from({length: 9}, (_, at) => `limit${at}`)

const record = {
  incarnation: 'this one',
  shardCount: 1,
  validUntilMs: undefined,
  state: {
    refilledAtMs: 0,
    limits: new Map([...NAMES, 'rpm', 'tpm'].map(name => [name, {}])).set('q', {kind: {quota: {}}}),
  },
} as unknown as BucketRecord

const settlement = (amounts: Record<string, number>, more: Partial<Settlement> = {}): Settlement => ({
  amounts: milli(amounts),
  requests: 0,
  isBypassed: false,
  incarnation: 'this one',
  periods: new Map(),
  resolve: () => {},
  reject: () => {},
  ...more,
})

describe('settlements batched with requests', () => {
  it('adds up charges and refunds separately', () => {
    const batched = batchSettlements(
      [settlement({rpm: 5, tpm: -3}), settlement({rpm: -2}, {requests: -1})],
      record,
      'seen',
      0,
    )
    expect(batched?.charges).toEqual(milli({rpm: 5}))
    expect(batched?.returns?.amounts).toEqual(milli({rpm: 2, tpm: 3}))
    expect(batched?.returns?.target.incarnation).toBe('this one')
    expect(batched?.requests).toBe(-1)
  })

  it('batches charges of any incarnation', () => {
    const batched = batchSettlements([settlement({rpm: 5}, {incarnation: 'another one'})], record, 'seen', 0)
    expect(batched).toEqual({charges: milli({rpm: 5}), returns: undefined, requests: 0})
  })

  it.each([
    ['a refund to another incarnation', [settlement({rpm: 5}), settlement({tpm: -1}, {incarnation: 'another one'})]],
    ['a request counted by another incarnation', [settlement({}, {requests: -1, incarnation: 'another one'})]],
    ['a bypassed charge', [settlement({tpm: 1}, {isBypassed: true})]],
    ['a limit that the bucket lacks', [settlement({gone: 1})]],
    ['a refund to a quota of tokens taken from a rate', [settlement({q: -1})]],
    [
      'a refund to another quota period',
      [settlement({q: -1}, {periods: new Map([['q', {definition: 'before', isSession: false}]])})],
    ],
    ['more than eight limits', NAMES.map(name => settlement({[name]: -1}))],
  ])('does not batch %s', (_, settlements) => {
    expect(batchSettlements(settlements, record, 'seen', 0)).toBeUndefined()
  })

  it('repeats only charges after an uncertain write', () => {
    const [due] = dueInDoubt([settlement({rpm: 5, tpm: -3}, {requests: -1})])
    expect(due).toMatchObject({amounts: milli({rpm: 5}), requests: 0})
  })
})
