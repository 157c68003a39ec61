import {groupBy} from '../../core/group-by.js'
import type {Window} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import type {TransactItem} from '../../repository/table/transact.js'
import {type AttributeValue, type Item, type Key, n, s} from '../../schema/attribute-value.js'
import {keyId, keyOf, keys, wireKey} from '../../schema/keys.js'
import {isExpiredItem} from '../../schema/legacy-item.js'
import {encodeUsageMarks, MIGRATION_MARK, type UsageShare} from '../../schema/migration-marks.js'
import {type UsageRecord, usageIdentity} from '../../schema/usage-record.js'
import {putAbsent, readMarks, removeMark, sendConditional} from '../records/conditional.js'
import {
  type Compare,
  type MigrationContext,
  type MigrationFinding,
  mapConcurrently,
  type OldItem,
  startsAmong,
  targetNamespace,
} from '../records/finding.js'
import {usageMarksOf} from '../records/marks.js'
import {
  type Counters,
  type DailyWindows,
  mergeUsageDay,
  subtractCounters,
  type UsageDay,
  type UsageTarget,
} from './merge.js'
import {type SeriesDays, seriesReader, type UsageSeries} from './series.js'

type OldUsageItem = OldItem<'usage'>

/** Records of one day belong together: the midnight record may count the other hours (D-11). */
interface OldDay extends UsageSeries {
  readonly sources: readonly OldItem[]
  readonly records: readonly UsageRecord[]
  readonly daily: DailyWindows
  readonly merged: UsageDay
}

/** New records get the counts of the old ones, minus the counts added before. */
export const compareUsage: Compare<'usage'> = async (context, items) => {
  const nowMs = context.table.clock()
  const expired = items.filter(({item}) => isExpiredItem(item, nowMs))
  const bySeries = groupBy(
    items.filter(({item}) => !isExpiredItem(item, nowMs)),
    ({record}) => JSON.stringify([record.namespace ?? '', record.entity, record.resource]),
  )
  const onPage = new Set(items.map(({item}) => keyId(keyOf(item))))
  const readSeries = seriesReader(context, key => onPage.has(key))
  const all = await mapConcurrently([...bySeries.values()], async members => {
    const {record} = members[0] as OldUsageItem
    const {namespace: origin, entity, resource} = record
    const series = {namespace: targetNamespace(context, record), origin, entity, resource}
    return daysOf(series, await readSeries(series, members))
  })
  const startsHere = startsAmong(items)
  const days = all.flat().filter(({sources}) => startsHere(sources))
  const seen = await readMarks(
    context,
    days.flatMap(day => day.merged.targets.map(target => targetKeyOf(day, target))),
  )
  return [
    ...expired.map((old): MigrationFinding => ({type: 'usage', sources: [old], state: 'expired'})),
    ...days.map(day => compareDay(context, keepDecision(day, seen), seen)),
  ]
}

function daysOf(series: UsageSeries, {days, daily}: SeriesDays): OldDay[] {
  return [...days.values()].map(ofDay => {
    const sources = ofDay.map(({old}) => old)
    const records = ofDay.map(({record}) => record)
    return {...series, sources, records, daily, merged: mergeUsageDay(records, daily)}
  })
}

/**
 * Evidence may expire, so a midnight record keeps its decision (split, or kept as labelled) until it or its day
 * changes.
 */
function keepDecision(day: OldDay, seen: ReadonlyMap<string, Item>): OldDay {
  const midnightOf = (window: Window) => {
    const target = day.merged.targets.find(each => each.window === window && each.start.endsWith('T00:00:00Z'))
    return target && {target, share: shareOf(day, seen.get(keyId(targetKeyOf(day, target))))}
  }
  const [firstHour, wholeDay] = [midnightOf('hourly'), midnightOf('daily')]
  const wasSplit = !isEmpty(wholeDay?.share?.counters ?? {})
  if (day.daily === 'unknown' && wasSplit) return {...day, merged: mergeUsageDay(day.records, 'counted')}
  if (day.daily !== 'counted' || wasSplit || !firstHour?.share) return day
  const kept = mergeUsageDay(day.records, 'unknown')
  const before = kept.targets.find(({window, start}) => window === 'hourly' && start === firstHour.target.start)
  const isUnchanged =
    before?.hours === firstHour.share.hours && isEmpty(subtractCounters(before.counters, firstHour.share.counters))
  return isUnchanged ? {...day, merged: kept} : day
}

const isEmpty = (counters: Counters): boolean => Object.keys(counters).length === 0

const shareOf = (series: UsageSeries, current: Item | undefined): UsageShare | undefined =>
  usageMarksOf(current)[shareName(series)]

const shareName = ({origin}: UsageSeries): string => origin ?? ''

function compareDay(context: MigrationContext, day: OldDay, seen: ReadonlyMap<string, Item>): MigrationFinding {
  const {sources, merged} = day
  const targets = merged.targets.map(target => ({target, current: seen.get(keyId(targetKeyOf(day, target)))}))
  const changes = targets.flatMap(({target, current}) => changeOf(day, target, current) ?? [])
  const common = {type: 'usage', sources, decision: merged.decision} as const
  if (changes.length === 0) {
    const onDelete = targets.flatMap(({current}) => (current ? removeShare(context, day, current) : []))
    return {...common, state: 'same', onDelete}
  }
  const write = async () => {
    for (const change of changes) if (!(await writeChange(context, day, change))) return false
    return true
  }
  const isAbsent = targets.every(({current}) => current === undefined)
  return {...common, state: 'behind', reason: 'counts differ', isAbsent, write}
}

interface UsageChange {
  readonly target: UsageTarget
  readonly additions: readonly (readonly [string, AttributeValue])[]
  readonly current: Item | undefined
}

const targetKeyOf = ({namespace, entity, resource}: OldDay, {window, start}: UsageTarget): Key =>
  keys.usage(namespace, entity, resource, window, start)

function changeOf(day: OldDay, target: UsageTarget, current: Item | undefined): UsageChange | undefined {
  const share = shareOf(day, current)
  // Hours expire one by one. A split made when more of them existed stays.
  if (share && target.hours < share.hours) return undefined
  if (!share && isEmpty(target.counters)) return undefined
  const difference = subtractCounters(target.counters, share?.counters ?? {})
  if (share && isEmpty(difference)) return undefined
  return {target, additions: Object.entries(difference).map(([name, change]) => [name, n(change)] as const), current}
}

/** Shares of other origins stay in the mark. */
function removeShare(context: MigrationContext, day: OldDay, current: Item): TransactItem[] {
  const {[shareName(day)]: share, ...others} = usageMarksOf(current)
  if (!share) return []
  return [removeMark(context, current, Object.keys(others).length === 0 ? undefined : encodeUsageMarks(others))]
}

/**
 * A put if there is no record, which is cheaper, else an ADD. The condition prevents a repeated write from adding
 * twice.
 */
function writeChange(
  context: MigrationContext,
  day: OldDay,
  {target, additions, current}: UsageChange,
): Promise<boolean> {
  const {namespace, entity, resource} = day
  const {window, start, counters, hours, ttlSeconds} = target
  const key = wireKey(targetKeyOf(day, target))
  const marks = s(encodeUsageMarks({...usageMarksOf(current), [shareName(day)]: {counters, hours}}))
  const description = usageIdentity({namespace, entity, resource, window, start, ttlSeconds})
  // A counter named like another attribute must not replace it in a put. DynamoDB refuses the update.
  if (!current && !additions.some(([name]) => name in description)) {
    return putAbsent(context, {...key, ...description, ...Object.fromEntries(additions), [MIGRATION_MARK]: marks})
  }
  const e = new ExpressionBuilder()
  e.require(MIGRATION_MARK, current?.[MIGRATION_MARK]).set(MIGRATION_MARK, marks)
  for (const [name, change] of additions) e.add(name, change)
  for (const [name, value] of Object.entries(description)) e.setIfMissing(name, value)
  return sendConditional(context, 'UpdateItem', {Key: key, ...e.update()})
}
