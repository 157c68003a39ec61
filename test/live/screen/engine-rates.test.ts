import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {formatShortNumber, formatShortPercent} from '../../../src/lib/core/text/text.js'
import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import {openWatch} from '../../../src/lib/live/poll/watch.js'
import type {ShardedBucket} from '../../../src/lib/repository/buckets/buckets.js'
import {type BucketLevels, viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {writeUnitsOf} from '../../../src/lib/schema/item-size.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket, totalOf} from '../../repository/namespace-table.js'
import {OffScreenView} from './draw.js'

const ELAPSED_MS = 2000
/** Enough to be visible: 60 in two seconds are 3 % of the writes that an item allows. */
const WRITES = 60

async function allBuckets(names: NamespaceRepository): Promise<ShardedBucket[]> {
  const buckets: ShardedBucket[] = []
  for await (const bucket of names.buckets.ofNamespace()) buckets.push(bucket)
  return buckets
}

/** A row of the screen, read back. */
function rowOf(screen: string, {entity, resource}: BucketLevels) {
  const line = screen.split('\n').find(each => new RegExp(`^.. ${entity} +${resource} `).test(each)) ?? ''
  const [, mark, limit = '', used, writes] =
    /^.(.) .*?\S\/\S+ +(\S+) +(\S+) +\S+ [▁▂▃▄▅▆▇█·]+ +\S+ +(?:▲ )?(\S+) +\S+$/.exec(line) ?? []
  return {mark, limit, used, writes}
}

describeOnBoth(
  'figures derived from two readings equal those of the repository at the two instants (L6)',
  {},
  table => {
    let nowMs = 1_800_000_000_000
    let before: ShardedBucket[]
    let after: ShardedBucket[]
    let screenAt: (atMs: number) => string
    let press: OffScreenView['press']

    beforeAll(async () => {
      const tenant = newTenant(table)
      const clock = () => nowMs
      const {transport} = table
      const names = new Repository({stack: table.name, transport, clock}).namespaceById(tenant.namespace)
      await names.setLimits({level: 'system'}, parseLimits(['rpm=600/min', 'tpm=60k/min']))
      await names.entities.create({id: 'team'})
      await names.entities.create({id: 'ada', parent: 'team', cascade: true})
      const limits = parseLimits(['rpm=60'])
      await putBucket(tenant, {entity: 'hot', resource: 'search', limits, shardCount: 4, consumed: 14})
      const shared = parseLimits(['rpm=600/min', 'tpm=60k/min'])
      await putBucket(tenant, {entity: 'one-sided', resource: 'gpt-4', limits: shared, shardCount: 2})
      await putBucket(tenant, {entity: 'dry', resource: 'search', limits, consumed: 60})
      // Always uses the first shard, so that the shards differ.
      const random = () => 0
      const limiter = new RateLimiter({stack: table.name, namespaceId: tenant.namespace, transport, clock, random})
      const use = (entity: string, tpm: number) => limiter.acquire({entity, resource: 'gpt-4', consume: {rpm: 1, tpm}})
      await use('ada', 100)
      const lease = await use('ben', 20_000)
      const watch = openWatch({
        repository: names,
        table: {...tenant, clock},
        scope: {kind: 'namespace'},
        intervalMs: 3_600_000,
      })
      await watch.start()
      before = await allBuckets(names)

      nowMs += ELAPSED_MS
      for (const _ of Array(WRITES)) await use('ada', 700)
      for (const _ of Array(WRITES / 2)) await use('one-sided', 10)
      await lease.adjust({tpm: -3000})
      await new Promise<void>(resolve => {
        watch.subscribe(() => resolve())
        watch.pollNow()
      })
      after = await allBuckets(names)

      const view = new OffScreenView(watch, {sort: 'entity', reversed: false, filter: ''})
      press = (input, key) => view.press(input, key)
      screenAt = atMs => {
        nowMs = atMs
        return view.screen
      }
      return async () => {
        await watch.stop()
        await limiter.close()
      }
    })

    const previously = ({entity, resource}: {entity: string; resource: string}) =>
      before.find(each => each.entity === entity && each.resource === resource)
    const rateOf = (bucket: ShardedBucket, limit: string) => {
      const [was = 0, is = 0] = [previously(bucket), bucket].map(each => totalOf(each, limit, 'consumedMilli'))
      return ((is - was) / ELAPSED_MS) * 1000
    }
    /** Of every shard: write units per second of 1,000. */
    const pressuresOf = (bucket: ShardedBucket) => {
      const writes = (each: ShardedBucket | undefined) => (each ? viewBucket(each, nowMs).shards : [])
      const was = new Map(writes(previously(bucket)).map(({shard, writes: count}) => [shard, count]))
      return bucket.shards.map((stored, at) => {
        const view = writes(bucket)[at]
        if (stored.kind === 'ghost' || !view) return 0
        return ((view.writes - (was.get(view.shard) ?? 0)) * writeUnitsOf(stored.record)) / ELAPSED_MS
      })
    }

    it('rates and write pressure of every row', () => {
      const screen = screenAt(nowMs)
      const shown = after.map(bucket => ({bucket, row: rowOf(screen, viewBucket(bucket, nowMs))}))
      for (const {bucket, row} of shown) {
        expect({entity: bucket.entity, ...row}).toMatchObject({
          entity: bucket.entity,
          used: formatShortNumber(rateOf(bucket, row.limit)),
          writes: formatShortPercent(Math.max(...pressuresOf(bucket))),
        })
      }
      // Not all zeros: 700 × 60 in two seconds, a refund, and 60 writes.
      const figures = Object.fromEntries(
        shown.map(({bucket, row}) => [bucket.entity, [row.limit, row.used, row.writes]]),
      )
      expect(figures).toEqual({
        ada: ['tpm', '21k', '3%'],
        ben: ['tpm', '-1.5k', '<1%'],
        dry: ['rpm', '0', '0%'],
        hot: ['rpm', '0', '0%'],
        'one-sided': ['rpm', '15', '1%'],
        team: ['tpm', '21k', '3%'],
      })
    })

    it('write pressure of every shard in the drill-in', () => {
      const shown = after.map(bucket => {
        const {entity} = bucket
        press(`/entity:${entity}\r`, {})
        press('', {return: true})
        const screen = screenAt(nowMs)
        press('', {escape: true})
        press('', {escape: true})
        expect(screen).toContain(`${entity} · ${bucket.resource}  `)
        const writes = [...screen.matchAll(/^ +\d+ .* {2}writes (\S+)$/gm)].map(([, part]) => part)
        expect({entity, writes}).toEqual({entity, writes: pressuresOf(bucket).map(formatShortPercent)})
        return [entity, writes] as const
      })
      expect(Object.fromEntries(shown)).toMatchObject({ada: ['3%'], 'one-sided': ['1%', '0%']})
    })

    it('total consumption, in which a request that is also charged to a parent counts once', () => {
      const own = after.filter(bucket => !viewBucket(bucket, nowMs).cascade)
      const together = ['rpm', 'tpm'].map(limit => {
        return `${limit} ${formatShortNumber(own.reduce((sum, bucket) => sum + rateOf(bucket, limit), 0))}/s`
      })
      expect(together).toEqual(['rpm 45/s', 'tpm 19.7k/s'])
      expect(screenAt(nowMs)).toContain(` used ${together.join(' · used ')} `)
    })

    it.each([0, 900, 5000, 50_000, 600_000])('which buckets are over or near, %d ms later', laterMs => {
      const atMs = 1_800_000_000_000 + ELAPSED_MS + laterMs
      const statuses = after.map(bucket => {
        const {shards, limits} = viewBucket(bucket, atMs)
        const isOver = limits.some(({name}) => {
          const held = shards.flatMap(shard => shard.limits.filter(limit => limit.name === name))
          return held.reduce((sum, {level}) => sum + Math.max(0, level), 0) < 1
        })
        const isNear = limits.some(({name, level, capacity, refillPerSecond}) => {
          const perSecond = rateOf(bucket, name) - refillPerSecond
          return level < capacity / 5 || (perSecond > 0 && level / perSecond <= 60)
        })
        return isOver ? '✖' : isNear ? '▲' : '●'
      })
      const screen = screenAt(atMs)
      expect(after.map(bucket => rowOf(screen, viewBucket(bucket, atMs)).mark)).toEqual(statuses)
      const count = (mark: string) => statuses.filter(each => each === mark).length
      expect(screen).toContain(`6 buckets · ✖ ${count('✖')} over · ▲ ${count('▲')} near · `)
    })
  },
)
