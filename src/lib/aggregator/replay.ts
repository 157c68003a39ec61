import {floorDivide, MILLI} from '../core/token-math.js'
import {WINDOWS, type Window} from '../core/window.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {pause} from '../dynamo/retry.js'
import {sendRepeatable, type Table} from '../repository/table/table.js'
import {isApplied} from '../repository/table/transact.js'
import {
  addUp,
  amountsOf,
  isOfOthers,
  isSamePosition,
  nextFiner,
  REQUESTS,
  readRollups,
  readWindows,
  startsWithin,
} from '../repository/usage/sum.js'
import {type Item, n, s} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {keyOf, wireKey} from '../schema/keys.js'
import {encodeFractions, isUsageCounter, overdrawnCounter, readProgress, usageMark} from '../schema/usage-record.js'
import {putBack} from './archiver.js'
import {Batch, type Log} from './batch.js'
import type {BucketChange} from './bucket-change.js'
import type {AggregatorSettings} from './environment.js'
import {Agenda, agendaEntries, concernedDays} from './rollup/agenda.js'
import {countedWindows} from './rollup/plan.js'
import {RollUps} from './rollup/roll-ups.js'
import type {StreamEvent} from './stream-event.js'
import {addUsage, groupUsage, type UsageGroup} from './usage.js'

const DAY_SECONDS = 86_400

export type ReplayedWindow = Pick<UsageGroup, 'namespace' | 'entity' | 'resource' | 'window' | 'start'>

/**
 * Counts the records of one range that an aggregator gave up on, exactly once. If later changes were counted, hours
 * stay undecided; days and months are completed from their parts. Throws if the table is unavailable. Finished work
 * stays.
 */
export async function replay(
  table: Table,
  event: StreamEvent,
  settings: Pick<AggregatorSettings, 'windows' | 'retentionDays'> & {readonly archives: boolean},
  log: Log,
) {
  const batch = new Batch(event.Records, log)
  const {windows, retentionDays} = settings
  const ttlSeconds = retentionDays === 0 ? undefined : Math.floor(table.clock() / 1000) + retentionDays * DAY_SECONDS
  // Usage records that counted later changes, so they don't show whether these were counted.
  const undecided: ReplayedWindow[] = []
  const schedule = await readRollups(table)
  const windowsAt = (atMs: number) => countedWindows(schedule, windows, atMs)
  const agenda = new Agenda(table)
  for (const {entry} of agendaEntries(groupUsage(batch.changes, windowsAt), schedule, table.clock()))
    await agenda.enter(entry)
  // Fine windows first: coarse ones are recounted from them.
  for (const window of WINDOWS) {
    for (const group of groupUsage(batch.changes, atMs => windowsAt(atMs).filter(each => each === window))) {
      const {isCounted, overtaken, leftOut} = await addUsage(table, group, {ttlSeconds})
      const numbers = [...group.changes.values()].flat().map(change => change.sequenceNumber)
      const {changes: _, ...subject} = group
      if (leftOut.length > 0) batch.setAside(numbers, subject, leftOut)
      if (isCounted) batch.counts.snapshots++
      if (overtaken.length === 0) continue
      const isInDoubt = hasUndecidedPart(undecided, subject)
      const found = isInDoubt ? 'unknown' : await addFromParts(table, subject, windows, overtaken)
      if (found === 'unknown') undecided.push(subject)
      if (found === 'added') batch.counts.snapshots++
    }
  }
  const rollUps = new RollUps(table, async () => schedule)
  for (const {groups: _, ...day} of concernedDays(groupUsage(batch.changes, windowsAt)))
    await rollUps.afterCounting(batch, day)
  batch.counts.snapshots += batch.counts.rolledUp
  if (settings.archives) {
    for (const expired of batch.expired) {
      await putBack(table, expired)
      batch.counts.unarchived++
    }
  }
  const {counts} = batch.result(table.clock())
  const {records, buckets: changes, snapshots: counted, unarchived, uncounted} = counts
  return {records, changes, counted, undecided, putBack: unarchived, uncounted}
}

/** If one hour is undecided, the sum of hours proves nothing about the day. */
function hasUndecidedPart(undecided: readonly ReplayedWindow[], whole: ReplayedWindow): boolean {
  const isFiner = (window: Window) => WINDOWS.indexOf(window) < WINDOWS.indexOf(whole.window)
  return undecided.some(
    ({namespace, entity, resource, window}) =>
      isFiner(window) && namespace === whole.namespace && entity === whole.entity && resource === whole.resource,
  )
}

const LOOKS = 6

/**
 * Adds `changes` to a day or month that lacks exactly these compared with its parts, both at the same stream position.
 * `complete`: it equals their sum. `unknown`: any other difference, or no stable parts by zael; nothing is written.
 */
async function addFromParts(
  table: Table,
  whole: ReplayedWindow,
  windows: readonly Window[],
  changes: readonly BucketChange[],
): Promise<'added' | 'complete' | 'unknown'> {
  const finer = nextFiner(whole.window, windows)
  if (finer === undefined) return 'unknown'
  const due = amountsIn(changes)
  for (let look = 0; look < LOOKS; look++) {
    if (look > 0) await pause(look, table.backoff)
    // Read the whole first: a batch counted in between puts the parts ahead, and causes another attempt.
    const [item] = await readWindows(table, whole, whole.window, [whole.start])
    const parts = await readWindows(table, whole, finer, startsWithin(whole, finer))
    if (!item || isOfOthers(item, whole.window) || parts.some(part => isOfOthers(part, finer))) return 'unknown'
    if (!isSamePosition(item, parts)) continue
    const [counted, sum] = [amountsOf(item), addUp(parts)]
    const names = [...new Set([...counted.keys(), ...sum.keys(), ...due.keys()])]
    const lacking = new Map(names.map(name => [name, (sum.get(name) ?? 0n) - (counted.get(name) ?? 0n)]))
    if (names.every(name => lacking.get(name) === 0n)) return 'complete'
    if (!names.every(name => lacking.get(name) === (due.get(name) ?? 0n))) return 'unknown'
    const changed = names.filter(name => lacking.get(name) !== 0n)
    if (await write(table, item, changed, sum)) return 'added'
  }
  return 'unknown'
}

/** In the units of `amountsOf`. */
function amountsIn(changes: readonly BucketChange[]): Map<string, bigint> {
  const amounts = new Map<string, bigint>()
  const add = (name: string, milli: bigint) => amounts.set(name, (amounts.get(name) ?? 0n) + milli)
  for (const {consumedMilli, overdrawn, admitted} of changes) {
    for (const [limit, milli] of consumedMilli) if (isUsageCounter(limit)) add(limit, milli)
    for (const limit of overdrawn) if (isUsageCounter(limit)) add(overdrawnCounter(limit), MILLI)
    add(REQUESTS, BigInt(admitted) * MILLI)
  }
  return amounts
}

async function write(
  table: Table,
  item: Item,
  names: readonly string[],
  amounts: ReadonlyMap<string, bigint>,
): Promise<boolean> {
  const e = new ExpressionBuilder()
  const {marks, fractions} = readProgress(item)
  const rest = new Map(fractions)
  const setAsRead = (name: string, value: Item[string] | undefined) => {
    const before = item[name]
    e.require(name, before)
    if (value ?? before) e.store(name, value)
  }
  for (const [shard, mark] of marks) e.require(usageMark(shard), mark)
  for (const name of names) {
    const milli = amounts.get(name) ?? 0n
    const tokens = floorDivide(milli, MILLI)
    if (name !== REQUESTS) rest.set(name, milli - tokens * MILLI)
    setAsRead(name === REQUESTS ? attributes.usage.totalEvents : name, n(tokens))
  }
  const text = encodeFractions(rest)
  setAsRead(attributes.usage.fractions, text === undefined ? undefined : s(text))
  const update = {TableName: table.name, Key: wireKey(keyOf(item)), ...e.update()}
  // False may mean a lost response: the next attempt shows it.
  return isApplied(sendRepeatable(table, 'UpdateItem', update))
}
