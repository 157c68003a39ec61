import {moneyDecimal} from '../../core/text/money.js'
import {type Window, windowEndMs, windowStart} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import type {ParentMove} from './moves.js'
import {countedLimits, NOT_REFUSED, providerTotal, refusedByOthers, refusedIn} from './refused.js'
import {chargedParents} from './usage-asked.js'

/** Batches wait for up to five minutes, and counts of refusals for ten seconds more. */
const LATE_MS = 10 * 60_000

export interface ExportRequest {
  readonly window: Window
  readonly sinceMs: number
  readonly untilMs: number
}

/** From the start of the first window to the end of the last: only whole windows are exported. */
export function wholeWindows({window, sinceMs, untilMs}: ExportRequest): {sinceMs: number; untilMs: number} {
  return {
    sinceMs: Date.parse(windowStart(window, sinceMs)),
    untilMs: windowEndMs(window, windowStart(window, untilMs - 1)),
  }
}

/** All usage of a namespace, by entity, each newest first. Holds some pages and the parents in memory. */
export async function* exportUsage(
  namespace: NamespaceRepository,
  request: ExportRequest,
  nowMs: number,
  moves: readonly ParentMove[] = [],
): AsyncGenerator<ExportedUsage, void> {
  const {entities, usage, configs} = namespace
  const units = await configs.units()
  const charged = await ChargedParents.find(namespace, moves)
  for await (const {of, record} of usage.ofEntities(entities.everyId(), request)) {
    const open = windowEndMs(record.window, record.start) + LATE_MS > nowMs
    const kind = (await charged.includes(record)) ? 'shared' : 'own'
    yield* rowsOf(record, {parent: of.record?.parent ?? null, open, kind}, units)
  }
}

const CHILDREN_PER_READ = 500

/** Entities that requests of others charge, or charged before these moved. */
class ChargedParents {
  readonly #namespace: NamespaceRepository
  readonly #parents: ReadonlySet<string>
  readonly #former: ReadonlySet<string>
  /** Of the current entity only. */
  #entity = ''
  #children: readonly EntityRecord[] = []
  readonly #isCharged = new Map<string, boolean>()

  private constructor(namespace: NamespaceRepository, parents: ReadonlySet<string>, moves: readonly ParentMove[]) {
    this.#namespace = namespace
    this.#parents = parents
    this.#former = new Set(moves.flatMap(({from = [], to = []}) => [from, to].flat()))
  }

  static async find(namespace: NamespaceRepository, moves: readonly ParentMove[]): Promise<ChargedParents> {
    const parents = new Set<string>()
    for await (const {record} of namespace.entities.everyId()) if (record?.parent) parents.add(record.parent)
    return new ChargedParents(namespace, parents, moves)
  }

  async includes({entity, resource}: Pick<UsageRecord, 'entity' | 'resource'>): Promise<boolean> {
    if (this.#former.has(entity)) return true
    if (!this.#parents.has(entity)) return false
    if (entity !== this.#entity) {
      this.#entity = entity
      this.#isCharged.clear()
      this.#children = await this.#namespace.entities.children(entity)
    }
    const known = this.#isCharged.get(resource) ?? (await this.#anyCharges(resource))
    this.#isCharged.set(resource, known)
    return known
  }

  async #anyCharges(resource: string): Promise<boolean> {
    for await (const chunk of chunksOf(this.#children, CHILDREN_PER_READ)) {
      const byId = new Map(chunk.map(child => [child.entity, child]))
      const parentOf = await chargedParents(this.#namespace, byId, resource)
      if (chunk.some(({entity}) => parentOf(entity) === this.#entity)) return true
    }
    return false
  }
}

/** One limit in one window, as the schema of `zael usage export` describes it. */
export type ExportedUsage = Readonly<ReturnType<typeof rowsOf>[number]>

function rowsOf(
  record: UsageRecord,
  {parent, open, kind}: {readonly parent: string | null; readonly open: boolean; readonly kind: 'own' | 'shared'},
  units: ReadonlyMap<string, string>,
) {
  const {entity, resource, window, start, totalEvents: requests} = record
  const refusals = refusedIn([record])
  const {requests: requestsRefused, blocked, limits} = refusals
  const {byParent: requestsRefusedByParent, byProvider} = refusedByOthers(refusals)
  const requestsRefusedByProvider = providerTotal(byProvider)
  const counts = {requests, requestsRefused, requestsRefusedByParent}
  const names = countedLimits([record])
  return (names.length === 0 ? [null] : names).flatMap(limit => {
    const consumed = record.tokens.get(limit ?? '') ?? 0
    const overdrawn = record.overdrawn?.get(limit ?? '') ?? 0
    const {requests: refused, tokens: refusedTokens} = limits.get(limit ?? '') ?? NOT_REFUSED
    // Refunds may leave nothing.
    if ([...Object.values(counts), requestsRefusedByProvider, consumed, overdrawn, refused].every(count => count === 0))
      return []
    const unit = units.get(limit ?? '') ?? null
    const money = (tokens: number) => (unit === null ? null : moneyDecimal(tokens))
    return [
      {
        ...{entity, parent, resource, window, start, open, ...counts, limit, unit},
        ...{consumed, amount: money(consumed), overdrawn},
        ...{
          refused,
          refusedTokens,
          refusedAmount: money(refusedTokens),
          requestsBlocked: blocked,
          requestsRefusedByProvider,
          kind,
        },
      },
    ]
  })
}
