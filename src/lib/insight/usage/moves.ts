import {ulidTimeMs} from '../../core/ulid.js'
import {windowEndMs} from '../../core/window.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AuditRecord} from '../../schema/audit-record.js'
import type {UsageRecord} from '../../schema/usage-record.js'

/** An entity came to a parent, or left it. */
export interface ParentMove {
  readonly entity: string
  /** Epoch ms. */
  readonly atMs: number
  /** `undefined`: it had no parent. */
  readonly from: string | undefined
  /** `undefined`: it has no parent since. */
  readonly to: string | undefined
}

/** All moves, oldest first, as far as audit events are kept. Reads the keys of all events. */
export async function movesSince({audit}: Pick<NamespaceRepository, 'audit'>, sinceMs: number): Promise<ParentMove[]> {
  const {records} = await audit.listAll({action: 'entity_updated', sinceMs})
  return records.flatMap(event => moveIn(event) ?? []).toReversed()
}

export interface EntityDeletion {
  readonly entity: string
  /** Epoch ms. */
  readonly atMs: number
}

/** All deletions, oldest first, as far as audit events are kept. Reads the keys of all events. */
export async function deletionsSince(
  {audit}: Pick<NamespaceRepository, 'audit'>,
  sinceMs: number,
): Promise<EntityDeletion[]> {
  const {records} = await audit.listAll({action: 'entity_deleted', sinceMs})
  return records.map(event => ({entity: event.entity, atMs: instantOf(event)})).toReversed()
}

const instantOf = ({eventId, timestamp}: AuditRecord): number => ulidTimeMs(eventId) ?? Date.parse(timestamp)

function moveIn(event: AuditRecord): ParentMove | undefined {
  const {entity, details} = event
  const {before, after} = details as {before?: {parent_id?: unknown}; after?: {parent_id?: unknown}}
  if (before?.parent_id === undefined || after?.parent_id === undefined) return undefined
  const idOf = (parent: unknown) => (typeof parent === 'string' ? parent : undefined)
  return {entity, atMs: instantOf(event), from: idOf(before.parent_id), to: idOf(after.parent_id)}
}

/** Decides which usage of a member its parent may have been charged for. */
export class Membership {
  readonly #parent: string
  readonly #moves = new Map<string, ParentMove[]>()
  /** Charges of the parent in the windows of moves, minus the use of its other members; by window and resource. */
  readonly #rest = new Map<string, UsageRecord>()

  constructor(parent: string, moves: readonly ParentMove[]) {
    this.#parent = parent
    for (const move of moves) this.#moves.set(move.entity, [...(this.#moves.get(move.entity) ?? []), move])
  }

  /** Former and present members that moved. */
  get moved(): Iterable<string> {
    return this.#moves.keys()
  }

  /** Notes a record of the parent. Comes before those of the members. */
  addCharged(record: UsageRecord): void {
    const isOfMove = [...this.#moves.values()].some(moves => moves.some(({atMs}) => isWithin(record, atMs)))
    if (isOfMove) this.#rest.set(keyOf(record), record)
  }

  /** The entity moved in this window. */
  isOfMove(record: UsageRecord): boolean {
    return (this.#moves.get(record.entity) ?? []).some(({atMs}) => isWithin(record, atMs))
  }

  /** Another entity moved in this window, and the parent was charged. */
  isBesideMove(record: UsageRecord): boolean {
    return this.#rest.has(keyOf(record)) && !this.isOfMove(record)
  }

  /** Notes use of another member, for which the parent was charged. Comes before those of `isOfMove`. */
  subtract(record: UsageRecord): void {
    const rest = this.#rest.get(keyOf(record))
    if (!rest) return
    const tokens = new Map(
      Array.from(rest.tokens, ([name, left]) => [name, Math.max(0, left - (record.tokens.get(name) ?? 0))] as const),
    )
    this.#rest.set(keyOf(record), {...rest, totalEvents: rest.totalEvents - record.totalEvents, tokens})
  }

  /** Limits of whose use no part can be told, although the parent was charged only a part of the requests: it lacks them. */
  undivided(record: UsageRecord): string[] {
    const charged = this.isOfMove(record) ? this.#rest.get(keyOf(record)) : undefined
    if (!charged || charged.totalEvents <= 0 || charged.totalEvents >= record.totalEvents) return []
    return [...record.tokens].flatMap(([name, used]) => (used === 0 || charged.tokens.has(name) ? [] : [name]))
  }

  /** `undefined`: another parent had it. In the window of a move: at most the rest that the parent was charged. */
  partOf(record: UsageRecord): UsageRecord | undefined {
    if (this.isOfMove(record)) return atMost(record, this.#rest.get(keyOf(record)))
    const moves = this.#moves.get(record.entity) ?? []
    const startMs = Date.parse(record.start)
    const last = moves.findLast(({atMs}) => atMs <= startMs)
    const parent = last ? last.to : moves[0] ? moves[0].from : this.#parent
    return parent === this.#parent ? record : undefined
  }
}

const keyOf = ({resource, start}: UsageRecord): string => `${resource} ${start}`

const isWithin = ({window, start}: UsageRecord, atMs: number): boolean =>
  Date.parse(start) < atMs && atMs < windowEndMs(window, start)

/** A limit that the parent lacks is not charged there: its use is kept if the parent was charged for any request. */
function atMost(record: UsageRecord, charged: UsageRecord | undefined): UsageRecord | undefined {
  if (!charged || charged.totalEvents <= 0) return undefined
  const tokens = new Map(
    Array.from(record.tokens, ([name, used]) => [name, Math.min(used, charged.tokens.get(name) ?? used)] as const),
  )
  return {...record, totalEvents: Math.min(record.totalEvents, charged.totalEvents), tokens}
}
