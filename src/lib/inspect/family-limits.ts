import {checkEntityId, checkResourceName} from '../core/names.js'
import type {Entities} from '../repository/entities/entities.js'
import {nothingApplies} from '../repository/limits/checks.js'
import type {Configs} from '../repository/limits/configs.js'
import type {Resolution} from '../repository/limits/resolver.js'
import {type UnitsByLimit, withUnits} from '../repository/limits/units.js'
import {chargedParent, familyOf} from '../schema/family.js'

/** Which limits apply to an entity and, where every charge is shared, to its parent. */
export interface FamilyLimits {
  readonly entity: string
  readonly resource: string
  /** Whether the entity has a record; limits apply without one too. */
  readonly isRegistered: boolean
  readonly own: Resolution
  /** `undefined` when charges are not shared. One level only: the parent of a parent is not charged. */
  readonly parent: {readonly entity: string; readonly resolution: Resolution} | undefined
}

/** Resolves the limits of an entity and of the parent it cascades to; throws when none apply to the entity. */
export async function resolveFamily(
  {configs, entities}: {readonly configs: Configs; readonly entities: Entities},
  entity: string,
  resource: string,
): Promise<FamilyLimits> {
  checkEntityId(entity)
  checkResourceName(resource)
  const [own, record, units] = await Promise.all([
    configs.resolve(entity, resource),
    entities.get(entity),
    configs.units(),
  ])
  if (own.source === undefined) throw nothingApplies(entity, resource)
  const parent = chargedParent(familyOf(record, own.cascade?.cascade))
  return {
    entity,
    resource,
    isRegistered: record !== undefined,
    own: inUnits(own, units),
    parent:
      parent === undefined
        ? undefined
        : {entity: parent, resolution: inUnits(await configs.resolve(parent, resource), units)},
  }
}

function inUnits(resolution: Resolution, units: UnitsByLimit): Resolution {
  const trace = resolution.trace.map(each => ({...each, limits: withUnits(each.limits, units)}))
  return {...resolution, limits: withUnits(resolution.limits, units), trace}
}
