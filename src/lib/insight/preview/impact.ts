import type {Limit} from '../../core/limits/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {type Window, windowEndMs} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {walkUsage} from '../usage/usage-report.js'
import {resourcesInUse} from '../usage/usage-top.js'
import {type LimitImpact, limitImpact, type RecordedWindow} from './judge-limit.js'
import {LevelLimits, type ProposedChange} from './level-limits.js'

/** In total. The newest of each resource or entity are read first. */
const MOST_WINDOWS = 100_000

export interface ImpactRange {
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
}

export interface EntityImpact extends LimitImpact {
  readonly entity: string
  readonly resource: string
  readonly limit: Limit
  readonly boostedUntilMs: number | undefined
}

export interface Impact {
  /** Most refused first, without verdict `fits`. */
  readonly found: readonly EntityImpact[]
  /** Entities with usage to which the proposed limits would apply. `others` have limits of their own. */
  readonly entities: number
  readonly others: number
  readonly windows: number
  readonly changed: readonly string[]
  /** Changed limits without recorded usage: their impact is unknown. */
  readonly unrecorded: readonly string[]
  readonly isComplete: boolean
}

interface UsedPair {
  readonly entity: string
  readonly resource: string
  /** By window start, because one record can be found by entity and by resource. */
  readonly records: Map<string, UsageRecord>
}

/** Read-only. Requests refused at the time are not in consumption records, so they do not count as refused again. */
export async function impactOf(
  namespace: NamespaceRepository,
  changes: readonly ProposedChange[],
  range: ImpactRange,
): Promise<Impact> {
  const {pairs, isComplete} = await usedPairs(namespace, changes, range)
  const levels = new LevelLimits(namespace, changes)
  await levels.loadFor([...pairs.values()])
  const concerned = [...pairs.values()].flatMap(pair => {
    const brought = levels.broughtTo(pair)
    return brought ? [{pair, ...brought}] : []
  })
  const found = concerned.flatMap(({pair: {entity, resource, records}, limits, boostedUntilMs}) =>
    limits.map(limit => {
      const windows = windowsOf([...records.values()], limit.name)
      return {entity, resource, limit, boostedUntilMs, ...limitImpact(limit, windows)}
    }),
  )
  const used = new Set<string>()
  for (const {pair} of concerned) {
    for (const {tokens} of pair.records.values()) for (const [name, count] of tokens) if (count > 0) used.add(name)
  }
  const changed = [...new Set(concerned.flatMap(({limits}) => limits.map(({name}) => name)))].sort()
  const entities = new Set(concerned.map(({pair}) => pair.entity))
  const others = new Set([...pairs.values()].flatMap(({entity}) => (entities.has(entity) ? [] : [entity])))
  return {
    found: found.filter(({verdict}) => verdict !== 'fits').sort(byWeight),
    entities: entities.size,
    others: others.size,
    windows: concerned.reduce((sum, {pair}) => sum + pair.records.size, 0),
    changed,
    unrecorded: changed.filter(name => !used.has(name)),
    isComplete,
  }
}

const ORDER = ['refused', 'possible', 'near', 'fits'] as const

function byWeight(a: EntityImpact, b: EntityImpact): number {
  const verdicts = ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict)
  return verdicts || shareOf(b) - shareOf(a) || (a.entity < b.entity ? -1 : 1)
}

const shareOf = ({peak}: EntityImpact): number => (peak ? peak.tokens / Math.max(1, peak.allowed) : 0)

function windowsOf(records: readonly UsageRecord[], limit: string): RecordedWindow[] {
  return records.map(({window, start, tokens}) => ({
    startMs: Date.parse(start),
    endMs: windowEndMs(window, start),
    tokens: tokens.get(limit) ?? 0,
  }))
}

async function usedPairs(namespace: NamespaceRepository, changes: readonly ProposedChange[], range: ImpactRange) {
  const pairs = new Map<string, UsedPair>()
  let windows = 0
  let isComplete = true
  const seen = new Set<string>()
  for (const {scope} of changes) {
    for (const subject of await subjectsOf(namespace, scope)) {
      const name = JSON.stringify(subject)
      if (seen.has(name)) continue
      seen.add(name)
      const take = (record: UsageRecord) => {
        const id = `${record.entity} ${record.resource}`
        const pair = pairs.get(id) ?? {entity: record.entity, resource: record.resource, records: new Map()}
        const {start} = record
        if (!pair.records.has(start)) windows++
        pair.records.set(start, record)
        pairs.set(id, pair)
      }
      if (windows >= MOST_WINDOWS) return {pairs, isComplete: false}
      isComplete = (await walkUsage(namespace, {...subject, ...range}, take, MOST_WINDOWS - windows)) && isComplete
    }
  }
  return {pairs, isComplete}
}

interface Subject {
  readonly entity?: string
  readonly resource?: string
}

async function subjectsOf(namespace: NamespaceRepository, scope: ConfigScope): Promise<Subject[]> {
  if (scope.level === 'resource') return [{resource: scope.resource}]
  if (scope.level === 'system') return (await resourcesInUse(namespace)).resources.map(resource => ({resource}))
  return [{entity: scope.entity, ...(scope.resource !== DEFAULT_RESOURCE && {resource: scope.resource})}]
}
