import {groupBy} from '../../core/group-by.js'
import {LEVELS} from '../../core/limits/limit.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import {scopesOf} from '../../repository/limits/resolver.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {chargedParent, familyOf} from '../../schema/family.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {refusedByOthers, refusedIn} from './refused.js'

/** Entities per lookup of parents. Each has two levels. */
const ENTITIES_PER_READ = 500

/** Usage that an entity requested itself, in whole tokens by limit. */
export interface AskedFigures {
  readonly totalEvents: number
  readonly tokens: ReadonlyMap<string, number>
}

/** Requests that the entity's own limits refused, and those that only its parent refused. */
interface RefusedSum {
  readonly own: number
  readonly byParent: number
}

/**
 * Makes usage of several entities addable: a cascading request is charged to parents too but counts once, by the current
 * records, policies and levels. Records must be grouped by window and resource. Keeps one window, the parents
 * seen, and a sum for each refused entity.
 */
export class AskedUsage {
  readonly #namespace: NamespaceRepository
  readonly #take: (asked: AskedFigures, resource: string) => void
  /** By resource, then entity. */
  readonly #parents = new Map<string, Map<string, string | undefined>>()
  /** Interns names: records of children hold copies. */
  readonly #parentNames = new Map<string, string>()
  /** By entity, over all windows. */
  readonly #refused = new Map<string, RefusedSum>()
  #chargesAll: Promise<boolean> | undefined
  #charged = new ChargedWindow()
  #resource = ''
  #start = ''
  #doubtful = 0

  /** `take` is called for each record, once its window is complete. */
  constructor(namespace: NamespaceRepository, take: (asked: AskedFigures, resource: string) => void) {
    this.#namespace = namespace
    this.#take = take
  }

  /**
   * At most so many requests count twice. If a parent was not charged for requests of a child, the child may have had
   * another parent then, which seems to have made them itself.
   */
  get doubtful(): number {
    return this.#doubtful
  }

  /**
   * At most so many refusals were counted twice, by an entity and by its parent. Buckets count a refusal for each of them.
   * `isPart`: other records may hold the refusals that only a parent counts. Comes after `end`, for one resource.
   */
  async refusedTwice(isPart: boolean): Promise<number> {
    if (this.#refused.size < 2) return 0
    const parents = await this.#parentsOf([...this.#refused.keys()], this.#resource)
    const families = new Map<string, RefusedSum>()
    for (const [entity, {own, byParent}] of this.#refused) {
      const parent = parents.get(entity)
      const sum = parent === undefined ? undefined : (families.get(parent) ?? {own: 0, byParent: 0})
      if (parent !== undefined && sum) families.set(parent, {own: sum.own + own, byParent: sum.byParent + byParent})
    }
    let twice = 0
    for (const [parent, children] of families) {
      const own = await this.#refusedFrom(parent, parents)
      twice += Math.max(0, Math.min(children.own, own - (isPart ? 0 : children.byParent)))
    }
    // Of an earlier parent, only this is certain: both counts are among those that are not of the parent alone.
    return this.#doubtful === 0 ? twice : this.#mostTwice(isPart)
  }

  /** Refusals by an entity and by those above it that its children charge too. */
  async #refusedFrom(entity: string, parents: ReadonlyMap<string, string | undefined>): Promise<number> {
    let sum = this.#refused.get(entity)?.own ?? 0
    if (parents.get(entity) === undefined || !(await this.#chargesAllLevels())) return sum
    const path = new Set([entity])
    for (let next = parents.get(entity); next !== undefined && !path.has(next); next = parents.get(next)) {
      sum += this.#refused.get(next)?.own ?? 0
      path.add(next)
    }
    return sum
  }

  /** By the current setting of the namespace. */
  #chargesAllLevels(): Promise<boolean> {
    this.#chargesAll ??= this.#namespace.levels().then(levels => levels === 'all')
    return this.#chargesAll
  }

  #mostTwice(isPart: boolean): number {
    let rest = 0
    for (const {own, byParent} of this.#refused.values()) rest += own - (isPart ? 0 : byParent)
    return Math.max(0, Math.floor(rest / 2))
  }

  async add({entity, resource, start, totalEvents, tokens, refused}: UsageRecord): Promise<void> {
    if (refused) this.#addRefused(entity, refused)
    if (start !== this.#start || resource !== this.#resource) await this.end()
    this.#start = start
    this.#resource = resource
    this.#charged.add(entity, {totalEvents, tokens})
  }

  #addRefused(entity: string, refused: NonNullable<UsageRecord['refused']>): void {
    const sum = this.#refused.get(entity) ?? {own: 0, byParent: 0}
    const {byParent} = refusedByOthers(refusedIn([{refused}]))
    this.#refused.set(entity, {own: sum.own + refused.requests, byParent: sum.byParent + byParent})
  }

  async end(): Promise<void> {
    const charged = this.#charged
    const resource = this.#resource
    this.#charged = new ChargedWindow()
    const {entities} = charged
    const parents = entities.length < 2 ? new Map<string, undefined>() : await this.#parentsOf(entities, resource)
    const parentOf = (entity: string) => parents.get(entity)
    // In a tree of two levels, the setting makes no difference.
    const isDeep = entities.some(entity => {
      const parent = parentOf(entity)
      return parent !== undefined && parentOf(parent) !== undefined
    })
    const chargesAll = isDeep && (await this.#chargesAllLevels())
    const passedOn =
      isDeep && !chargesAll ? Array.from(charged.asked(parentOf, false), each => each.totalEvents) : undefined
    const uncharged = charged.uncharged(parentOf, passedOn)
    let [row, others] = [0, 0]
    for (const asked of charged.asked(parentOf, chargesAll)) {
      this.#take(asked, resource)
      const parent = parentOf(entities[row++] as string)
      if (parent === undefined || !uncharged.has(parent)) others += Math.max(0, asked.totalEvents)
    }
    const missing = [...uncharged.values()].reduce((sum, requests) => sum + requests, 0)
    this.#doubtful += Math.min(missing, others)
  }

  async #parentsOf(entities: readonly string[], resource: string): Promise<ReadonlyMap<string, string | undefined>> {
    const known = this.#parents.get(resource) ?? new Map<string, string | undefined>()
    this.#parents.set(resource, known)
    for await (const chunk of chunksOf(notIn(known, entities), ENTITIES_PER_READ)) {
      const found = await this.#namespace.entities.getMany(chunk)
      const children = new Map(found.filter(({parent}) => parent !== undefined).map(child => [child.entity, child]))
      const parentOf = await chargedParents(this.#namespace, children, resource)
      for (const entity of chunk) known.set(entity, this.#nameOnce(parentOf(entity)))
    }
    return known
  }

  #nameOnce(parent: string | undefined): string | undefined {
    if (parent === undefined) return undefined
    const name = this.#parentNames.get(parent) ?? parent
    this.#parentNames.set(name, name)
    return name
  }
}

function* notIn(known: ReadonlyMap<string, unknown>, entities: readonly string[]): Generator<string, void> {
  for (const entity of entities) if (!known.has(entity)) yield entity
}

/** Whom requests of these children for the resource charge too, by the current policies. */
export async function chargedParents(
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

/** May hold a hundred thousand entities. */
class ChargedWindow {
  readonly entities: string[] = []
  readonly #events: number[] = []
  readonly #tokens = new AmountTable()

  add(entity: string, {totalEvents, tokens}: AskedFigures): void {
    const row = this.entities.push(entity) - 1
    this.#events.push(totalEvents)
    this.#tokens.add(row, tokens)
  }

  /** By parent: requests of its children that exceed those charged to it. `passedOn`: by row, if a parent is charged fewer. */
  uncharged(
    parentOf: (entity: string) => string | undefined,
    passedOn: readonly number[] = this.#events,
  ): ReadonlyMap<string, number> {
    const missing = new Map<string, number>()
    for (const [row, entity] of this.entities.entries()) {
      const parent = parentOf(entity)
      if (parent !== undefined) missing.set(parent, (missing.get(parent) ?? 0) + (passedOn[row] as number))
    }
    for (const [row, entity] of this.entities.entries()) {
      const asked = missing.get(entity)
      if (asked !== undefined) missing.set(entity, asked - (this.#events[row] as number))
    }
    return new Map([...missing].filter(([, requests]) => requests > 0))
  }

  /**
   * A parent did not request what it was charged for its children: with `chargesAll` all that they were charged, otherwise
   * only what they requested themselves.
   */
  *asked(parentOf: (entity: string) => string | undefined, chargesAll: boolean): Generator<AskedFigures, void> {
    const childrenOf = groupBy(this.entities.keys(), row => parentOf(this.entities[row] as string))
    const parents = new Map<string, AskedFigures>()
    const chargedTo = (row: number): AskedFigures => ({
      totalEvents: this.#events[row] as number,
      tokens: this.#tokens.of(row),
    })
    const askedOf = (row: number): AskedFigures => {
      const entity = this.entities[row] as string
      const charged = chargedTo(row)
      const children = childrenOf.get(entity)
      if (!children) return charged
      const known = parents.get(entity)
      if (known) return known
      // Other clients can store a cycle of parents: an entity met again counts as charged.
      parents.set(entity, charged)
      let own: AskedFigures = charged
      for (const child of children) own = less(own, chargesAll ? chargedTo(child) : askedOf(child))
      parents.set(entity, own)
      return own
    }
    for (const row of this.entities.keys()) yield askedOf(row)
  }
}

/** Never below zero: a parent may lack limits of its children. */
function less(charged: AskedFigures, child: AskedFigures): AskedFigures {
  const rest = (from: number, part: number) => (part > 0 ? Math.max(Math.min(from, 0), from - part) : from - part)
  const tokens = new Map<string, number>()
  for (const [limit, amount] of charged.tokens) tokens.set(limit, rest(amount, child.tokens.get(limit) ?? 0))
  return {totalEvents: rest(charged.totalEvents, child.totalEvents), tokens}
}

/** Rows are numbered from 0. Two lists shared by all rows take a fifth of the memory of an object per row. */
export class AmountTable {
  readonly #numbers = new Map<string, number>()
  readonly #names: string[] = []
  /** Pairs of name number and amount. The pairs of a row are adjacent. */
  readonly #amounts: number[] = []
  /** Start and end of each row in `#amounts`. */
  readonly #bounds: number[] = []

  get names(): readonly string[] {
    return this.#names
  }

  add(row: number, amounts: ReadonlyMap<string, number>): void {
    while (this.#bounds.length <= 2 * row) this.#bounds.push(0, 0)
    for (const [name, amount] of amounts) {
      const number = this.#numbers.get(name) ?? this.#newNumber(name)
      const at = this.#find(row, number)
      if (at === undefined) this.#append(row, number, amount)
      else this.#amounts[at] = (this.#amounts[at] as number) + amount
    }
  }

  amountOf(row: number, name: string): number {
    const number = this.#numbers.get(name)
    const at = number === undefined ? undefined : this.#find(row, number)
    return at === undefined ? 0 : (this.#amounts[at] as number)
  }

  of(row: number): Map<string, number> {
    const [start, end] = this.#boundsOf(row)
    const amounts = new Map<string, number>()
    for (let at = start; at < end; at += 2)
      amounts.set(this.#names[this.#amounts[at] as number] as string, this.#amounts[at + 1] as number)
    return amounts
  }

  #newNumber(name: string): number {
    const number = this.#names.push(name) - 1
    this.#numbers.set(name, number)
    return number
  }

  #find(row: number, number: number): number | undefined {
    const [start, end] = this.#boundsOf(row)
    for (let at = start; at < end; at += 2) if (this.#amounts[at] === number) return at + 1
    return undefined
  }

  /** Moves the row to the end first, unless it is the last one. Few rows get new names later. */
  #append(row: number, number: number, amount: number): void {
    const [start, end] = this.#boundsOf(row)
    const isLast = end === this.#amounts.length
    if (!isLast) {
      this.#bounds[2 * row] = this.#amounts.length
      for (let at = start; at < end; at++) this.#amounts.push(this.#amounts[at] as number)
    }
    this.#amounts.push(number, amount)
    this.#bounds[2 * row + 1] = this.#amounts.length
  }

  #boundsOf(row: number): readonly [start: number, end: number] {
    return [this.#bounds[2 * row] ?? 0, this.#bounds[2 * row + 1] ?? 0]
  }
}
