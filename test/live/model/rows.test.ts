import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {NO_REQUESTS} from '../../../src/lib/live/model/request-counts.js'
import {rowAt} from '../../../src/lib/live/model/status.js'
import {viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {anyInstant, anyReading, bucketOf, READ_AT_MS, readingOf} from '../support.js'

const rates = (ratePerSecond: Record<string, number>) => ({ratePerSecond: new Map(Object.entries(ratePerSecond))})

describe('a row', () => {
  it('L6 equals the view of the repository at that instant, and has one of its limits as tightest', () => {
    fc.assert(
      fc.property(anyReading, anyInstant, (reading, nowMs) => {
        const row = rowAt(reading, nowMs)
        const view = viewBucket(reading.bucket, nowMs)
        expect(row.view).toEqual(view)
        if (row.tightest) expect(view.limits).toContainEqual(row.tightest)
        else expect(view.limits.filter(({capacity}) => capacity > 0)).toEqual([])
      }),
    )
  })

  it('L6 is over exactly when a limit has less than one token over all shards, if no requests are known', () => {
    fc.assert(
      fc.property(anyReading, anyInstant, (any, nowMs) => {
        const reading = {...any, requests: NO_REQUESTS, typical: []}
        const {limits, shards} = viewBucket(reading.bucket, nowMs)
        const held = (name: string) =>
          shards
            .flatMap(shard => shard.limits.filter(limit => limit.name === name))
            .reduce((sum, {level}) => sum + Math.round(Math.max(0, level) * 1000), 0)
        const isRefusing = limits.some(({name, capacity}) => capacity > 0 && held(name) < 1000)
        const {status} = rowAt(reading, nowMs)
        expect(status).toBe(reading.isGone ? 'gone' : isRefusing ? 'over' : status === 'over' ? 'wrong' : status)
      }),
    )
  })

  it('is overdrawn and not over when only a soft limit is empty, unless another limit may refuse', () => {
    const rpm = {capacity: 100, refillPerSecond: 0.001, left: -30, soft: true} as const
    const of = (tpmLeft: number) => {
      const tpm = {capacity: 100, refillPerSecond: 0.001, left: tpmLeft}
      return rowAt(readingOf(bucketOf('a#b', {limits: {rpm, tpm}})), READ_AT_MS)
    }
    expect(of(50)).toMatchObject({status: 'overdrawn', tightest: {name: 'rpm', level: -30, debt: 30, soft: true}})
    expect(of(10)).toMatchObject({status: 'near', tightest: {name: 'tpm'}})
    expect(of(0)).toMatchObject({status: 'over', tightest: {name: 'tpm'}})
    const left = rowAt(readingOf(bucketOf('a#b', {limits: {rpm: {...rpm, left: 5}}})), READ_AT_MS)
    expect(left).toMatchObject({status: 'ok', tightest: {name: 'rpm'}})
  })

  it('is not over because one shard is in debt: a request takes from every shard', () => {
    const rpm = {capacity: 100, refillPerSecond: 0.001}
    const bucket = bucketOf('a#b', {limits: {rpm: {...rpm, left: -30}}}, {limits: {rpm: {...rpm, left: 5}}})
    expect(rowAt(readingOf(bucket), READ_AT_MS)).toMatchObject({
      status: 'near',
      tightest: {level: -25, debt: 30},
      imbalance: 0.7,
      shardCount: 2,
    })
  })

  it('is near a minute before it is empty, and not earlier', () => {
    const limits = {rpm: {capacity: 1000, refillPerSecond: 1, left: 600}}
    const status = (rate: number) => rowAt(readingOf(bucketOf('a#b', {limits}), rates({rpm: rate})), READ_AT_MS)
    expect(status(11)).toMatchObject({emptyInMs: 60_000, status: 'near'})
    expect(status(10.99)).toMatchObject({emptyInMs: expect.closeTo(60_060, 0), status: 'ok'})
  })

  it('has the worst limit as tightest: one that refuses before one with less left', () => {
    const limits = {few: {capacity: 2, left: 0.9}, many: {capacity: 1000, left: 300}}
    expect(rowAt(readingOf(bucketOf('a#b', {limits})), READ_AT_MS)).toMatchObject({
      tightest: {name: 'few'},
      status: 'over',
    })
    const draining = {rpm: {capacity: 100, left: 50}, tpm: {capacity: 1000, refillPerSecond: 1, left: 600}}
    expect(rowAt(readingOf(bucketOf('a#b', {limits: draining}), rates({tpm: 21})), READ_AT_MS)).toMatchObject({
      tightest: {name: 'tpm'},
      status: 'near',
      ratePerSecond: 21,
      emptyInMs: 30_000,
      fullInMs: null,
    })
  })

  it('has the limit in use as tightest among equally full ones', () => {
    const limits = {a: {capacity: 100}, b: {capacity: 100}, c: {capacity: 100}}
    const row = rowAt(readingOf(bucketOf('a#b', {limits}), rates({a: 0, b: 5, c: 1})), READ_AT_MS)
    expect(row).toMatchObject({tightest: {name: 'b'}, ratePerSecond: 5})
  })

  it.each([
    ['at a fifth', 20, 'ok'],
    ['below a fifth', 19.999, 'near'],
    ['with one token', 1, 'near'],
    ['with less than one', 0.999, 'over'],
    ['in debt', -1, 'over'],
  ])('%s it is %s: %s', (_, left, status) => {
    const limits = {rpm: {capacity: 100, refillPerSecond: 0.001, left}}
    expect(rowAt(readingOf(bucketOf('a#b', {limits})), READ_AT_MS).status).toBe(status)
  })

  it('estimates when it will be empty or full, and has null where that is unknown', () => {
    const at = (left: number, rate?: number) => {
      const limits = {rpm: {capacity: 100, refillPerSecond: 10, left}}
      const known = rate === undefined ? {} : rates({rpm: rate})
      const {emptyInMs, fullInMs} = rowAt(readingOf(bucketOf('a#b', {limits}), known), READ_AT_MS)
      return [emptyInMs, fullInMs]
    }
    expect(at(50, 20)).toEqual([5000, null])
    expect(at(50, 5)).toEqual([null, 10_000])
    expect(at(50, 10)).toEqual([null, null])
    expect(at(50, -10)).toEqual([null, 2500])
    expect(at(50)).toEqual([null, null])
    expect(at(100)).toEqual([null, 0])
    expect(at(-5, 20)).toEqual([0, null])
  })

  it('is computed between readings, and has its age', () => {
    const reading = readingOf(bucketOf('a#b', {limits: {rpm: {capacity: 100, refillPerSecond: 10, left: 0}}}))
    expect(rowAt(reading, READ_AT_MS + 1500)).toMatchObject({tightest: {level: 15}, ageMs: 1500, status: 'near'})
    expect(rowAt(reading, READ_AT_MS + 99_000)).toMatchObject({tightest: {level: 100}, fullInMs: 0, status: 'ok'})
  })

  it('exists without a usable limit', () => {
    expect(rowAt(readingOf(bucketOf('a#b', {limits: {}})), READ_AT_MS)).toMatchObject({
      tightest: undefined,
      status: 'ok',
      emptyInMs: null,
      fullInMs: null,
      imbalance: 0,
    })
  })
})
