import {type Level, tokenLimits} from '../../core/limits/limit.js'
import {type BucketName, checkEntityId, checkResourceName} from '../../core/names.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import type {Resolution} from '../../repository/limits/resolver.js'
import {type UnitsByLimit, withUnits} from '../../repository/limits/units.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {familyOf} from '../../schema/family.js'
import {MOST_LEVELS} from '../../schema/namespace-record.js'

export interface FamilyLimits {
  readonly entity: string
  readonly resource: string
  readonly isRegistered: boolean
  readonly name?: string | undefined
  readonly own: Resolution
  readonly cascade: SharedCharge | undefined
  /** The ancestors that are charged too, nearest first. */
  readonly parents: readonly ChargedAncestor[]
  /** The next ancestor, which only the setting of the namespace leaves out. */
  readonly leftOut: string | undefined
}

export interface ChargedAncestor {
  readonly entity: string
  readonly resolution: Resolution
}

export interface SharedCharge {
  readonly charged: boolean
  /** `record`: no level has a policy, so the entity's own setting counts. */
  readonly level: Level | 'record'
  readonly parent: string
}

/** `undefined`: no parent. */
export function sharedCharge(
  record: EntityRecord | undefined,
  policy: Resolution['cascade'],
): SharedCharge | undefined {
  const {cascade, parent} = familyOf(record, policy?.cascade)
  return parent === undefined ? undefined : {charged: cascade, level: policy?.level ?? 'record', parent}
}

/** Follows the links that cascade, as far as the namespace charges them. `link`: from the entity to its parent. */
export async function chargedAncestors(
  namespace: Pick<NamespaceRepository, 'configs' | 'entities' | 'levels'>,
  {entity, resource}: BucketName,
  link: SharedCharge | undefined,
): Promise<Pick<FamilyLimits, 'parents' | 'leftOut'>> {
  const path = [entity]
  const parents: ChargedAncestor[] = []
  let most = MOST_LEVELS.parent
  let next = link?.charged ? link.parent : undefined
  while (next !== undefined && !path.includes(next)) {
    if (path.length === most) most = MOST_LEVELS[await namespace.levels()]
    if (path.length >= most) return {parents, leftOut: next}
    const [resolution, record] = await Promise.all([
      namespace.configs.resolve({entity: next, resource}),
      namespace.entities.get(next),
    ])
    path.push(next)
    parents.push({entity: next, resolution})
    const above = sharedCharge(record, resolution.cascade)
    next = above?.charged ? above.parent : undefined
  }
  return {parents, leftOut: undefined}
}

/** Throws if no limits apply to the entity, unless it is disabled. */
export async function resolveFamily(
  namespace: Pick<NamespaceRepository, 'configs' | 'entities' | 'levels'>,
  entity: string,
  resource: string,
): Promise<FamilyLimits> {
  checkEntityId(entity)
  checkResourceName(resource)
  const {configs, entities} = namespace
  const resolving = configs.resolve({entity, resource})
  const [own, record, units] = await Promise.all([resolving, entities.get(entity), configs.units()])
  if (own.source === undefined && own.access?.access !== 'disabled') throw nothingApplies(entity, resource)
  const cascade = sharedCharge(record, own.cascade)
  const {parents, leftOut} = await chargedAncestors(namespace, {entity, resource}, cascade)
  const shown = async (resolution: Resolution) => inUnits(await configs.withBoosts(resolution), units)
  return {
    entity,
    resource,
    isRegistered: record !== undefined,
    name: record?.name === entity ? undefined : record?.name,
    own: await shown(own),
    cascade,
    parents: await Promise.all(
      parents.map(async each => ({entity: each.entity, resolution: await shown(each.resolution)})),
    ),
    leftOut,
  }
}

function inUnits(resolution: Resolution, units: UnitsByLimit): Resolution {
  const trace = resolution.trace.map(each => ({...each, limits: withUnits(each.limits, units)}))
  return {...resolution, limits: withUnits(resolution.limits, units), trace}
}

/** Limits of a resource that the entity's requests charge to one of its parents only. */
export interface ParentOnlyLimits {
  readonly resource: string
  readonly parent: string
  readonly limits: readonly string[]
}

/** Usage of these limits is not recorded for the entity. Without resources that have none. */
export async function parentOnlyLimits(
  namespace: Pick<NamespaceRepository, 'configs' | 'entities' | 'levels'>,
  entity: string | undefined,
  used: readonly {readonly resource: string}[],
): Promise<ParentOnlyLimits[]> {
  const record = entity === undefined ? undefined : await namespace.entities.get(entity)
  if (record?.parent === undefined) return []
  const child = record.entity
  const resources = new Set(used.map(({resource}) => resource))
  const found = [...resources].sort().map(async resource => {
    const own = await namespace.configs.resolve({entity: child, resource})
    const link = sharedCharge(record, own.cascade)
    const {parents} = await chargedAncestors(namespace, {entity: child, resource}, link)
    const names = new Set(own.limits.map(({name}) => name))
    return parents.flatMap(({entity: parent, resolution}) => {
      const limits = tokenLimits(resolution.limits).flatMap(({name}) => (names.has(name) ? [] : [name]))
      return limits.length > 0 ? [{resource, parent, limits}] : []
    })
  })
  return (await Promise.all(found)).flat()
}

/** Members that are looked at: one that lacks a limit is enough to say so. */
const MOST_MEMBERS = 20

/** Names of these limits that members lack whose requests charge the parent. Their use is recorded for the parent only. */
export async function limitsWithoutMembers(
  {configs, entities}: Pick<NamespaceRepository, 'configs' | 'entities'>,
  {entity, resource}: BucketName,
  names: readonly string[],
): Promise<string[]> {
  if (names.length === 0) return []
  const lacking = new Set<string>()
  for (const member of (await entities.children(entity)).slice(0, MOST_MEMBERS)) {
    const {limits, cascade} = await configs.resolve({entity: member.entity, resource})
    if (!sharedCharge(member, cascade)?.charged) continue
    for (const name of names) if (!limits.some(each => each.name === name)) lacking.add(name)
  }
  return names.filter(name => lacking.has(name))
}
