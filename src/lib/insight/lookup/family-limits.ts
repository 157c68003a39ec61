import {type Level, tokenLimits} from '../../core/limits/limit.js'
import {type BucketName, checkEntityId, checkResourceName} from '../../core/names.js'
import type {Entities} from '../../repository/entities/entities.js'
import {nothingApplies} from '../../repository/limits/checks.js'
import type {Configs} from '../../repository/limits/configs.js'
import type {Resolution} from '../../repository/limits/resolver.js'
import {type UnitsByLimit, withUnits} from '../../repository/limits/units.js'
import type {EntityRecord} from '../../schema/entity-record.js'
import {familyOf} from '../../schema/family.js'

export interface FamilyLimits {
  readonly entity: string
  readonly resource: string
  readonly isRegistered: boolean
  readonly name?: string | undefined
  readonly own: Resolution
  readonly cascade: SharedCharge | undefined
  /** `undefined`: charges are not shared. A parent's parent is never charged. */
  readonly parent: {readonly entity: string; readonly resolution: Resolution} | undefined
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

/** Throws if no limits apply to the entity, unless it is disabled. */
export async function resolveFamily(
  {configs, entities}: {readonly configs: Configs; readonly entities: Entities},
  entity: string,
  resource: string,
): Promise<FamilyLimits> {
  checkEntityId(entity)
  checkResourceName(resource)
  const resolve = async (whose: string) => configs.withBoosts(await configs.resolve({entity: whose, resource}))
  const [own, record, units] = await Promise.all([resolve(entity), entities.get(entity), configs.units()])
  if (own.source === undefined && own.access?.access !== 'disabled') throw nothingApplies(entity, resource)
  const cascade = sharedCharge(record, own.cascade)
  const parent = cascade?.charged ? cascade.parent : undefined
  return {
    entity,
    resource,
    isRegistered: record !== undefined,
    name: record?.name === entity ? undefined : record?.name,
    own: inUnits(own, units),
    cascade,
    parent: parent === undefined ? undefined : {entity: parent, resolution: inUnits(await resolve(parent), units)},
  }
}

function inUnits(resolution: Resolution, units: UnitsByLimit): Resolution {
  const trace = resolution.trace.map(each => ({...each, limits: withUnits(each.limits, units)}))
  return {...resolution, limits: withUnits(resolution.limits, units), trace}
}

/** Limits of a resource that the entity's requests charge to its parent only. */
export interface ParentOnlyLimits {
  readonly resource: string
  readonly parent: string
  readonly limits: readonly string[]
}

/** Usage of these limits is not recorded for the entity. Without resources that have none. */
export async function parentOnlyLimits(
  {configs, entities}: {readonly configs: Configs; readonly entities: Entities},
  entity: string | undefined,
  used: readonly {readonly resource: string}[],
): Promise<ParentOnlyLimits[]> {
  const record = entity === undefined ? undefined : await entities.get(entity)
  if (record?.parent === undefined) return []
  const {entity: child, parent} = record
  const resources = new Set(used.map(({resource}) => resource))
  const found = [...resources].sort().map(async resource => {
    const [own, shared] = await Promise.all([child, parent].map(whose => configs.resolve({entity: whose, resource})))
    const names = new Set(own?.limits.map(({name}) => name))
    const limits = tokenLimits(shared?.limits ?? []).flatMap(({name}) => (names.has(name) ? [] : [name]))
    return sharedCharge(record, own?.cascade)?.charged && limits.length > 0 ? [{resource, parent, limits}] : []
  })
  return (await Promise.all(found)).flat()
}

/** Members that are looked at: one that lacks a limit is enough to say so. */
const MOST_MEMBERS = 20

/** Names of these limits that members lack whose requests charge the parent. Their use is recorded for the parent only. */
export async function limitsWithoutMembers(
  {configs, entities}: {readonly configs: Configs; readonly entities: Entities},
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
