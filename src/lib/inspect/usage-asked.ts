import {groupBy} from '../core/group-by.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {UsageRecord} from '../schema/usage-record.js'

/** Requests, and whole tokens by limit. */
type Figures = Pick<UsageRecord, 'totalEvents' | 'tokens'>

/** Usage as it was charged, and the part of it that the entity requested itself. */
export interface AskedUsage {
  readonly record: UsageRecord
  readonly asked: Figures
}

/**
 * Usage of several entities in a form that can be added up: a request that cascades is charged to the parent too, but
 * was requested once. Which entities cascade is taken from their current records.
 */
export async function withAsked(
  {entities}: NamespaceRepository,
  records: readonly UsageRecord[],
): Promise<AskedUsage[]> {
  const names = [...new Set(records.map(({entity}) => entity))]
  if (names.length < 2) return records.map(record => ({record, asked: record}))
  const parentOf = new Map<string, string>()
  for (const {entity, cascade, parent} of await entities.getMany(names)) {
    if (cascade && parent !== undefined) parentOf.set(entity, parent)
  }
  const byWindow = groupBy(records, ({resource, start}) => `${start} ${resource}`)
  return [...byWindow.values()].flatMap(members => askedIn(members, parentOf))
}

/** For the records of one window and resource: what a parent was charged for its children, it did not request. */
function askedIn(records: readonly UsageRecord[], parentOf: ReadonlyMap<string, string>): AskedUsage[] {
  const childrenOf = groupBy(records, ({entity}) => parentOf.get(entity))
  const asked = new Map<string, Figures>()
  const askedOf = (record: UsageRecord): Figures => {
    const known = asked.get(record.entity)
    if (known) return known
    // Other clients can store a cycle of parents: an entity that is met again counts as charged.
    asked.set(record.entity, record)
    const own = (childrenOf.get(record.entity) ?? []).map(askedOf).reduce(less, record)
    asked.set(record.entity, own)
    return own
  }
  return records.map(record => ({record, asked: askedOf(record)}))
}

/** Never below zero: a parent need not have all the limits of its children. */
function less(charged: Figures, child: Figures): Figures {
  const rest = (from: number, part: number) => (part > 0 ? Math.max(Math.min(from, 0), from - part) : from - part)
  return {
    totalEvents: rest(charged.totalEvents, child.totalEvents),
    tokens: new Map(Array.from(charged.tokens, ([name, tokens]) => [name, rest(tokens, child.tokens.get(name) ?? 0)])),
  }
}
