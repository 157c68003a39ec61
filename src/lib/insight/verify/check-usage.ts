import {groupBy} from '../../core/group-by.js'
import {formatNumber} from '../../core/text/text.js'
import {type Window, windowEndMs} from '../../core/window.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {queryItems} from '../../dynamo/paging.js'
import {
  addUp,
  amountsOf,
  type CoarseUsage,
  isOfOthers,
  isRolledUp,
  isSamePosition,
  nextFiner,
  readThrough,
  readWindows,
  readWithin,
  startsBetween,
  startsWithin,
  wholeWindow,
} from '../../repository/usage/sum.js'
import {type Item, isoSeconds, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, readConsumption} from '../../schema/bucket-record.js'
import {parseItemKey} from '../../schema/keys.js'
import {MIGRATION_MARK} from '../../schema/migration-marks.js'
import {ranges} from '../../schema/ranges.js'
import {decodeUsage, isUsageCounter, readProgress, type UsageRecord} from '../../schema/usage-record.js'
import type {VerifyContext} from './context.js'
import type {ItemFinding} from './finding.js'

/** Ms after its last write until which a bucket's usage may still be in the stream. */
const SETTLED_MS = 15 * 60_000

/** Ms after which the stream has no records of a window, so a roll-up must be complete. */
const DELIVERED_MS = 24 * 3_600_000

/** A day must equal its hours and a month its days. Compared only at the same stream position of all shards. */
export async function checkUsage(context: VerifyContext, item: Item): Promise<ItemFinding[]> {
  const record = decodeUsage(item)
  const {nowMs} = context
  if (!record || record.window === 'hourly' || Date.parse(record.start) < context.sinceMs) return []
  // Parts are created no earlier than the whole, so they last as long.
  if (record.ttlSeconds !== undefined && record.ttlSeconds * 1000 <= nowMs) return []
  const finer = nextFiner(record.window) as Window
  // A day that is due for roll-up but was counted per batch is not used.
  if ((await context.rollups()).isRolled(record.window, record.start) && !isRolledUp(item)) return []
  const parts = await partsOf(context, record, finer)
  const isOver = isRolledUp(item) && nowMs - windowEndMs(record.window, record.start) > DELIVERED_MS
  if (!(isOver || isSamePosition(item, parts)) || parts.some(part => isOfOthers(part, finer))) return []
  const whole = amountsOf(item)
  const sum = addUp(parts)
  return [...new Set([...whole.keys(), ...sum.keys()])].sort().flatMap(name => {
    const [counted, expected] = [whole.get(name) ?? 0n, sum.get(name) ?? 0n]
    if (counted === expected) return []
    const {window, start} = record
    const reason = `The ${window} record of ${start} has ${spell(counted)} ${name || 'requests'}, its ${finer} records ${spell(expected)}.`
    return [{kind: 'usage', subject: name || 'requests', reason, since: start} as const]
  })
}

/** Rolled-up days are read as a reader sees them. */
async function partsOf(context: VerifyContext, record: UsageRecord, finer: Window): Promise<Item[]> {
  const {table, signal} = context
  const starts = startsWithin(record, finer)
  const schedule = await context.rollups()
  const isStored = (start: string) => !schedule.isRolled(finer, start)
  const stored = await readWindows(table, record, finer, starts.filter(isStored), signal)
  if (finer !== 'daily' || starts.every(isStored)) return stored
  const whole: CoarseUsage = {...record, window: 'monthly'}
  const items = await readWithin(table, whole, signal)
  const days = starts
    .filter(start => !isStored(start))
    .map(start => {
      const within = items.filter(item => decodeUsage(item)?.start.startsWith(start.slice(0, 10)))
      return wholeWindow({...whole, window: 'daily', start}, within)
    })
    .filter(day => day !== undefined)
  return [...stored, ...days]
}

/** Usage must hold all consumption, or more if buckets expired. Needs an idle bucket younger than all usage kept. */
export async function checkCounters(context: VerifyContext, item: Item, record: BucketRecord) {
  const {namespace, entity, shardCount, state} = record
  const {nowMs} = context
  // Other clients copy counters when they split a bucket.
  if (shardCount > 1 || MIGRATION_MARK in item || nowMs - state.refilledAtMs < SETTLED_MS) return []
  const since = context.referred.entity(namespace, entity)?.createdAt ?? context.namespaces.get(namespace)?.createdAt
  const sinceMs = Date.parse(since ?? '')
  if (Number.isNaN(sinceMs)) return []
  const starts = startsBetween('monthly', sinceMs, nowMs)
  const months = await monthsOf(context, record, starts)
  if (months.length === 0 || !months.every(month => keptLongerThan(nowMs - sinceMs, month))) return []
  const counted = addUp(months)
  const findings = [...readConsumption(item)].flatMap(([name, milli]) => {
    const missing = milli - (counted.get(name) ?? 0n)
    if (missing <= 0n || !isUsageCounter(name)) return []
    const reason = `${spell(missing)} ${name} were consumed but are not in the monthly usage since ${since}.`
    return [{kind: 'usage' as const, subject: name, reason}]
  })
  // An aggregator of zae-limiter counts no months by default.
  return findings.length > 0 && (await haveOthersCounted(context, record)) ? [] : findings
}

async function monthsOf(context: VerifyContext, subject: BucketRecord, starts: readonly string[]): Promise<Item[]> {
  const {table, signal} = context
  const schedule = await context.rollups()
  const isStored = (start: string) => !schedule.isRolled('monthly', start)
  const months = await readWindows(table, subject, 'monthly', starts.filter(isStored), signal)
  const rolled = starts.filter(each => !isStored(each)).map(start => ({...subject, window: 'monthly' as const, start}))
  const [first, last] = [rolled[0], rolled.at(-1)]
  if (!first || !last) return months
  const byMonth = groupBy(await readThrough(table, first, last.start, signal), item => monthIn(startInKey(item)))
  const whole = rolled.map(each => {
    const lastSecond = isoSeconds(windowEndMs('monthly', each.start) - 1)
    // Other clients may store keys with days that the month does not have.
    const isWithin = (item: Item) => startInKey(item) >= each.start && startInKey(item) <= lastSecond
    return wholeWindow(each, byMonth.get(monthIn(each.start))?.filter(isWithin) ?? [])
  })
  return [...months, ...whole.filter(month => month !== undefined)]
}

function startInKey(item: Item): string {
  const key = parseItemKey(item)
  return key?.record === 'usage' ? key.start : ''
}

const monthIn = (start: string): string => start.slice(0, 'YYYY-MM'.length)

async function haveOthersCounted({table, signal}: VerifyContext, {namespace, entity, resource}: BucketRecord) {
  const {partition, prefix} = ranges.usageOfEntity(namespace, entity, resource)
  const e = new ExpressionBuilder()
  const {key} = attributes
  e.keyCondition(`${e.name(key.partition)} = ${e.value(s(partition))}`)
  e.keyCondition(`begins_with(${e.name(key.sort)}, ${e.value(s(prefix))})`)
  const {transport, name: TableName, backoff} = table
  for await (const item of queryItems(transport, {TableName, ...e.read()}, {backoff, signal})) {
    if (readProgress(item).marks.size === 0) return true
  }
  return false
}

/** Counts from the end of the window, because the expiry counts from some instant inside it. */
function keptLongerThan(ms: number, item: Item): boolean {
  const record = decodeUsage(item) as UsageRecord
  return record.ttlSeconds === undefined || record.ttlSeconds * 1000 - windowEndMs('monthly', record.start) > ms
}

const spell = (milli: bigint): string => formatNumber(Number(milli) / 1000, 'nearest', 3)
