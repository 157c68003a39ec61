import {InvalidInput, ZaelError} from '../../core/errors.js'
import {groupBy} from '../../core/group-by.js'
import {windowStart} from '../../core/window.js'
import {chunksOf} from '../../dynamo/concurrency.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {UsageRecord} from '../../schema/usage-record.js'
import {limitsWithoutMembers, sharedCharge} from '../lookup/family-limits.js'
import {configuredResources, needEntity, needResource} from '../lookup/known-names.js'
import {Membership, movesSince, type ParentMove} from './moves.js'
import {type RefusedUsage, refusedElsewhere, refusedIn, refusedTotal, refusingAccounts, withRefused} from './refused.js'
import {AmountTable, AskedUsage} from './usage-asked.js'
import {MOST_WINDOWS, type UsageSubject, walkUsage} from './usage-report.js'

/** Buckets read to find resources without limits. */
const MOST_BUCKETS = 2000

/** In whole tokens. */
export interface TopConsumer {
  readonly entity: string
  /** Absent if an entity's resources are added up. */
  readonly resource?: string | undefined
  readonly requests: number
  readonly limits: ReadonlyMap<string, number>
  /** By soft limit: writes that left it in debt. */
  readonly overdrawn: ReadonlyMap<string, number>
  readonly refused: RefusedUsage
  /** Share of all requests, in the unit of the ranking; if only parents are ranked, of their sum. */
  readonly share: number
}

export interface TopConsumers {
  /** Largest first. Built while they are read: there may be a hundred thousand. */
  readonly consumers: Iterable<TopConsumer>
  readonly count: number
  /** Entities that consumed, or that were refused if ranked by refusals. Per resource unless added up. */
  readonly total: number
  readonly resources: readonly string[]
  /** Names of limits that any consumer used, overdrew or was refused by. */
  readonly names: Readonly<Record<'used' | 'overdrawn' | 'refused', readonly string[]>>
  /** Ranked by a limit, some entities were not charged for it and are not listed. */
  readonly hasOthers: boolean
  /** Charged to the parent whose members are listed, for them or for itself. */
  readonly parent?: Charged | undefined
  /** As in `UsageTotals`. */
  readonly doubtful: number
  /** False: too much to read; the oldest windows or some resources are missing. */
  readonly complete: boolean
}

/** Over the resources of the request. */
export interface Charged extends Pick<TopConsumer, 'entity' | 'requests' | 'limits' | 'refused'> {
  /** Not recorded for a member: own use, use by deleted members, limits that members lack or lacked. */
  readonly others: Pick<TopConsumer, 'requests' | 'limits'>
  /** Limits whose use is recorded for the parent only, because its members lack them, with the resource. */
  readonly parentOnly: readonly {readonly resource: string; readonly limit: string}[]
  /** Limits that the parent lacks: the whole use in the window of a move is counted, whoever was the parent. */
  readonly undivided: readonly {readonly entity: string; readonly resource: string; readonly limit: string}[]
  /** To or from the parent since the start of the request, oldest first. */
  readonly moves: readonly ParentMove[]
}

export interface TopRequest extends Omit<UsageSubject, 'entity'> {
  /** Lists its members only. */
  readonly parent?: string | undefined
  /** `requests`, `refused`, or the name of a limit. */
  readonly by: string
  /** @default all */
  readonly most?: number | undefined
  readonly isByEntity?: boolean
  /** Lists only parents of other consumers. */
  readonly isByParent?: boolean | undefined
}

export async function topConsumers(
  repository: NamespaceRepository,
  request: TopRequest,
  onProgress?: (windows: number) => void,
): Promise<TopConsumers> {
  const {resource, by, most, isByEntity = false, isByParent = false, parent} = request
  if (parent !== undefined) return topMembers(repository, {...request, parent}, onProgress)
  const found = resource === undefined ? await resourcesInUse(repository) : {resources: [resource], complete: true}
  const tallies = new Tallies(isByEntity)
  let complete = found.complete
  // In the unit of the ranking. A cascading request counts once.
  let whole = 0
  let windows = 0
  let doubtful = 0
  for (const each of found.resources) {
    const asked = new AskedUsage(repository, ({totalEvents, tokens}) => {
      if (by !== 'refused') whole += by === 'requests' ? totalEvents : (tokens.get(by) ?? 0)
    })
    const take = (record: UsageRecord) => {
      tallies.add(record)
      // A request that a parent or a shared scope refused counts there.
      const refusing = refusingAccounts(record.refused ?? {})
      if (by === 'refused') whole += (record.refused?.requests ?? 0) + refusedElsewhere(refusing, found.resources)
      windows++
      onProgress?.(windows)
      return asked.add(record)
    }
    complete = (await walkUsage(repository, {...request, resource: each}, take)) && complete
    await asked.end()
    doubtful += asked.doubtful
  }
  if (windows === 0 && resource !== undefined) await needResource(repository, resource)
  const parents = isByParent ? await parentsOf(repository, tallies.entities) : undefined
  return {...tallies.ranked({by, whole, most, among: parents}), resources: found.resources, doubtful, complete}
}

const ENTITIES_PER_READ = 500

async function parentsOf({entities}: NamespaceRepository, ids: Iterable<string>): Promise<ReadonlySet<string>> {
  const parents = new Set<string>()
  for await (const chunk of chunksOf(ids, ENTITIES_PER_READ))
    for (const {parent} of await entities.getMany(chunk)) if (parent !== undefined) parents.add(parent)
  return parents
}

/** Present and former members, with their use while the parent was charged for it. */
async function topMembers(
  repository: NamespaceRepository,
  {parent, resource, by, most, isByEntity = false, window, sinceMs, untilMs}: TopRequest & {readonly parent: string},
  onProgress?: (windows: number) => void,
): Promise<TopConsumers> {
  const [members, allMoves] = await Promise.all([
    repository.entities.children(parent),
    movesSince(repository, Date.parse(windowStart(window, sinceMs))),
  ])
  const moves = allMoves.filter(({from, to}) => from === parent || to === parent)
  const membership = new Membership(parent, moves)
  const memberOf = new Map(members.map(member => [member.entity, member]))
  const ids = new Set([...memberOf.keys(), ...membership.moved])
  if (ids.size === 0) throw await memberless(repository, parent)
  const [tallies, charged] = [new Tallies(isByEntity), new Tallies(true)]
  const [recorded, ofParent] = [new Set<string>(), new Set<string>()]
  const resources = new Set<string>()
  const ofMoves: UsageRecord[] = []
  let [windows, refused, complete] = [0, 0, true]
  const take = (record: UsageRecord) => {
    const isParent = record.entity === parent
    const part = isParent ? record : membership.partOf(record)
    if (!part) return
    ;(isParent ? charged : tallies).add(part)
    for (const name of record.tokens.keys()) (isParent ? ofParent : recorded).add(`${record.resource} ${name}`)
    refused += record.refused?.requests ?? 0
  }
  const entities = async function* () {
    for (const id of [parent, ...ids]) yield {id}
  }
  for await (const {record} of repository.usage.ofEntities(entities(), {window, sinceMs, untilMs})) {
    if (resource !== undefined && record.resource !== resource) continue
    complete = ++windows <= MOST_WINDOWS
    if (!complete) break
    onProgress?.(windows)
    resources.add(record.resource)
    if (record.entity === parent) membership.addCharged(record)
    else if (membership.isOfMove(record)) {
      ofMoves.push(record)
      continue
    } else if (membership.isBesideMove(record)) {
      const {cascade} = await repository.configs.resolve(record)
      if (sharedCharge(memberOf.get(record.entity), cascade)?.charged) membership.subtract(record)
    }
    take(record)
  }
  const undivided = ofMoves.flatMap(record => {
    const {entity, resource: of} = record
    return membership.undivided(record).map(limit => ({entity, resource: of, limit}))
  })
  for (const record of ofMoves) take(record)
  const parentOnly = await lackedBy(
    repository,
    parent,
    [...ofParent].filter(each => !recorded.has(each)).map(each => each.split(' ') as [string, string]),
  )
  const [all] = charged.ranked({by: 'requests', whole: 0, most: 1}).consumers
  const {
    requests,
    limits,
    refused: refusedOf,
  } = all ?? {requests: 0, limits: new Map<string, number>(), refused: refusedIn([])}
  const sum = tallies.sumOf(by === 'refused' ? 'requests' : by)
  if (parentOnly.some(({limit}) => limit === by) && sum === 0) throw parentOnlyLimit(parent, by)
  const whole = by === 'refused' ? refused : Math.max(sum, by === 'requests' ? requests : (limits.get(by) ?? 0))
  return {
    ...tallies.ranked({by, whole, most}),
    parent: {
      ...{entity: parent, requests, limits, refused: refusedOf},
      others: {
        requests: Math.max(0, requests - tallies.sumOf('requests')),
        limits: new Map(
          Array.from(limits, ([name, tokens]) => [name, tokens - tallies.sumOf(name)] as const).filter(
            ([, rest]) => rest > 0,
          ),
        ),
      },
      parentOnly,
      undivided: uniqueOf(undivided),
      moves,
    },
    resources: [...resources].sort(),
    doubtful: 0,
    complete,
  }
}

/** A member can move twice. */
const uniqueOf = (undivided: Charged['undivided']): Charged['undivided'] => [
  ...new Map(undivided.map(each => [`${each.entity} ${each.resource} ${each.limit}`, each])).values(),
]

/** Use by deleted or moved members is missing too, although members have the limit. */
async function lackedBy(
  repository: NamespaceRepository,
  parent: string,
  missing: readonly (readonly [resource: string, limit: string])[],
): Promise<Charged['parentOnly']> {
  const byResource = groupBy(missing, ([resource]) => resource)
  const found = Array.from(byResource, async ([resource, pairs]) => {
    const names = pairs.map(([, limit]) => limit)
    const lacking = await limitsWithoutMembers(repository, {entity: parent, resource}, names)
    return lacking.map(limit => ({resource, limit}))
  })
  return (await Promise.all(found)).flat()
}

async function memberless(repository: NamespaceRepository, entity: string): Promise<ZaelError> {
  await needEntity(repository, entity)
  return new ZaelError('notFound', 'usage.members', `${entity} has no members: it is not the parent of any entity.`, {
    hint: `For its own usage: zael usage show ${entity}`,
    details: {entity},
  })
}

function parentOnlyLimit(parent: string, limit: string): InvalidInput {
  return new InvalidInput(
    'usage.by',
    `--by: the members of ${parent} have no limit "${limit}", so its use is recorded for ${parent} only.`,
    {
      hint: `Rank by requests or another limit. To record ${limit} for each member from now on, give the members a soft limit "${limit}": it refuses nothing.`,
      details: {parent, limit},
    },
  )
}

interface Ranking extends Pick<TopRequest, 'by' | 'most'> {
  readonly whole: number
  /** @default all consumers */
  readonly among?: ReadonlySet<string> | undefined
}

type Ranked = Pick<TopConsumers, 'consumers' | 'count' | 'total' | 'names' | 'hasOthers'>

/** One row per consumer. There may be a hundred thousand. */
class Tallies {
  readonly #isByEntity: boolean
  /** By resource, then entity. The resource is `undefined` if resources are added up. */
  readonly #rows = new Map<string | undefined, Map<string, number>>()
  readonly #entities: string[] = []
  readonly #resources: (string | undefined)[] = []
  readonly #requests: number[] = []
  readonly #limits = new AmountTable()
  readonly #overdrawn = new Map<number, Map<string, number>>()
  readonly #refused = new Map<number, RefusedUsage>()

  constructor(isByEntity: boolean) {
    this.#isByEntity = isByEntity
  }

  add(record: UsageRecord): void {
    const row = this.#rowOf(record)
    this.#requests[row] = (this.#requests[row] ?? 0) + record.totalEvents
    this.#limits.add(row, record.tokens)
    if (record.refused) this.#refused.set(row, withRefused(this.#refused.get(row), record))
    if (!record.overdrawn) return
    const overdrawn = this.#overdrawn.get(row) ?? new Map<string, number>()
    this.#overdrawn.set(row, overdrawn)
    for (const [name, writes] of record.overdrawn) overdrawn.set(name, (overdrawn.get(name) ?? 0) + writes)
  }

  get entities(): ReadonlySet<string> {
    return new Set(this.#entities)
  }

  /** Of all consumers: requests, or tokens of a limit. */
  sumOf(by: string): number {
    return this.#entities.reduce(
      (sum, _, row) => sum + (by === 'requests' ? (this.#requests[row] as number) : this.#limits.amountOf(row, by)),
      0,
    )
  }

  ranked({by, whole, most, among}: Ranking): Ranked {
    const isLimit = by !== 'requests' && by !== 'refused'
    if (this.#entities.length > 0 && isLimit && !this.#limits.names.includes(by)) throw this.#unknown(by)
    const entityOf = (row: number) => this.#entities[row] as string
    const measure = (row: number): number => {
      if (by === 'refused') return refusedTotal(this.#refused.get(row) ?? refusedIn([]))
      return isLimit ? this.#limits.amountOf(row, by) : (this.#requests[row] as number)
    }
    const measures = this.#entities.map((_, row) => measure(row))
    const measureOf = (row: number) => measures[row] as number
    const rows = [...measures.keys()].filter(row => among?.has(entityOf(row)) ?? true)
    const all = among ? rows.reduce((sum, row) => sum + measureOf(row), 0) : whole
    const ranked = rows
      .filter(row => by === 'requests' || measureOf(row) !== 0)
      .sort((a, b) => measureOf(b) - measureOf(a) || (entityOf(a) < entityOf(b) ? -1 : 1))
    const shown = ranked.slice(0, most)
    const consumer = (row: number): TopConsumer => ({
      entity: entityOf(row),
      ...(!this.#isByEntity && {resource: this.#resources[row]}),
      requests: this.#requests[row] as number,
      limits: this.#limits.of(row),
      overdrawn: this.#overdrawn.get(row) ?? new Map<string, number>(),
      refused: this.#refused.get(row) ?? refusedIn([]),
      // Not above 1 if the record of a refusing parent is missing.
      share: all > 0 ? Math.min(1, measureOf(row) / all) : 0,
    })
    const consumers = {
      *[Symbol.iterator]() {
        for (const row of shown) yield consumer(row)
      },
    }
    return {
      consumers,
      count: shown.length,
      total: ranked.length,
      names: this.#names(),
      hasOthers: isLimit && !among && ranked.length < measures.length,
    }
  }

  #names(): TopConsumers['names'] {
    const sorted = (maps: readonly ReadonlyMap<string, unknown>[]) =>
      [...new Set(maps.flatMap(map => [...map.keys()]))].sort()
    return {
      used: [...this.#limits.names].sort(),
      overdrawn: sorted([...this.#overdrawn.values()]),
      refused: sorted(Array.from(this.#refused.values(), ({limits}) => limits)),
    }
  }

  #rowOf(record: UsageRecord): number {
    const resource = this.#isByEntity ? undefined : record.resource
    const among = this.#rows.get(resource) ?? new Map<string, number>()
    this.#rows.set(resource, among)
    const known = among.get(record.entity)
    if (known !== undefined) return known
    const row = this.#entities.push(record.entity) - 1
    this.#resources.push(resource)
    among.set(record.entity, row)
    return row
  }

  #unknown(by: string): InvalidInput {
    const names = [...this.#limits.names].sort()
    return new InvalidInput('usage.by', `--by: no usage of a limit "${by}" was found.`, {
      hint: `Use requests, refused, or one of ${names.join(', ')}. The prefix "entity," adds up the resources of each entity.`,
      details: {by, limits: names},
    })
  }
}

/** Resources with limits or live buckets. */
export async function resourcesInUse(
  repository: NamespaceRepository,
): Promise<{resources: string[]; complete: boolean}> {
  const resources = new Set(await configuredResources(repository))
  let count = 0
  let complete = true
  for await (const {resource} of repository.buckets.ofNamespace()) {
    resources.add(resource)
    complete = ++count < MOST_BUCKETS
    if (!complete) break
  }
  return {resources: [...resources].sort(), complete}
}
