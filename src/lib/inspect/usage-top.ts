import {InvalidInput} from '../core/errors.js'
import type {NamespaceRepository} from '../repository/repository.js'
import type {UsageRecord} from '../schema/usage-record.js'
import {configuredResources, needResource} from './known-names.js'
import {type RefusedUsage, refusedIn} from './refused.js'
import {withAsked} from './usage-asked.js'
import {type UsageSubject, walkUsage} from './usage-report.js'

/** Windows read per resource; the newest are read first. */
const MOST_WINDOWS = 20_000

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

type Tally = Omit<TopConsumer, 'share' | 'limits' | 'overdrawn' | 'refused'> & {
  readonly limits: Map<string, number>
  readonly overdrawn: Map<string, number>
  readonly records: UsageRecord[]
}

/** The largest consumers of a resource, or of all resources that are configured or in use. */
export async function topConsumers(repository: NamespaceRepository, request: TopRequest): Promise<TopConsumers> {
  const {resource, by, most, isByEntity = false} = request
  const found = resource === undefined ? await resourcesInUse(repository) : {resources: [resource], complete: true}
  const tallies = new Map<string, Tally>()
  let complete = found.complete
  // Everything requested, in the unit of the ranking: a request that cascades counts once.
  let whole = 0
  for (const each of found.resources) {
    const records: UsageRecord[] = []
    complete =
      (await walkUsage(repository, {...request, resource: each}, record => records.push(record), MOST_WINDOWS)) &&
      complete
    for (const {record, asked} of await withAsked(repository, records)) {
      add(tallies, record, isByEntity)
      if (by === 'refused') whole += record.refused?.requests ?? 0
      else whole += by === 'requests' ? asked.totalEvents : (asked.tokens.get(by) ?? 0)
    }
  }
  if (tallies.size === 0 && resource !== undefined) await needResource(repository, resource)
  const ranked = rank([...tallies.values()], {by, whole})
  return {consumers: ranked.slice(0, most), total: ranked.length, resources: found.resources, complete}
}

function add(tallies: Map<string, Tally>, record: UsageRecord, isByEntity: boolean): void {
  const {entity, resource, totalEvents} = record
  const id = isByEntity ? entity : `${entity} ${resource}`
  const none = {requests: 0, limits: new Map(), overdrawn: new Map(), records: []}
  const soFar: Tally = tallies.get(id) ?? {entity, ...(!isByEntity && {resource}), ...none}
  soFar.records.push(record)
  for (const [name, tokens] of record.tokens) soFar.limits.set(name, (soFar.limits.get(name) ?? 0) + tokens)
  for (const [name, writes] of record.overdrawn ?? [])
    soFar.overdrawn.set(name, (soFar.overdrawn.get(name) ?? 0) + writes)
  tallies.set(id, {...soFar, requests: soFar.requests + totalEvents})
}

function rank(all: readonly Tally[], {by, whole}: {readonly by: string; readonly whole: number}): TopConsumer[] {
  const tallies = all.map(({records, ...tally}) => ({...tally, refused: refusedIn(records)}))
  const measure = ({requests, limits, refused}: Omit<TopConsumer, 'share'>): number => {
    if (by === 'refused') return refused.requests
    return by === 'requests' ? requests : (limits.get(by) ?? 0)
  }
  const names = [...new Set(tallies.flatMap(({limits}) => [...limits.keys()]))].sort()
  if (tallies.length > 0 && by !== 'requests' && by !== 'refused' && !names.includes(by)) {
    throw new InvalidInput('usage.by', `--by: no usage of a limit "${by}" was found.`, {
      hint: `Use requests, refused, or one of ${names.join(', ')}; before it, "entity," adds up the resources of each.`,
      details: {by, limits: names},
    })
  }
  return tallies
    .filter(tally => by !== 'refused' || measure(tally) > 0)
    .toSorted((a, b) => measure(b) - measure(a) || (a.entity < b.entity ? -1 : 1))
    .map(tally => ({...tally, share: whole > 0 ? measure(tally) / whole : 0}))
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
