import {describe, expect, it} from 'vitest'
import {type Correction, owedInDoubt, ridersOf} from '../../src/lib/limiter/queue/riders.js'
import type {BucketRecord} from '../../src/lib/schema/bucket-record.js'
import {milli} from '../helpers/limiter.js'

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

const correction = (amounts: Record<string, number>, more: Partial<Correction> = {}): Correction => ({
  amounts: milli(amounts),
  requests: 0,
  isBypassed: false,
  incarnation: 'this one',
  periods: new Map(),
  resolve: () => {},
  reject: () => {},
  ...more,
})

describe('corrections that may share a write with requests', () => {
  it('are added up, charges apart from returns', () => {
    const riders = ridersOf([correction({rpm: 5, tpm: -3}), correction({rpm: -2}, {requests: -1})], record, 'seen', 0)
    expect(riders?.charges).toEqual(milli({rpm: 5}))
    expect(riders?.returns?.amounts).toEqual(milli({rpm: 2, tpm: 3}))
    expect(riders?.returns?.target.incarnation).toBe('this one')
    expect(riders?.requests).toBe(-1)
  })

  it('demand nothing of the bucket where nothing is returned: charges are owed to any', () => {
    const riders = ridersOf([correction({rpm: 5}, {incarnation: 'another one'})], record, 'seen', 0)
    expect(riders).toEqual({charges: milli({rpm: 5}), returns: undefined, requests: 0})
  })

  it.each([
    ['a return to another bucket', [correction({rpm: 5}), correction({tpm: -1}, {incarnation: 'another one'})]],
    ['a request that another bucket has counted', [correction({}, {requests: -1, incarnation: 'another one'})]],
    ['what was only counted', [correction({tpm: 1}, {isBypassed: true})]],
    ['a limit that the bucket lacks', [correction({gone: 1})]],
    ['a return to a quota of what was taken from a rate', [correction({q: -1})]],
    [
      'a return to another period',
      [correction({q: -1}, {periods: new Map([['q', {definition: 'before', isSession: false}]])})],
    ],
    ['more than eight limits', NAMES.map(name => correction({[name]: -1}))],
  ])('are none with %s', (_, corrections) => {
    expect(ridersOf(corrections, record, 'seen', 0)).toBeUndefined()
  })

  it('are owed in doubt as far as they charge', () => {
    const [owed] = owedInDoubt([correction({rpm: 5, tpm: -3}, {requests: -1})])
    expect(owed).toMatchObject({amounts: milli({rpm: 5}), requests: 0})
  })
})
