import {groupBy} from '../../core/group-by.js'
import type {Window} from '../../core/window.js'
import {keyId} from '../../dynamo/batch.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {keyOf} from '../../repository/table/query.js'
import {wireKey} from '../../repository/table/table.js'
import type {TransactItem} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, type Key, n, s} from '../../schema/attribute-value.js'
import {indexKeys, keys} from '../../schema/keys.js'
import {
  decodeUsageMarks,
  encodeUsageMarks,
  MIGRATION_MARK,
  readMigrationMark,
  type UsageShare,
} from '../../schema/migration-marks.js'
import {decodeUsage, type UsageRecord} from '../../schema/usage-record.js'
import {isOldBucketExpired} from '../buckets/old-bucket.js'
import {removeMark, sendConditional} from '../records/conditional.js'
import {readItems, spelledIn} from '../records/copied-records.js'
import {
  beginningIn,
  eachOf,
  type Found,
  homeOf,
  type MigrationContext,
  type MigrationFinding,
} from '../records/finding.js'
import {type Counters, type DailyWindows, mergeUsageDay, minus, type UsageDay, type UsageTarget} from './merge.js'
import {type Series, type SeriesDays, seriesReader} from './series.js'

type FoundUsage = Found<'usage'>

/** The old records of one entity, resource and day: midnight's counts other hours as well (D-11). */
interface Day extends Series {
  readonly sources: readonly Item[]
  readonly records: readonly UsageRecord[]
  readonly merged: UsageDay
}

/** Usage: today's records get what the old ones have counted, less what they got before. */
export async function lookAtUsage(stage: MigrationContext, found: readonly FoundUsage[]): Promise<MigrationFinding[]> {
  const nowMs = stage.table.clock()
  const expired = found.filter(({item}) => isOldBucketExpired(item, nowMs))
  const groups = groupBy(
    found.filter(({item}) => !isOldBucketExpired(item, nowMs)),
    ({record}) => JSON.stringify([record.namespace ?? '', record.entity, record.resource]),
  )
  const met = new Set(found.map(({item}) => keyId(keyOf(item))))
  const read = seriesReader(stage, key => met.has(key))
  const days = await eachOf([...groups.values()], async members => {
    const {record} = members[0] as FoundUsage
    const {namespace: origin = '', entity, resource} = record
    const series = {home: homeOf(stage, record), origin, entity, resource}
    return daysOf(series, await read(series, new Set(members.map(({record: {start}}) => start.slice(0, 10)))))
  })
  const begins = beginningIn(found)
  const begun = days.flat().filter(({sources}) => begins(sources))
  const current = await readItems(
    stage,
    begun.flatMap(day => day.merged.targets.map(target => keyOfTarget(day, target))),
  )
  return [
    ...expired.map(({item}): MigrationFinding => ({type: 'usage', sources: [item], state: 'expired'})),
    ...begun.map(day => compareDay(stage, asDecided(day, current), current)),
  ]
}

function daysOf(series: Series, {days, daily}: SeriesDays): (Day & {daily: DailyWindows})[] {
  return [...days.values()].map(sources => {
    const records = sources.flatMap(item => decodeUsage(spelledIn(series.home, item)) ?? [])
    return {...series, sources, records, daily, merged: mergeUsageDay(records, daily)}
  })
}

/**
 * Records that showed how days were counted expire, or are deleted. What was told apart when they were known stays apart,
 * and a midnight record that was kept stays kept until it, or its day, has changed.
 */
function asDecided(day: Day & {daily: DailyWindows}, seen: ReadonlyMap<string, Item>): Day {
  const at = (window: Window) => {
    const target = day.merged.targets.find(each => each.window === window && each.start.endsWith('T00:00:00Z'))
    return target && {target, share: shareOf(day, seen.get(keyId(keyOfTarget(day, target))))}
  }
  const [first, whole] = [at('hourly'), at('daily')]
  const wasApart = !isEmpty(whole?.share?.counters ?? {})
  if (day.daily === 'unknown' && wasApart) return {...day, merged: mergeUsageDay(day.records, 'counted')}
  if (day.daily !== 'counted' || wasApart || !first?.share) return day
  const kept = mergeUsageDay(day.records, 'unknown')
  const before = kept.targets.find(({window, start}) => window === 'hourly' && start === first.target.start)
  const isUnchanged = before?.hours === first.share.hours && isEmpty(minus(before.counters, first.share.counters))
  return isUnchanged ? {...day, merged: kept} : day
}

const isEmpty = (counters: Counters): boolean => Object.keys(counters).length === 0

const shareOf = ({origin}: Series, current: Item | undefined): UsageShare | undefined =>
  decodeUsageMarks(readMigrationMark(current))[origin]

function compareDay(stage: MigrationContext, day: Day, seen: ReadonlyMap<string, Item>): MigrationFinding {
  const {sources, merged} = day
  const targets = merged.targets.map(target => ({target, current: seen.get(keyId(keyOfTarget(day, target)))}))
  const changes = targets.flatMap(({target, current}) => changeOf(day, target, current) ?? [])
  const common = {type: 'usage', sources, decision: merged.decision} as const
  if (changes.length === 0) {
    const onDelete = targets.flatMap(({current}) => (current ? forgetShare(stage, day, current) : []))
    return {...common, state: 'same', onDelete}
  }
  const write = async () => {
    for (const change of changes) if (!(await writeChange(stage, day, change))) return false
    return true
  }
  const isAbsent = targets.every(({current}) => current === undefined)
  return {...common, state: 'behind', says: 'counts differ', isAbsent, write}
}

interface Change {
  readonly target: UsageTarget
  /** What is added to each counter. */
  readonly additions: readonly (readonly [string, AttributeValue])[]
  readonly before: string | undefined
}

const keyOfTarget = ({home, entity, resource}: Day, {window, start}: UsageTarget): Key =>
  keys.usage(home, entity, resource, window, start)

function changeOf(day: Day, target: UsageTarget, current: Item | undefined): Change | undefined {
  const before = readMigrationMark(current)
  const share = shareOf(day, current)
  // Hours expire one by one. What was told apart with more of them known stays.
  if (share && target.hours < share.hours) return undefined
  // Nothing to count, and nothing was counted before.
  if (!share && isEmpty(target.counters)) return undefined
  const difference = minus(target.counters, share?.counters ?? {})
  if (share && isEmpty(difference)) return undefined
  return {target, additions: Object.entries(difference).map(([name, change]) => [name, n(change)] as const), before}
}

/** What old items of another origin have given stays known. */
function forgetShare(stage: MigrationContext, {origin}: Day, current: Item): TransactItem[] {
  const {[origin]: share, ...others} = decodeUsageMarks(readMigrationMark(current))
  if (!share) return []
  return [removeMark(stage, current, Object.keys(others).length === 0 ? undefined : encodeUsageMarks(others))]
}

/** One conditional ADD: a repetition finds another mark and adds nothing. */
function writeChange(stage: MigrationContext, day: Day, {target, additions, before}: Change): Promise<boolean> {
  const {home, origin, entity, resource} = day
  const {window, start, counters, hours, ttlSeconds} = target
  const e = new ExpressionBuilder()
  const mark = e.name(MIGRATION_MARK)
  e.condition(before === undefined ? `attribute_not_exists(${mark})` : `${mark} = ${e.value(s(before))}`)
  e.set(MIGRATION_MARK, s(encodeUsageMarks({...decodeUsageMarks(before), [origin]: {counters, hours}})))
  for (const [name, change] of additions) e.add(name, change)
  const key = keyOfTarget(day, target)
  const fixed = {
    entity_id: entity,
    resource,
    window,
    window_start: start,
    ...indexKeys.usageOfResource(home, resource, start, entity),
    ...indexKeys.inNamespace(home, key.PK),
  }
  for (const [name, value] of Object.entries(fixed)) e.setIfMissing(name, s(value))
  if (ttlSeconds !== undefined) e.setIfMissing('ttl', n(ttlSeconds))
  return sendConditional(stage, 'UpdateItem', {Key: wireKey(key), ...e.update()})
}
