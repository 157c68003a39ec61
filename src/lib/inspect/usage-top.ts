import {InvalidInput} from '../core/errors.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {configuredResources, needResource} from './known-names.js'
import {addAmounts, amountOf, type NumberedAmounts, NumberedNames} from './numbered-names.js'
import {type RefusedUsage, refusedIn, withRefused} from './refused.js'
import {AskedUsage} from './usage-asked.js'
import {type UsageSubject, walkUsage} from './usage-report.js'

/** Live buckets read to find resources that have no limits of their own. */
const MOST_BUCKETS = 2000

/** What one entity consumed of one resource, or of all that were searched, in whole tokens. */
export interface TopConsumer {
  readonly entity: string
  /** Absent where the resources of an entity are added up. */
  readonly resource?: string | undefined
  readonly requests: number
  readonly limits: ReadonlyMap<string, number>
  /** By soft limit: writes that took from it and left it in debt. */
  readonly overdrawn: ReadonlyMap<string, number>
  readonly refused: RefusedUsage
  /** Its part of everything requested, in the unit of the ranking; parents include the charges of their children. */
  readonly share: number
}

export interface TopConsumers {
  readonly consumers: readonly TopConsumer[]
  /** Entities, per resource unless they are added up, that consumed anything; ranked by refusals, that were refused. */
  readonly total: number
  readonly resources: readonly string[]
  /** False when there is too much to read: the oldest windows, or some resources, are missing. */
  readonly complete: boolean
}

/** How to rank. */
export interface TopRequest extends Omit<UsageSubject, 'entity'> {
  /** `requests`, `refused`, or the name of a limit. */
  readonly by: string
  readonly most: number
  /** Whether all resources of an entity are added up. */
  readonly isByEntity?: boolean
}

/** What is known of a consumer while windows are read: there may be a hundred thousand of them. */
interface Tally {
  readonly entity: string
  readonly resource: string | undefined
  requests: number
  readonly limits: NumberedAmounts
  overdrawn: Map<string, number> | undefined
  refused: RefusedUsage | undefined
}

/** The largest consumers of a resource, or of all resources that are configured or in use. */
export async function topConsumers(
  repository: NamespaceRepository,
  request: TopRequest,
  onProgress?: (windows: number) => void,
): Promise<TopConsumers> {
  const {resource, by, most, isByEntity = false} = request
  const found = resource === undefined ? await resourcesInUse(repository) : {resources: [resource], complete: true}
  const tallies = new Tallies(isByEntity)
  let complete = found.complete
  // Everything requested, in the unit of the ranking: a request that cascades counts once.
  let whole = 0
  let windows = 0
  for (const each of found.resources) {
    const asked = new AskedUsage(repository, ({totalEvents, tokens}) => {
      if (by !== 'refused') whole += by === 'requests' ? totalEvents : (tokens.get(by) ?? 0)
    })
    const take = (record: UsageRecord) => {
      tallies.add(record)
      if (by === 'refused') whole += record.refused?.requests ?? 0
      windows++
      onProgress?.(windows)
      return asked.add(record)
    }
    complete = (await walkUsage(repository, {...request, resource: each}, take)) && complete
    await asked.end()
  }
  if (windows === 0 && resource !== undefined) await needResource(repository, resource)
  return {...tallies.ranked({by, whole, most}), resources: found.resources, complete}
}

class Tallies {
  readonly #isByEntity: boolean
  readonly #limits = new NumberedNames()
  /** By resource and entity; by entity alone where resources are added up. */
  readonly #tallies = new Map<string | undefined, Map<string, Tally>>()

  constructor(isByEntity: boolean) {
    this.#isByEntity = isByEntity
  }

  add(record: UsageRecord): void {
    const {entity, totalEvents, tokens} = record
    const resource = this.#isByEntity ? undefined : record.resource
    const among = this.#tallies.get(resource) ?? new Map<string, Tally>()
    this.#tallies.set(resource, among)
    const none = {requests: 0, limits: [], overdrawn: undefined, refused: undefined}
    const tally = among.get(entity) ?? {entity, resource, ...none}
    among.set(entity, tally)
    tally.requests += totalEvents
    addAmounts(tally.limits, this.#limits.amounts(tokens))
    if (record.refused) tally.refused = withRefused(tally.refused, record)
    for (const [name, writes] of record.overdrawn ?? []) {
      tally.overdrawn ??= new Map()
      tally.overdrawn.set(name, (tally.overdrawn.get(name) ?? 0) + writes)
    }
  }

  /** The largest, and how many there are in all. */
  ranked({by, whole, most}: {by: string; whole: number; most: number}): Pick<TopConsumers, 'consumers' | 'total'> {
    const all = [...this.#tallies.values()].flatMap(among => [...among.values()])
    const limit = this.#limits.numberOf(by)
    if (all.length > 0 && by !== 'requests' && by !== 'refused' && limit === undefined) throw this.#unknown(by)
    const measure = ({requests, limits, refused}: Tally): number => {
      if (by === 'refused') return refused?.requests ?? 0
      return by === 'requests' ? requests : amountOf(limits, limit)
    }
    const ranked = all
      .filter(tally => by !== 'refused' || measure(tally) > 0)
      .sort((a, b) => measure(b) - measure(a) || (a.entity < b.entity ? -1 : 1))
    const consumers = ranked.slice(0, most).map(tally => ({
      entity: tally.entity,
      ...(!this.#isByEntity && {resource: tally.resource}),
      requests: tally.requests,
      limits: this.#limits.mapOf(tally.limits),
      overdrawn: tally.overdrawn ?? new Map<string, number>(),
      refused: tally.refused ?? refusedIn([]),
      share: whole > 0 ? measure(tally) / whole : 0,
    }))
    return {consumers, total: ranked.length}
  }

  #unknown(by: string): InvalidInput {
    const names = [...this.#limits.names].sort()
    return new InvalidInput('usage.by', `--by: no usage of a limit "${by}" was found.`, {
      hint: `Use requests, refused, or one of ${names.join(', ')}; before it, "entity," adds up the resources of each.`,
      details: {by, limits: names},
    })
  }
}

/** Resources with limits of their own, and those of live buckets; any other must be named to be included. */
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
