import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import type {Backoff} from '../../dynamo/retry.js'
import {declareDead, HolderRecords, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import type {Audit} from '../../repository/table/audit.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {HOLDER_MARGIN_MS, HOLDER_PERIOD_MS, type HolderRecord} from '../../schema/holder-record.js'

/** A living process that holds slots beats in this time, in ms. */
const COMPARE_MS = HOLDER_PERIOD_MS + HOLDER_MARGIN_MS

const STEP_MS = 2500

/** `unknown`: not compared. `silent`: no beat in `COMPARE_MS`: dead, or it holds nothing. `dead`: declared dead. */
export type HolderState = 'unknown' | 'alive' | 'silent' | 'dead'

/** The slots that a holder has in one bucket, by limit. */
export interface HeldSlotsOf {
  readonly entity: string
  readonly resource: string
  readonly slots: ReadonlyMap<string, number>
}

export interface CompareOptions {
  /** Called with the ms that have passed of `COMPARE_MS`. */
  readonly onWait?: ((ms: number) => void) | undefined
  /** Time since the first look, in ms. @default 0 */
  readonly passedMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** Waits as long as a living holder may take to beat. */
export async function waitForBeats({sleep}: Pick<Backoff, 'sleep'>, options: CompareOptions = {}): Promise<void> {
  const {onWait, signal} = options
  for (let {passedMs = 0} = options; passedMs < COMPARE_MS; passedMs += STEP_MS) {
    onWait?.(passedMs)
    await sleep(STEP_MS, signal)
    if (signal?.aborted) throw new Aborted('Comparing beats', false, signal.reason)
  }
}

export function stateOf(before: HolderRecord | undefined, after: HolderRecord | undefined): HolderState {
  if (after?.isDead) return 'dead'
  return after?.beat === before?.beat ? 'silent' : 'alive'
}

/** What holders have, by their ids. Reads all buckets of the namespace. */
export async function slotsByHolder(records: HolderRecords, signal?: AbortSignal): Promise<Map<string, HeldSlotsOf[]>> {
  const found = new Map<string, HeldSlotsOf[]>()
  for await (const {entity, resource, slots} of records.held(signal)) {
    for (const [id, {held}] of slots.accounts) {
      if (held.size === 0) continue
      found.set(id, [...(found.get(id) ?? []), {entity, resource, slots: held}])
    }
  }
  return found
}

export interface ReleaseRequest extends CompareOptions {
  readonly id: string
  /** Declare it dead although it may be alive. */
  readonly isForced: boolean
}

export interface Released {
  readonly record: HolderRecord | undefined
  /** It was declared dead before. */
  readonly wasDead: boolean
  /** Slots returned by this call; empty if the holder had none, or others returned them first. */
  readonly returned: readonly HeldSlotsOf[]
}

/** Declares a holder dead and returns its slots. Throws if it is alive, or if nothing is stored of it. */
export async function releaseHolder(
  table: NamespaceTable,
  audit: Audit,
  {id, isForced, ...options}: ReleaseRequest,
): Promise<Released> {
  const heldNow = async () => (await slotsByHolder(new HolderRecords(table), options.signal)).get(id) ?? []
  const before = await readHolder(table, id)
  if (!before && (await heldNow()).length === 0) throw holderMissing(id)
  let seen = before
  if (!before?.isDead && !isForced) {
    await waitForBeats(table.backoff, options)
    seen = await readHolder(table, id)
    if (stateOf(before, seen) === 'alive') throw holderAlive(id, seen)
  }
  const held = await heldNow()
  const wasDead = seen?.isDead ?? false
  // A living process that holds nothing does not beat; leave it alone.
  if (held.length === 0) return {record: seen, wasDead, returned: []}
  if (!wasDead && !(await declareDead(table, id, seen))) {
    const now = await readHolder(table, id)
    if (!now?.isDead && !(isForced && (await declareDead(table, id, now)))) throw holderAlive(id, now)
  }
  const slots = held.flatMap(each => [...each.slots.values()]).reduce((sum, count) => sum + count, 0)
  const details = {holder: id, host: seen?.host ?? null, pid: seen?.pid ?? null, forced: isForced, slots}
  await audit.record({entity: SYSTEM_SUBJECT, action: 'holder_released', details})
  const returned: HeldSlotsOf[] = []
  for (const {entity, resource} of held) {
    const back = await reapSlots(table, {entity, resource}, id)
    if (back.size > 0) returned.push({entity, resource, slots: back})
  }
  return {record: seen, wasDead, returned}
}

function holderAlive(id: string, record: HolderRecord | undefined): ZaelError {
  const {host, pid} = record ?? {}
  const process = host === undefined ? '' : ` (${host}${pid === undefined ? '' : `, pid ${pid}`})`
  return new ZaelError(
    'negative',
    'holder.alive',
    `Holder ${id}${process} is alive: it renewed its slots. Nothing was changed.`,
    {
      hint: `Stop its process. Or return its slots while it works: zael holders release ${id} --force`,
      details: {holder: id, host, pid},
    },
  )
}

function holderMissing(id: string): ZaelError {
  return new ZaelError('notFound', 'holder.missing', `Holder ${JSON.stringify(id)} has no record and holds no slots.`, {
    hint: 'A process that ends in order returns its slots and deletes its record. See: zael holders list',
    details: {holder: id},
  })
}
