import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {gauge} from '../../../src/lib/core/text/gauge.js'
import {formatNumber, formatShortNumber} from '../../../src/lib/core/text/text.js'
import type {Watch} from '../../../src/lib/live/model/model.js'
import {openWatch} from '../../../src/lib/live/poll/watch.js'
import {BLOCK_GLYPHS} from '../../../src/lib/live/screen/glyphs.js'
import {type LimitLevel, viewBucket} from '../../../src/lib/repository/buckets/view.js'
import {Repository} from '../../../src/lib/repository/repository.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant, putBucket} from '../../repository/namespace-table.js'
import {OffScreenView} from './draw.js'

const WRITTEN_AT_MS = 1_800_000_000_000

const BUCKETS = [
  ['split', 'gpt-4'],
  ['debtor', 'gpt-4'],
  ['full', 'search'],
  ['tiny', 'search'],
] as const

/** Reads the figures of a row back from the screen. */
function figuresOf(screen: string, entity: string, resource: string) {
  const row = screen.split('\n').find(line => new RegExp(`^.. ${entity} +${resource} `).test(line)) ?? ''
  const [, bar = '', level = '', capacity = '', limit = ''] = / ([█▉▊▋▌▍▎▏░◂▚▸]+) +(\S+?)\/(\S+) +(\S+)/.exec(row) ?? []
  const shards = /\s(\d+)(?:±\S+)? +\S+ +\S+$/.exec(row)?.[1]
  return {bar, level, capacity, limit, shards}
}

describeOnBoth('every figure on the screen equals that of the repository at the same instant (L6)', {}, table => {
  let nowMs = WRITTEN_AT_MS
  let watch: Watch
  let shown: OffScreenView
  let repository: Repository

  beforeAll(async () => {
    repository = new Repository({stack: table.name, transport: table.transport})
    const {namespace} = await repository.namespaces.register('default')
    const tenant = {...newTenant(table), namespace: namespace.id, nowMs: WRITTEN_AT_MS}
    const limits = parseLimits(['rpm=100', 'tpm=10k'])
    await putBucket(tenant, {entity: 'split', resource: 'gpt-4', limits, shardCount: 3, consumed: 30})
    await putBucket(tenant, {entity: 'debtor', resource: 'gpt-4', limits, consumed: 180})
    await putBucket(tenant, {entity: 'full', resource: 'search', limits: parseLimits(['rpm=60'])})
    await putBucket(tenant, {entity: 'tiny', resource: 'search', limits: parseLimits(['rph=7/hour']), consumed: 7})
    const clock = () => nowMs
    const view = {...tenant, clock}
    watch = openWatch({
      repository: repository.namespaceById(namespace.id),
      table: view,
      scope: {kind: 'namespace'},
      intervalMs: 60_000,
    })
    await watch.start()
    shown = new OffScreenView(watch, {sort: 'entity', reversed: false, filter: ''})
    return () => watch.stop()
  })

  const stored = async (entity: string, resource: string) => {
    const found = await (await repository.namespace('default')).buckets.find(entity, resource)
    if (!found) throw new Error('no such bucket')
    return viewBucket(found, nowMs)
  }
  const isTightest = (limits: readonly LimitLevel[], name: string) =>
    limits.every(({level, capacity}) => {
      const shown = limits.find(limit => limit.name === name)
      return shown !== undefined && shown.level / shown.capacity <= level / capacity
    })

  it.each([0, 1234, 30_000, 3_600_000])('in the overview, %d ms later', async laterMs => {
    nowMs = WRITTEN_AT_MS + laterMs
    const screen = shown.screen
    for (const [entity, resource] of BUCKETS) {
      const figures = figuresOf(screen, entity, resource)
      const {limits, shardCount} = await stored(entity, resource)
      const limit = limits.find(({name}) => name === figures.limit)
      if (!limit) throw new Error(`${entity} shows no limit:\n${screen}`)
      expect(isTightest(limits, limit.name)).toBe(true)
      expect(figures).toEqual({
        bar: gauge(limit.level, limit.capacity, figures.bar.length, BLOCK_GLYPHS),
        level: formatShortNumber(limit.level, 'down'),
        capacity: formatShortNumber(limit.capacity),
        limit: limit.name,
        shards: String(shardCount),
      })
    }
  })

  it('in the totals and per resource', async () => {
    nowMs = WRITTEN_AT_MS + 1234
    const buckets = await Promise.all(BUCKETS.map(([entity, resource]) => stored(entity, resource)))
    const debts = buckets.filter(({limits}) => limits.some(({debt}) => debt > 0)).length
    const shards = buckets.reduce((sum, {shardCount}) => sum + shardCount, 0)
    const totals = shown.screen.split('\n').at(-2)
    expect(totals).toMatch(new RegExp(`^4 buckets .* ◂ ${debts} in debt · ${shards} shards$`))
    shown.press('', {tab: true})
    const screen = shown.screen
    shown.press('', {escape: true})
    for (const resource of ['gpt-4', 'search']) {
      const row = screen.split('\n').find(line => line.includes(` ${resource} `)) ?? ''
      const [, level, capacity, limit] = /(\S+)\/(\S+) +(\S+) /.exec(row) ?? []
      const own = buckets.filter(bucket => bucket.resource === resource).flatMap(({limits}) => limits)
      const sum = (field: 'level' | 'capacity') =>
        own.reduce((total, each) => total + (each.name === limit ? each[field] : 0), 0)
      expect([level, capacity]).toEqual([formatShortNumber(sum('level'), 'down'), formatShortNumber(sum('capacity'))])
    }
  })

  it('in the detail, shard by shard', async () => {
    nowMs = WRITTEN_AT_MS + 7777
    shown.press('G', {})
    shown.press('k', {})
    shown.press('', {return: true})
    const screen = shown.screen
    const {limits, shards} = await stored('split', 'gpt-4')
    for (const {name, level, capacity} of limits) {
      expect(screen).toMatch(new RegExp(`  ${name} .* ${formatNumber(level, 'down')} of ${formatNumber(capacity)}  `))
    }
    for (const {shard, limits: own} of shards) {
      const line = screen.split('\n').find(each => each.startsWith(`    ${shard} `))
      for (const {name, level, capacity} of own) {
        const bar = gauge(level, capacity, 10, BLOCK_GLYPHS)
        expect(line).toContain(`${name} ${bar} ${formatShortNumber(level, 'down')}/${formatShortNumber(capacity)} `)
      }
    }
  })
})
