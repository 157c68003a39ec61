import type {Amounts, BucketLimit} from '../../core/buckets/bucket.js'
import {kindedRateOf} from '../../core/calendar/kind-definition.js'
import {valueFor, ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {type Limit, MAX_PERIOD_SECONDS, makeLimit} from '../../core/limits/limit.js'
import {toTokens} from '../../core/token-math.js'
import {ConditionFailed, Throttled, TransactionCancelled} from '../../dynamo/errors.js'
import {ExpressionBuilder} from '../../dynamo/expression.js'
import {pause, retrying} from '../../dynamo/retry.js'
import {bool, n, s} from '../../schema/attribute-value.js'
import {attributes} from '../../schema/attributes.js'
import {type BucketRecord, limitAttribute} from '../../schema/bucket-record.js'
import {keys, wireKey, withoutKey} from '../../schema/keys.js'
import {ranges} from '../../schema/ranges.js'
import {delegatedAttribute} from '../../schema/refusal-counts.js'
import type {ReservedTokens} from '../../schema/reservation-record.js'
import {
  decodeRun,
  depthOfRun,
  encodeRun,
  instantKey,
  isRunId,
  parentRunId,
  type RunEnd,
  type RunRecord,
  type RunReturn,
  runEntity,
  runExpiry,
  runIdIn,
  runIndexKeys,
  runKey,
  spellRunEnd,
  subRunId,
} from '../../schema/run-record.js'
import {validityOf} from '../buckets/kind-write.js'
import {startingLimit} from '../buckets/plan.js'
import {planReturns, readBucket} from '../buckets/reservations.js'
import {
  type BucketAddress,
  type BucketUpdate,
  createUpdate,
  markedUpdate,
  newMark,
  stampUpdate,
} from '../buckets/writes.js'
import {decodeRange, type PageRequest, type RecordPage, readAll, readPage} from '../table/query.js'
import {type NamespaceTable, randomId, sendRepeatable} from '../table/table.js'
import {isRefused, type TransactItem, transact, updateItem} from '../table/transact.js'

const names = attributes.run

const ID_BYTES = 8

/** Of the part that a sub-run's id adds to its parent's. */
const PART_BYTES = 5

/** Their ids are in the parent's record, which each of them writes. */
const MOST_SUB_RUNS = 100

/** Like other trees of entities. */
const MOST_DEPTH = 8

const MOST_TRIES = 20

/** After so many attempts to end a busy run, its requests are refused first. */
const FREE_TRIES = 2

/** No run has this id. Ended runs are kept for a week. */
export class RunMissing extends ZaelError {
  constructor(id: string) {
    super('notFound', 'run.missing', `Run "${id}" does not exist.`, {
      hint: 'Ended runs are kept for a week. List runs with: zael run list',
      details: {run: id},
    })
  }
}

/** The run's time is over, or somebody ended it. */
export class RunEnded extends ZaelError {
  constructor(id: string) {
    super('conflict', 'run.ended', `The run "${id}" has ended.`, {
      hint: 'Delegate a new one.',
      details: {run: id},
    })
  }
}

export interface NewRun {
  readonly name: string | undefined
  readonly entity: string
  readonly resource: string
  /** Whole tokens, in millitokens. */
  readonly granted: Amounts
  readonly sources: readonly ReservedTokens[]
  readonly endsAtMs: number
}

export function newRunId(table: NamespaceTable, parent: string | undefined): string {
  if (parent === undefined) return randomId(table, ID_BYTES)
  if (depthOfRun(parent) + 1 >= MOST_DEPTH)
    throw new ZaelError('usage', 'run.depth', `The run "${parent}" is ${MOST_DEPTH} levels deep, and cannot delegate.`)
  return subRunId(parent, randomId(table, PART_BYTES))
}

/** A quota whose only period is longer than any run. */
const limitsOf = (granted: Amounts): Limit[] =>
  [...granted].map(([name, milli]) =>
    makeLimit({
      ...{name, capacity: toTokens(milli), refillAmount: 0, refillPeriodSeconds: 1},
      reset: {afterSeconds: MAX_PERIOD_SECONDS},
    }),
  )

/**
 * Stores a run with its bucket, together or not at all. Throws `RunEnded` if the parent has ended. Repeating it with the
 * same id changes nothing. `onDoubt`: an attempt may still be applied, whatever the outcome.
 */
export async function createRun(
  table: NamespaceTable,
  id: string,
  run: NewRun,
  {parent, onDoubt}: {readonly parent?: string | undefined; readonly onDoubt?: () => void} = {},
): Promise<RunRecord> {
  const {namespace} = table
  const {resource, granted} = run
  const nowMs = table.clock()
  const limits = limitsOf(granted)
  const full = new Map<string, BucketLimit>()
  for (const limit of limits) {
    const rate = kindedRateOf(limit, nowMs)
    full.set(limit.name, startingLimit(limit.name, rate, {shard: 0, shardCount: 1}, nowMs, true))
  }
  const state = {refilledAtMs: nowMs, limits: full}
  const bucket: BucketRecord = {
    ...{namespace, entity: runEntity(id), resource, shard: 0, shardCount: 1, cascade: false, parent: undefined},
    ...{ttlSeconds: undefined, state, validUntilMs: validityOf(state, nowMs)},
  }
  const mark = newMark(table)
  const created = {...run, namespace, id, startedAtMs: nowMs, incarnation: mark.nonce}
  const items = [
    newRecord(table, id, resource, encodeRun(created, limits)),
    updateItem(createUpdate(table, bucket, {amounts: new Map(), requests: 0}, mark)),
    ...(parent === undefined ? [] : [withSubRun(table, parent, resource, id)]),
  ]
  try {
    await transact(table, items, onDoubt && {onDoubt})
    return {...created, subRuns: []}
  } catch (error) {
    const stored = isRefused(error, 0) ? await readRun(table, id, resource) : undefined
    if (stored && !stored.end) return stored
    if (stored) throw new RunEnded(id)
    if (parent !== undefined && isRefused(error, 2)) throw await whyNoSubRun(table, parent, resource)
    throw error
  }
}

/** UpdateItem, because acquire-only permissions lack PutItem. */
function newRecord(table: NamespaceTable, id: string, resource: string, item: ReturnType<typeof encodeRun>) {
  const e = new ExpressionBuilder().absent()
  for (const [name, value] of Object.entries(withoutKey(item))) e.set(name, value)
  return updateItem({...recordOf(table, id, resource), ...e.update()})
}

const recordOf = ({name, namespace}: NamespaceTable, id: string, resource: string) => ({
  TableName: name,
  Key: wireKey(runKey(namespace, id, resource)),
})

function withSubRun(table: NamespaceTable, parent: string, resource: string, id: string): TransactItem {
  const e = requireOpenRun(new ExpressionBuilder())
  e.absent(attributes.config.disabled)
  const stored = e.name(names.subRuns)
  e.condition(`attribute_not_exists(${stored}) OR size(${stored}) < ${e.value(n(MOST_SUB_RUNS))}`)
  e.add(names.subRuns, {SS: [id]})
  return updateItem({...recordOf(table, parent, resource), ...e.update()})
}

const requireOpenRun = (e: ExpressionBuilder): ExpressionBuilder => e.exists(names.grant).absent(names.end)

async function whyNoSubRun(table: NamespaceTable, id: string, resource: string): Promise<ZaelError> {
  const parent = await readRun(table, id, resource)
  if (!parent) return new RunMissing(id)
  if (parent.end || parent.subRuns.length < MOST_SUB_RUNS) return new RunEnded(id)
  const message = `The run "${id}" has ${MOST_SUB_RUNS} open sub-runs, and cannot have more.`
  return new ZaelError('conflict', 'run.sub-runs', message, {hint: 'End some of them.', details: {run: id}})
}

/**
 * Counts the amount where it came from, so that rates of consumption leave it out: the run's bucket counts what is spent.
 * Not repeated if it may have been applied; an end subtracts what comes back.
 */
export async function noteDelegated(table: NamespaceTable, sources: readonly ReservedTokens[]): Promise<void> {
  const byItem = groupBy(sources, ({entity, resource, shard}) => JSON.stringify([entity, resource, shard]))
  await Promise.all(
    Array.from(byItem.values(), async taken => {
      const [{entity, resource, shard, incarnation}] = taken as [ReservedTokens]
      const e = new ExpressionBuilder().exists(attributes.bucket.refilledAt)
      e.require(attributes.bucket.incarnation, incarnation)
      for (const {limit, milli} of taken) e.add(delegatedAttribute(limit), n(milli))
      const Key = wireKey(keys.bucket(table.namespace, entity, resource, shard))
      const update = {TableName: table.name, Key, ...e.update()}
      await retrying(() => table.transport.send('UpdateItem', update), table.backoff)
    }),
  )
}

/**
 * For a run of which nobody knows whether it was created: it never will be, or it is ended. Resolves to whether its tokens
 * are still charged without a run.
 */
export async function preventRun(table: NamespaceTable, id: string, run: NewRun): Promise<boolean> {
  const nowMs = table.clock()
  const prevented = {...run, namespace: table.namespace, id, startedAtMs: nowMs, incarnation: '', sources: []}
  const item = {
    ...encodeRun({...prevented, granted: new Map()}, []),
    ...endAttributes(table, prevented, {atMs: nowMs, spent: new Map(), returns: []}),
  }
  const isPrevented = await transact(table, [newRecord(table, id, run.resource, item)]).then(
    () => true,
    error => {
      if (isRefused(error, 0)) return false
      throw error
    },
  )
  if (isPrevented) return true
  const ended = await endRun(table, id)
  return ended.run.incarnation === ''
}

function endAttributes({namespace}: NamespaceTable, {id, endsAtMs}: Pick<RunRecord, 'id' | 'endsAtMs'>, end: RunEnd) {
  return {
    ...runIndexKeys({namespace, id, endsAtMs, end}),
    [names.end]: s(spellRunEnd(end)),
    [names.expiresAt]: n(runExpiry(end.atMs)),
    // Requests to the run's bucket are refused by the entity's switch.
    [attributes.config.disabled]: bool(true),
  }
}

/** Strongly consistent. Without the resource, reads the entity's configurations. */
export async function readRun(table: NamespaceTable, id: string, resource?: string): Promise<RunRecord | undefined> {
  if (!isRunId(id)) return undefined
  const [found] = await decodeRange(table, ranges.configsOfEntity(table.namespace, runEntity(id)), item => {
    const run = decodeRun(item)
    return resource === undefined || run?.resource === resource ? run : undefined
  })
  return found
}

export async function neededRun(table: NamespaceTable, id: string): Promise<RunRecord> {
  const run = await readRun(table, id)
  if (run && run.granted.size > 0) return run
  throw new RunMissing(id)
}

export interface EndedRun {
  readonly run: RunRecord & {readonly end: RunEnd}
  /** Bucket items that this call has changed. */
  readonly addresses: readonly BucketAddress[]
}

/**
 * Ends a run after its sub-runs, and returns its rest to the period that it came from. One transaction per run, so that
 * requests are refused from the moment on at which the rest is returned. Repeating it changes nothing.
 */
export async function endRun(table: NamespaceTable, id: string): Promise<EndedRun> {
  const addresses: BucketAddress[] = []
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    const run = await readRun(table, id)
    if (!run) throw new RunMissing(id)
    const {end} = run
    if (end) return {run: {...run, end}, addresses}
    if (run.subRuns.length > 0) {
      for (const each of run.subRuns) addresses.push(...(await endRun(table, each)).addresses)
      continue
    }
    const shards = [...(await readBucket(table, runEntity(id), run.resource, 0)).values()]
    const planned = await planEnd(table, run, shards)
    try {
      await transact(table, planned.items)
      return {run: {...run, end: planned.end}, addresses: [...addresses, ...planned.addresses]}
    } catch (error) {
      if (!(error instanceof TransactionCancelled)) throw error
    }
    // Otherwise a busy run would never be unchanged for long enough.
    if (tries >= FREE_TRIES) await refuseRequests(table, run, shards)
    await pause(tries, table.backoff)
  }
  throw new Throttled('TransactWriteItems', new Error('the run changes faster than it can be read'))
}

async function planEnd(
  table: NamespaceTable,
  run: RunRecord,
  shards: readonly BucketRecord[],
): Promise<{readonly items: TransactItem[]; readonly end: RunEnd; readonly addresses: readonly BucketAddress[]}> {
  const {id, granted, sources, resource} = run
  const parent = parentRunId(id)
  const spent = spentOf(run, shards)
  const rest = new Map([...granted].map(([name, milli]) => [name, milli - (spent.get(name) ?? 0n)]))
  const tokens = restOfSources(sources, rest)
  const plan = await planReturns(table, tokens, true)
  const back = new Set(plan.returned)
  const end = {
    atMs: table.clock(),
    spent,
    returns: returnsOf(
      run,
      rest,
      tokens.filter((_, at) => back.has(at)),
    ),
  }
  const e = requireOpenRun(new ExpressionBuilder())
  e.absent(names.subRuns)
  for (const [name, value] of Object.entries(endAttributes(table, run, end))) e.set(name, value)
  const hasParent = parent !== undefined && (await readRun(table, parent, resource)) !== undefined
  const items = [
    updateItem({...recordOf(table, id, resource), ...e.update()}),
    ...shards.map(shard => updateItem(closeUpdate(table, shard, granted.keys(), end.atMs))),
    ...(hasParent ? [withoutSubRun(table, parent, resource, id)] : []),
    ...plan.updates.map(updateItem),
  ]
  return {items, end, addresses: [...shards, ...plan.addresses]}
}

function withoutSubRun(table: NamespaceTable, parent: string, resource: string, id: string): TransactItem {
  const e = new ExpressionBuilder().exists(names.grant).delete(names.subRuns, {SS: [id]})
  return updateItem({...recordOf(table, parent, resource), ...e.update()})
}

/** Everything, if the bucket was deleted or reset: nobody knows how much. */
export function spentOf({granted, incarnation}: RunRecord, shards: readonly BucketRecord[]): Map<string, bigint> {
  const isKnown = shards.some(({shard}) => shard === 0) && shards.every(each => each.incarnation === incarnation)
  const spent = new Map<string, bigint>()
  for (const [name, milli] of granted) {
    const counts = shards.map(({state}) => state.limits.get(name)?.consumedMilli)
    const isCounted = isKnown && !counts.includes(undefined)
    spent.set(name, isCounted ? counts.reduce((sum: bigint, count) => sum + (count ?? 0n), 0n) : milli)
  }
  return spent
}

/** Each level gave the whole amount, so each gets the whole rest: the items that gave it, or the first one is charged. */
function restOfSources(sources: readonly ReservedTokens[], rest: Amounts): ReservedTokens[] {
  const left = new Map<string, bigint>()
  return sources.flatMap(source => {
    const level = JSON.stringify([source.entity, source.limit])
    const due = left.get(level) ?? rest.get(source.limit) ?? 0n
    const milli = due > source.milli ? source.milli : due
    left.set(level, due - milli)
    return milli === 0n ? [] : [{...source, milli}]
  })
}

function returnsOf(run: RunRecord, rest: Amounts, returned: readonly ReservedTokens[]): RunReturn[] {
  const {sources, granted, entity} = run
  return [...granted.keys()].flatMap(limit => {
    const levels = new Set(sources.filter(each => each.limit === limit).map(each => each.entity))
    // A bypassed entity gave nothing.
    if (levels.size === 0) levels.add(entity)
    return Array.from(levels, (level): RunReturn => {
      const parts = returned.filter(each => each.entity === level && each.limit === limit)
      const returnedMilli = parts.reduce((sum, {milli}) => sum + milli, 0n)
      return {entity: level, limit, returnedMilli, lapsedMilli: (rest.get(limit) ?? 0n) - returnedMilli}
    })
  })
}

/** Takes what is left, on condition that nothing was spent or settled since. Open leases cannot refund it any more. */
function closeUpdate(
  table: NamespaceTable,
  record: BucketRecord,
  limits: Iterable<string>,
  nowMs: number,
): BucketUpdate {
  const e = new ExpressionBuilder()
  const mark = newMark(table)
  e.require(attributes.bucket.limitsRevision, record.limitsRevision)
  for (const name of limits) {
    const stored = record.state.limits.get(name)
    if (!stored) continue
    e.require(limitAttribute(name, 'consumed'), stored.consumedMilli)
    e.require(limitAttribute(name, 'tokens'), stored.tokensMilli)
    e.add(limitAttribute(name, 'tokens'), n(-stored.tokensMilli))
  }
  e.set(attributes.bucket.disabled, bool(true)).set(attributes.bucket.expiresAt, n(runExpiry(nowMs)))
  e.set(attributes.bucket.incarnation, s(mark.nonce))
  return markedUpdate(table, record, e, mark, {isRevision: true})
}

/** The run stays open, but its bucket does not change any more, except by settlements. */
async function refuseRequests(table: NamespaceTable, run: RunRecord, shards: readonly BucketRecord[]): Promise<void> {
  const e = requireOpenRun(new ExpressionBuilder()).set(attributes.config.disabled, bool(true))
  const access = {access: 'disabled', readAtMs: table.clock()} as const
  const updates = [
    {...recordOf(table, run.id, run.resource), ...e.update()},
    ...shards.map(shard => stampUpdate(table, shard, access, newMark(table))),
  ]
  for (const update of updates) {
    await sendRepeatable(table, 'UpdateItem', update).catch(error => {
      if (!(error instanceof ConditionFailed)) throw error
    })
  }
}

/** Ends the runs whose time is over, and resolves to the changed bucket items. Repeatable. */
export async function endDueRuns(table: NamespaceTable): Promise<BucketAddress[]> {
  const nowMs = table.clock()
  const changed: BucketAddress[] = []
  for await (const item of readAll(table, ranges.dueRuns(table.namespace, instantKey(nowMs)))) {
    const {id} = runIdIn(item) ?? {}
    if (id === undefined) continue
    // Another process may be ending it, and the index is read later than the table.
    const run = await readRun(table, id)
    if (!run || run.end || run.endsAtMs > nowMs) continue
    // One that cannot be ended now must not keep the others open.
    const ended = await endRun(table, id).catch(valueFor([ZaelError], undefined))
    changed.push(...(ended?.addresses ?? []))
  }
  return changed
}

interface RunListing extends PageRequest {
  readonly ended?: boolean | undefined
}

/** By end: open runs, or those that ended in the last week. */
export async function listRuns(
  table: NamespaceTable,
  {ended = false, ...page}: RunListing = {},
): Promise<RecordPage<RunRecord>> {
  const range = ended ? ranges.endedRuns(table.namespace) : ranges.openRuns(table.namespace)
  const {records, next} = await readPage(table, {kind: 'runs', ...range}, page)
  const found = await Promise.all(records.map(item => readRun(table, runIdIn(item)?.id ?? '')))
  // One without an amount was never created: see `preventRun`.
  return {records: found.flatMap(run => (run && run.granted.size > 0 ? run : [])), next}
}
