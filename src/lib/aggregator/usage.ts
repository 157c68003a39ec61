import {floorDivide, MILLI} from '../core/token-math.js'
import {type Window, windowStart} from '../core/window.js'
import {ConditionFailed} from '../dynamo/errors.js'
import {ExpressionBuilder} from '../dynamo/expression.js'
import {pause} from '../dynamo/retry.js'
import type {OperationInput} from '../dynamo/transport.js'
import {sendRepeatable, type Table} from '../repository/table/table.js'
import {n, s} from '../schema/attribute-value.js'
import {attributes} from '../schema/attributes.js'
import {keys, wireKey} from '../schema/keys.js'
import {addRefusals, encodeUsageRefusals, type RefusalCounts, usageRefusals} from '../schema/refusal-counts.js'
import {
  encodeFractions,
  isUsageCounter,
  overdrawnCounter,
  readProgress,
  type UsageProgress,
  usageIdentity,
  usageMark,
} from '../schema/usage-record.js'
import type {BucketChange} from './bucket-change.js'

export interface UsageGroup {
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  readonly window: Window
  readonly start: string
  /** In stream order, each once, per shard. */
  readonly changes: ReadonlyMap<number, readonly BucketChange[]>
}

/** The marks of more shards would exceed the 4 KB of one expression. */
const SHARDS_PER_WRITE = 32

/** Keeps the expression within 4 KB. Clients cannot use buckets with that many limits. */
const LIMITS_PER_WRITE = 100

const ATTEMPTS = 10

const NO_PROGRESS: UsageProgress = readProgress()

interface UsageRecording {
  /** Epoch seconds at which a new record expires; `undefined`: never. */
  readonly ttlSeconds: number | undefined
  /** This process has written the record before, so its identity is not sent again. */
  readonly isBegun?: boolean
}

/** Skips changes that count nothing; keeps pairs that cancel out, because a retry may deliver only one of them. */
export function groupUsage(
  changes: readonly BucketChange[],
  windowsAt: (atMs: number) => readonly Window[],
): UsageGroup[] {
  const groups = new Map<string, Omit<UsageGroup, 'changes'> & {changes: Map<number, BucketChange[]>}>()
  for (const change of changes.toSorted((a, b) => (a.position < b.position ? -1 : a.position > b.position ? 1 : 0))) {
    if (change.consumedMilli.size === 0 && change.admitted === 0 && !change.refused) continue
    const {namespace, entity, resource, shard} = change
    for (const window of windowsAt(change.atMs)) {
      const start = windowStart(window, change.atMs)
      const key = [namespace, entity, resource, window, start, Math.floor(shard / SHARDS_PER_WRITE)].join('#')
      const group = groups.get(key) ?? {namespace, entity, resource, window, start, changes: new Map()}
      groups.set(key, group)
      const ofShard = group.changes.get(shard)
      if (!ofShard) group.changes.set(shard, [change])
      else if (ofShard.at(-1)?.position !== change.position) ofShard.push(change)
    }
  }
  return [...groups.values()]
}

export function limitsOf({changes}: Pick<UsageGroup, 'changes'>): string[] {
  return [...new Set([...changes.values()].flat().flatMap(({consumedMilli}) => [...consumedMilli.keys()]))]
}

/**
 * Counts each change exactly once. The first attempt reads nothing: it requires that no equally late change was counted
 * and no fraction is stored. If it fails, the returned record shows the changes to skip. A repetition fails on its own
 * marks. `isCounted` is false if the record had counted all of it before. `leftOut`: limits beyond those that one write
 * can add. `overtaken`: changes of shards with later counted ones. In a redelivery they are counted; after Lambda gave
 * up, unknown.
 */
export async function addUsage(table: Table, group: UsageGroup, recording: UsageRecording) {
  let stored: UsageProgress | undefined
  for (let attempt = 0; ; attempt++) {
    const pending = notYetCounted(group, stored ?? NO_PROGRESS)
    if (pending.size === 0) return {isCounted: false, leftOut: [], overtaken: overtakenBy(stored, group)}
    const {counted, leftOut} = countedLimits(pending)
    const {update, refusalsLeftOut} = usageUpdate(table, group, {pending, counted, stored}, recording)
    try {
      await sendRepeatable(table, 'UpdateItem', update)
      return {isCounted: true, leftOut: [...leftOut, ...refusalsLeftOut], overtaken: overtakenBy(stored, group)}
    } catch (error) {
      if (!(error instanceof ConditionFailed) || attempt + 1 >= ATTEMPTS) throw error
      stored = readProgress(error.oldItem)
    }
    if (attempt > 0) await pause(attempt, table.backoff)
  }
}

function notYetCounted({changes}: UsageGroup, {marks}: UsageProgress): UsageGroup['changes'] {
  const pending = new Map<number, readonly BucketChange[]>()
  for (const [shard, ofShard] of changes) {
    const mark = marks.get(shard)
    // Planted fault: the last change is counted again
    const later = mark === undefined ? ofShard : ofShard.filter(({position}) => position > mark)
    if (later.length > 0) pending.set(shard, later)
  }
  return pending
}

function overtakenBy(stored: UsageProgress | undefined, {changes}: UsageGroup): BucketChange[] {
  const isPast = (shard: number, last: BucketChange | undefined) =>
    (stored?.marks.get(shard) ?? '') > (last?.position ?? '')
  return [...changes].flatMap(([shard, ofShard]) => (isPast(shard, ofShard.at(-1)) ? ofShard : []))
}

/** Limits with complete parameters come first: the bucket does not have the others. */
function countedLimits(pending: UsageGroup['changes']): {counted: Set<string>; leftOut: string[]} {
  const names = limitsOf({changes: pending}).filter(isUsageCounter)
  if (names.length <= LIMITS_PER_WRITE) return {counted: new Set(names), leftOut: []}
  const latest = [...pending.values()].flatMap(changes => changes.at(-1)?.after ?? [])
  const known = new Set(latest.flatMap(after => (after.kind === 'bucket' ? [...after.record.state.limits.keys()] : [])))
  const ordered = [...names.filter(name => known.has(name)), ...names.filter(name => !known.has(name))]
  return {counted: new Set(ordered.slice(0, LIMITS_PER_WRITE)), leftOut: ordered.slice(LIMITS_PER_WRITE)}
}

interface UsageAddition {
  readonly pending: UsageGroup['changes']
  readonly counted: ReadonlySet<string>
  readonly stored: UsageProgress | undefined
}

function usageUpdate(
  table: Table,
  group: UsageGroup,
  addition: UsageAddition,
  {ttlSeconds, isBegun = false}: UsageRecording,
): {update: OperationInput<'UpdateItem'>; refusalsLeftOut: readonly string[]} {
  const {namespace, entity, resource, window, start} = group
  const {pending, stored} = addition
  const e = new ExpressionBuilder()
  // If the record was deleted meanwhile, the condition fails and the second attempt describes it again.
  if (isBegun && !stored) e.exists(attributes.usage.start)
  else {
    const identity = usageIdentity({namespace, entity, resource, window, start, ttlSeconds})
    for (const [attribute, value] of Object.entries(identity)) e.setIfMissing(attribute, value)
  }
  for (const [shard, changes] of pending) moveMark(e, shard, changes, stored)
  addCounts(e, addition)
  const all = [...pending.values()].flat()
  if (window === 'hourly' && !(isBegun && !stored))
    e.setIfMissing(attributes.usage.firstAt, s(String(Math.min(...all.map(({atMs}) => atMs)))))
  const refusals = all.flatMap(({refused}) => refused ?? [])
  const refusalsLeftOut = addToUsage(e, refusals, stored)
  e.require(attributes.usage.fractions, stored?.fractionText)
  const update: OperationInput<'UpdateItem'> = {
    TableName: table.name,
    Key: wireKey(keys.usage(namespace, entity, resource, window, start)),
    ...e.update(),
    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
  }
  return {update, refusalsLeftOut}
}

/** The stored mark must be unchanged or, if not read, earlier than the first of these changes. */
function moveMark(
  e: ExpressionBuilder,
  shard: number,
  changes: readonly BucketChange[],
  stored: UsageProgress | undefined,
): void {
  const [first, last] = [changes[0], changes.at(-1)] as [BucketChange, BucketChange]
  const mark = e.name(usageMark(shard))
  if (stored) e.require(usageMark(shard), stored.marks.get(shard))
  else e.condition(`attribute_not_exists(${mark}) OR ${mark} < ${e.value(s(first.position))}`)
  // Planted fault: the mark of usage stays behind
  e.set(usageMark(shard), s(last.position))
}

/** Adds whole tokens, rounded down; the record keeps each limit's remaining fraction. */
function addCounts(e: ExpressionBuilder, {pending, counted, stored}: UsageAddition): void {
  const {fractions} = stored ?? NO_PROGRESS
  const totals = new Map(fractions)
  const overdrawn = new Map<string, number>()
  let admitted = 0
  for (const change of [...pending.values()].flat()) {
    admitted += change.admitted
    for (const [limit, milli] of change.consumedMilli) {
      if (counted.has(limit)) totals.set(limit, (totals.get(limit) ?? 0n) + milli)
    }
    for (const limit of change.overdrawn) {
      if (counted.has(limit)) overdrawn.set(limit, (overdrawn.get(limit) ?? 0) + 1)
    }
  }
  const rest = new Map<string, bigint>()
  for (const [limit, milli] of totals) {
    const tokens = floorDivide(milli, MILLI)
    rest.set(limit, milli - tokens * MILLI)
    if (tokens !== 0n) e.add(limit, n(tokens))
  }
  for (const [limit, writes] of overdrawn) e.add(overdrawnCounter(limit), n(writes))
  e.add(attributes.usage.totalEvents, n(admitted))
  const after = encodeFractions(rest)
  if (after !== undefined) e.set(attributes.usage.fractions, s(after))
  else if (stored?.fractionText !== undefined) e.remove(attributes.usage.fractions)
}

/** Keeps the expression within 4 KB. */
const REFUSED_LIMITS_PER_WRITE = 20
const LINKS_PER_WRITE = 8

/** Returns limits beyond one write. Assumes an unread record has the map; if not, the condition fails and shows it. */
function addToUsage(
  e: ExpressionBuilder,
  refusals: readonly RefusalCounts[],
  stored: Pick<UsageProgress, 'countsRefusals' | 'admitted'> | undefined,
): string[] {
  if (refusals.length === 0) return []
  const all = addRefusals(refusals)
  const counted = {
    ...all,
    limits: new Map([...all.limits].slice(0, REFUSED_LIMITS_PER_WRITE)),
    accounts: new Map([...(all.accounts ?? [])].slice(0, LINKS_PER_WRITE)),
    callers: new Map([...(all.callers ?? [])].slice(0, LINKS_PER_WRITE)),
  }
  const map = attributes.usage.refusals
  if (stored && !stored.countsRefusals) {
    e.set(map, encodeUsageRefusals({...counted, before: stored.admitted})).condition(
      `attribute_not_exists(${e.name(map)})`,
    )
  } else {
    const {added, lastAt} = usageRefusals(counted)
    // Planted fault: tokens of refusals are not added
    for (const [entry, count] of added) e.addWithin(map, entry, n(count))
    e.setWithin(map, lastAt[0], n(lastAt[1])).condition(`attribute_exists(${e.name(map)})`)
  }
  return [...all.limits.keys()].slice(REFUSED_LIMITS_PER_WRITE)
}
