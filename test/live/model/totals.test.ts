import fc from 'fast-check'
import {describe, expect, it} from 'vitest'
import {NO_REQUESTS, refusedPerSecond} from '../../../src/lib/live/model/request-counts.js'
import {rowAt} from '../../../src/lib/live/model/status.js'
import {resourcesAt, totalsAt} from '../../../src/lib/live/model/totals.js'
import {viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {runs} from '../../helpers/runs.js'
import {anyInstant, anyReadings, bucketOf, READ_AT_MS, readingOf} from '../support.js'

const sum = (numbers: Iterable<number>): number => [...numbers].reduce((total, each) => total + each, 0)

describe('totals', () => {
  it('L6 equal the sums of the rows', () => {
    fc.assert(
      fc.property(anyReadings, anyInstant, (readings, nowMs) => {
        const live = readings.filter(({isGone}) => !isGone)
        const rows = live.map(reading => rowAt(reading, nowMs))
        const {ratePerSecond, worst, oldestAgeMs, ...totals} = totalsAt(readings, nowMs)
        expect(totals).toEqual({
          buckets: rows.length,
          over: rows.filter(({status}) => status === 'over').length,
          near: rows.filter(({status}) => status === 'near').length,
          overdrawn: rows.filter(({status}) => status === 'overdrawn').length,
          disabled: rows.filter(({status}) => status === 'disabled').length,
          inDebt: rows.filter(({view}) => view.limits.some(({debt}) => debt > 0)).length,
          shards: sum(rows.map(({shardCount}) => shardCount)),
          refusedPerSecond: sum(rows.map(({requests}) => refusedPerSecond(requests) ?? 0)),
        })
        for (const name of ['rpm', 'tpm', 'rps']) {
          const rates = live.flatMap(reading => reading.ratePerSecond.get(name) ?? [])
          expect(ratePerSecond.get(name) ?? 0).toBe(sum(rates))
        }
      }),
      {numRuns: runs(100)},
    )
  })
})

describe('refused requests in the totals', () => {
  it('count once where the parent has counted them too, and with the child where the parent is not watched', () => {
    const of = (id: string, own: number, byParent: number, chargedTo?: string) =>
      readingOf(bucketOf(id, {limits: {}}), {
        requests: {...NO_REQUESTS, refusedPerSecond: {own, byParent}},
        chargedTo,
      })
    const readings = [of('team#r', 7, 0), of('a#r', 1, 3, 'team#r'), of('b#r', 0, 4, 'team#r'), of('c#r', 0, 2, 'x#r')]
    const byId = new Map(readings.map(reading => [reading.id, reading]))
    expect(totalsAt(readings, READ_AT_MS, id => byId.get(id)).refusedPerSecond).toBe(7 + 1 + 2)
    expect(resourcesAt(readings, READ_AT_MS, id => byId.get(id))[0]?.refusedPerSecond).toBe(10)
    const refusedByOrg = readingOf(bucketOf('d#r', {limits: {}}), {
      requests: {...NO_REQUESTS, refusedPerSecond: {own: 0, byParent: 5}, accounts: new Map([['org#models', 5]])},
    })
    const org = of('org#models', 5, 0)
    const found = (id: string) => (id === org.id ? org : undefined)
    expect(totalsAt([refusedByOrg, org], READ_AT_MS, found).refusedPerSecond).toBe(5)
    expect(resourcesAt([refusedByOrg, org], READ_AT_MS, found).map(row => row.refusedPerSecond)).toEqual([5, 5])
    const children = readings.slice(1)
    expect(totalsAt(children, READ_AT_MS).refusedPerSecond).toBe(1 + 3 + 4 + 2)
  })
})

describe('resources', () => {
  it('L6 add up the limits of their buckets as the repository computes them', () => {
    fc.assert(
      fc.property(anyReadings, anyInstant, (readings, nowMs) => {
        const live = readings.filter(({isGone}) => !isGone)
        const rows = resourcesAt(readings, nowMs)
        expect(rows.map(({resource}) => resource)).toEqual(
          [...new Set(live.map(({bucket}) => bucket.resource))].toSorted(),
        )
        for (const {resource, entities, limits, over, near} of rows) {
          const own = live.filter(({bucket}) => bucket.resource === resource)
          expect(entities).toBe(own.length)
          const statuses = own.map(reading => rowAt(reading, nowMs).status)
          expect(over).toBe(statuses.filter(status => status === 'over').length)
          expect(near).toBe(statuses.filter(status => status === 'near').length)
          const views = own.flatMap(({bucket}) => viewBucket(bucket, nowMs).limits)
          expect(limits.map(({name}) => name)).toEqual([...new Set(views.map(({name}) => name))].toSorted())
          for (const limit of limits) {
            const same = views.filter(({name}) => name === limit.name)
            expect(limit.level).toBeCloseTo(sum(same.map(({level}) => level)), 5)
            expect(limit.capacity).toBeCloseTo(sum(same.map(({capacity}) => capacity)), 5)
            expect(limit.debt).toBeCloseTo(sum(same.map(({debt}) => debt)), 5)
            expect(limit.refillPerSecond).toBeCloseTo(sum(same.map(({refillPerSecond}) => refillPerSecond)), 3)
          }
        }
      }),
    )
  })

  it('list the largest consumers of the most consumed limit, and no idle ones', () => {
    const reading = (entity: string, rpm: number, tpm: number) =>
      readingOf(bucketOf(`${entity}#gpt-4`, {limits: {rpm: {capacity: 10}, tpm: {capacity: 10}}}), {
        ratePerSecond: new Map([
          ['rpm', rpm],
          ['tpm', tpm],
        ]),
      })
    const readings = [
      reading('a', 9, 10),
      reading('b', 1, 30),
      reading('c', 0, 0),
      reading('d', 1, -5),
      reading('e', 1, 20),
    ]
    expect(resourcesAt([...readings, reading('f', 1, 1)], READ_AT_MS)[0]?.top).toEqual([
      {entity: 'b', ratePerSecond: 30, limit: 'tpm'},
      {entity: 'e', ratePerSecond: 20, limit: 'tpm'},
      {entity: 'a', ratePerSecond: 10, limit: 'tpm'},
    ])
    expect(resourcesAt([reading('c', 0, 0)], READ_AT_MS)[0]?.top).toEqual([])
  })
})
