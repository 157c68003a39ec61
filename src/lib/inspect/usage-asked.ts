import {groupBy} from '../core/group-by.js'
import {LEVELS} from '../core/resolve.js'
import {chunksOf} from '../dynamo/concurrency.js'
import {scopesOf} from '../repository/limits/resolver.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {ConfigScope} from '../schema/config-record.js'
import type {EntityRecord} from '../schema/entity-record.js'
import {chargedParent, familyOf} from '../schema/family.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {amountOf, eachAmount, type NumberedAmounts, NumberedNames} from './numbered-names.js'

/** Entities whose parents are looked up together; each has two levels of its own. */
const ENTITIES_PER_READ = 500

/** Requests, and whole tokens by limit. */
interface Figures {
  readonly totalEvents: number
  readonly tokens: NumberedAmounts
}

interface Charged extends Figures {
  readonly entity: string
}

/** The part of usage that an entity requested itself. */
export interface AskedFigures {
  readonly totalEvents: number
  readonly tokens: ReadonlyMap<string, number>
}

/**
 * Brings usage of several entities into a form that can be added up: a request that cascades is charged to the parent too,
 * but was requested once. Which entities cascade is taken from their records and the policies as they are now.
 *
 * Takes records as they are listed: those of one window and resource follow one another. Keeps a window, and the parents
 * of entities that it has seen.
 */
export class AskedUsage {
  readonly #namespace: NamespaceRepository
  readonly #take: (asked: AskedFigures, resource: string) => void
  readonly #limits = new NumberedNames()
  /** By resource and entity. */
  readonly #parents = new Map<string, Map<string, string | undefined>>()
  #members: Charged[] = []
  #resource = ''
  #start = ''

  /** `take` is called for each record, when its window is complete. */
  constructor(namespace: NamespaceRepository, take: (asked: AskedFigures, resource: string) => void) {
    this.#namespace = namespace
    this.#take = take
  }

  async add({entity, resource, start, totalEvents, tokens}: UsageRecord): Promise<void> {
    if (start !== this.#start || resource !== this.#resource) await this.end()
    this.#start = start
    this.#resource = resource
    this.#members.push({entity, totalEvents, tokens: this.#limits.amounts(tokens)})
  }

  /** Completes the last window. */
  async end(): Promise<void> {
    const members = this.#members
    const resource = this.#resource
    this.#members = []
    const parents = members.length < 2 ? new Map<string, undefined>() : await this.#parentsOf(members, resource)
    for (const {totalEvents, tokens} of askedIn(members, ({entity}) => parents.get(entity)))
      this.#take({totalEvents, tokens: this.#limits.mapOf(tokens)}, resource)
  }

  /** The parents that the requests of entities are charged to as well. */
  async #parentsOf(members: readonly Charged[], resource: string): Promise<ReadonlyMap<string, string | undefined>> {
    const known = this.#parents.get(resource) ?? new Map<string, string | undefined>()
    this.#parents.set(resource, known)
    const unknown = members.flatMap(({entity}) => (known.has(entity) ? [] : [entity]))
    for await (const chunk of chunksOf(new Set(unknown), ENTITIES_PER_READ)) {
      const found = await this.#namespace.entities.getMany(chunk)
      const children = new Map(found.filter(({parent}) => parent !== undefined).map(child => [child.entity, child]))
      const parentOf = await chargedParents(this.#namespace, children, resource)
      for (const entity of chunk) known.set(entity, parentOf(entity))
    }
    return known
  }
}

/** Reads the cascade policies that concern children; of all levels the most specific counts. */
async function chargedParents(
  {configs}: NamespaceRepository,
  children: ReadonlyMap<string, EntityRecord>,
  resource: string,
): Promise<(entity: string) => string | undefined> {
  const levels = (entity: string): ConfigScope[] => {
    const scopes = scopesOf(entity, resource)
    return LEVELS.map(level => scopes[level])
  }
  const scopes = new Map([...children.keys()].flatMap(levels).map(scope => [JSON.stringify(scope), scope]))
  const found = await configs.getMany([...scopes.values()])
  const policies = new Map([...scopes.keys()].map((id, at) => [id, found[at]?.cascade]))
  return entity => {
    const policy = levels(entity).map(scope => policies.get(JSON.stringify(scope)))
    return chargedParent(
      familyOf(
        children.get(entity),
        policy.find(each => each !== undefined),
      ),
    )
  }
}

/** For the records of one window and resource: what a parent was charged for its children, it did not request. */
function askedIn(members: readonly Charged[], parentOf: (member: Charged) => string | undefined): Figures[] {
  const childrenOf = groupBy(members, parentOf)
  const asked = new Map<string, Figures>()
  const askedOf = (member: Charged): Figures => {
    const children = childrenOf.get(member.entity)
    if (!children) return member
    const known = asked.get(member.entity)
    if (known) return known
    // Other clients can store a cycle of parents: an entity that is met again counts as charged.
    asked.set(member.entity, member)
    const own = children.map(askedOf).reduce(less, member)
    asked.set(member.entity, own)
    return own
  }
  return members.map(askedOf)
}

/** Never below zero: a parent need not have all the limits of its children. */
function less(charged: Figures, child: Figures): Figures {
  const rest = (from: number, part: number) => (part > 0 ? Math.max(Math.min(from, 0), from - part) : from - part)
  const tokens = Array.from(eachAmount(charged.tokens), ([limit, amount]) => [
    limit,
    rest(amount, amountOf(child.tokens, limit)),
  ])
  return {totalEvents: rest(charged.totalEvents, child.totalEvents), tokens: tokens.flat()}
}
