import {groupBy} from '../core/group-by.js'
import {LEVELS} from '../core/resolve.js'
import {scopesOf} from '../repository/limits/resolver.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {chargedParent, familyOf} from '../schema/family.js'
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
 * was requested once. Which entities cascade is taken from their records and the policies as they are now.
 */
export async function withAsked(
  namespace: NamespaceRepository,
  records: readonly UsageRecord[],
): Promise<AskedUsage[]> {
  const names = [...new Set(records.map(({entity}) => entity))]
  if (names.length < 2) return records.map(record => ({record, asked: record}))
  const children = (await namespace.entities.getMany(names)).filter(({parent}) => parent !== undefined)
  const parentOf = await chargedParents(namespace, new Map(children.map(child => [child.entity, child])), records)
  const byWindow = groupBy(records, ({resource, start}) => `${start} ${resource}`)
  return [...byWindow.values()].flatMap(members => askedIn(members, parentOf))
}

/** The parent that the requests of a record are charged to as well, if any. */
type ParentOf = (record: UsageRecord) => string | undefined

/** Reads the cascade policies that concern children; of all levels the most specific counts. */
async function chargedParents(
  {configs}: NamespaceRepository,
  children: ReadonlyMap<string, EntityRecord>,
  records: readonly UsageRecord[],
): Promise<ParentOf> {
  const levels = ({entity, resource}: UsageRecord): ConfigScope[] => {
    const scopes = scopesOf(entity, resource)
    return LEVELS.map(level => scopes[level])
  }
  const ofChildren = records.filter(({entity}) => children.has(entity))
  const scopes = new Map(ofChildren.flatMap(levels).map(scope => [JSON.stringify(scope), scope]))
  const found = await configs.getMany([...scopes.values()])
  const policies = new Map([...scopes.keys()].map((id, at) => [id, found[at]?.cascade]))
  return record => {
    const policy = levels(record).map(scope => policies.get(JSON.stringify(scope)))
    return chargedParent(
      familyOf(
        children.get(record.entity),
        policy.find(each => each !== undefined),
      ),
    )
  }
}

/** For the records of one window and resource: what a parent was charged for its children, it did not request. */
function askedIn(records: readonly UsageRecord[], parentOf: ParentOf): AskedUsage[] {
  const childrenOf = groupBy(records, parentOf)
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
