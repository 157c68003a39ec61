import {ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {toTokens} from '../../core/token-math.js'
import {Aborted} from '../../dynamo/errors.js'
import type {Backoff} from '../../dynamo/retry.js'
import {declareDead, HolderRecords, readHolder, reapSlots} from '../../repository/buckets/holders.js'
import {openReservations, returnReservation} from '../../repository/buckets/reservations.js'
import type {Audit} from '../../repository/table/audit.js'
import type {NamespaceTable} from '../../repository/table/table.js'
import {SYSTEM_SUBJECT} from '../../schema/audit-record.js'
import {HOLDER_MARGIN_MS, HOLDER_PERIOD_MS, type HolderRecord} from '../../schema/holder-record.js'
import type {ReservedTokens} from '../../schema/reservation-record.js'

/** A living process that holds slots or reservations beats in this time, in ms. */
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

/** The tokens that a holder has reserved of one bucket, by limit. */
export interface ReservedOf {
  readonly entity: string
  readonly resource: string
  readonly tokens: ReadonlyMap<string, number>
}

/** Sums the tokens of all shards and reservations. */
export function reservedOf(reserved: readonly ReservedTokens[]): ReservedOf[] {
  const buckets = groupBy(reserved, ({entity, resource}) => JSON.stringify([entity, resource]))
  const names = [...buckets.keys()].sort()
  return names.map(name => {
    const all = buckets.get(name) as [ReservedTokens]
    const [{entity, resource}] = all
    return {entity, resource, tokens: tokensByLimit(all)}
  })
}

function tokensByLimit(reserved: readonly ReservedTokens[]): Map<string, number> {
  const sums = new Map<string, bigint>()
  for (const {limit, milli} of reserved) sums.set(limit, (sums.get(limit) ?? 0n) + milli)
  return new Map(Array.from(sums, ([limit, milli]) => [limit, toTokens(milli)]))
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

/** Slots and reservations by holder id. Reads all buckets of the namespace. */
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
  /** Reserved tokens returned by this call, like `returned`. */
  readonly tokens: readonly ReservedOf[]
}

/** Declares a holder dead and returns its slots and reserved tokens. Throws if it is alive, or if nothing is stored of it. */
export async function releaseHolder(
  table: NamespaceTable,
  audit: Audit,
  {id, isForced, ...options}: ReleaseRequest,
): Promise<Released> {
  const heldNow = async () => {
    const slots = (await slotsByHolder(new HolderRecords(table), options.signal)).get(id) ?? []
    return {slots, reservations: await openReservations(table, id)}
  }
  const isNothing = ({slots, reservations}: Awaited<ReturnType<typeof heldNow>>) =>
    slots.length === 0 && reservations.length === 0
  const before = await readHolder(table, id)
  if (!before && isNothing(await heldNow())) throw holderMissing(id)
  let seen = before
  if (!before?.isDead && !isForced) {
    await waitForBeats(table.backoff, options)
    seen = await readHolder(table, id)
    if (stateOf(before, seen) === 'alive') throw holderAlive(id, seen)
  }
  const held = await heldNow()
  const wasDead = seen?.isDead ?? false
  // A living process that holds nothing does not beat; leave it alone.
  if (isNothing(held)) return {record: seen, wasDead, returned: [], tokens: []}
  if (!wasDead && !(await declareDead(table, id, seen))) {
    const now = await readHolder(table, id)
    if (!now?.isDead && !(isForced && (await declareDead(table, id, now)))) throw holderAlive(id, now)
  }
  const slots = held.slots.flatMap(each => [...each.slots.values()]).reduce((sum, count) => sum + count, 0)
  const reserved = Object.fromEntries(tokensByLimit(held.reservations.flatMap(({tokens}) => tokens)))
  const details = {holder: id, host: seen?.host ?? null, pid: seen?.pid ?? null, forced: isForced, slots, reserved}
  await audit.record({entity: SYSTEM_SUBJECT, action: 'holder_released', details})
  const returned: HeldSlotsOf[] = []
  for (const {entity, resource} of held.slots) {
    const back = await reapSlots(table, {entity, resource}, id)
    if (back.size > 0) returned.push({entity, resource, slots: back})
  }
  const tokens: ReservedTokens[] = []
  for (const each of held.reservations) tokens.push(...((await returnReservation(table, each))?.tokens ?? []))
  return {record: seen, wasDead, returned, tokens: reservedOf(tokens)}
}

function holderAlive(id: string, record: HolderRecord | undefined): ZaelError {
  const {host, pid} = record ?? {}
  const process = host === undefined ? '' : ` (${host}${pid === undefined ? '' : `, pid ${pid}`})`
  return new ZaelError(
    'negative',
    'holder.alive',
    `Holder ${id}${process} is alive: it renewed its record. Nothing was changed.`,
    {
      hint: `Stop its process. To return its slots and reserved tokens while it works: zael holders release ${id} --force`,
      details: {holder: id, host, pid},
    },
  )
}

function holderMissing(id: string): ZaelError {
  return new ZaelError(
    'notFound',
    'holder.missing',
    `Holder ${JSON.stringify(id)} has no record, slots or reserved tokens.`,
    {
      hint: 'A process that ends normally returns its slots and tokens, and deletes its record. See: zael holders list',
      details: {holder: id},
    },
  )
}
