import {DEFAULT_RESOURCE} from '../../core/names.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch, ConfigRecord} from '../../schema/config-record.js'

/** A more specific switch with another value, which overrides the one set. */
export interface SwitchException {
  readonly scope: Extract<PolicyScope, {level: 'entity'}>
  readonly access: AccessSwitch
}

export interface SwitchExceptions {
  readonly found: readonly SwitchException[]
  readonly looked: number
  readonly isComplete: boolean
}

/** Read per resource, and again for all resources. Bounds the cost. */
const MOST_CONFIGS = 1000

/** `access` is `undefined` if the switch is removed. */
export async function switchExceptions(
  {configs}: Pick<NamespaceRepository, 'configs'>,
  scope: PolicyScope,
  access: AccessSwitch | undefined,
): Promise<SwitchExceptions> {
  if (scope.level === 'entity') {
    if (scope.resource !== DEFAULT_RESOURCE) return {found: [], looked: 0, isComplete: true}
    const own = (await configs.ofEntity(scope.entity)).filter(record => !isForAllResources(record))
    return {found: switchesIn(own, access), looked: own.length, isComplete: true}
  }
  const {resource} = scope
  const [ofResource, forAll] = await Promise.all(
    [resource, DEFAULT_RESOURCE].map(name => configs.entities(name, {limit: MOST_CONFIGS})),
  )
  const pages = [ofResource, forAll].flatMap(page => page ?? [])
  const own = ofResource?.records ?? []
  // An entity's switch for this resource overrides its switch for all resources.
  const candidates = switchesIn(forAll?.records ?? [], access)
  const decided = await configs.getMany(candidates.map(({scope: {entity}}) => ({level: 'entity', entity, resource})))
  return {
    found: [...switchesIn(own, access), ...candidates.filter((_, at) => decided[at]?.access === undefined)],
    looked: pages.reduce((sum, {records}) => sum + records.length, 0),
    isComplete: pages.every(({next}) => next === undefined),
  }
}

const isForAllResources = ({scope}: ConfigRecord): boolean =>
  scope.level === 'entity' && scope.resource === DEFAULT_RESOURCE

function switchesIn(records: readonly ConfigRecord[], set: AccessSwitch | undefined): SwitchException[] {
  return records.flatMap(({scope, access}) =>
    scope.level === 'entity' && access !== undefined && access !== set ? [{scope, access}] : [],
  )
}
