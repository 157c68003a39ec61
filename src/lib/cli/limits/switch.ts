import {ZaelError} from '../../core/errors.js'
import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import {newNameNotice} from '../../insight/lookup/known-names.js'
import {switchExceptions} from '../../insight/preview/switch-exceptions.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch} from '../../schema/config-record.js'
import type {ProgressStream} from '../output/progress.js'
import {changeWithProgress} from './run.js'
import {type Reach, switchJson, switchLines} from './switch-presenter.js'
import type {SwitchResult} from './switch-results.js'

/** What to set; `undefined` removes the switch. */
type Wanted = AccessSwitch | undefined

interface ShownSwitch {
  readonly lines: string[]
  readonly result: SwitchResult
  /** When something new was disabled or bypassed: the name may be misspelled. */
  readonly warnings: readonly string[]
}

interface SwitchOptions {
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
  readonly progress?: ProgressStream | undefined
}

export function switchResource(
  namespace: NamespaceRepository,
  name: string,
  access: Wanted,
  options: SwitchOptions,
): Promise<ShownSwitch> {
  return changeSwitch(namespace, resourceScope(name), access, options)
}

/** Switches an entity, for all resources unless one is given. */
export function switchEntity(
  namespace: NamespaceRepository,
  whose: Parameters<typeof entityScope>[0],
  access: Wanted,
  options: SwitchOptions,
): Promise<ShownSwitch> {
  return changeSwitch(namespace, entityScope(whose), access, options)
}

export function resourceScope(name: string): PolicyScope {
  return {level: 'resource', resource: checkResourceName(name)}
}

export function entityScope({
  id,
  resource = DEFAULT_RESOURCE,
}: {
  readonly id: string
  readonly resource: string | undefined
}): PolicyScope {
  return {level: 'entity', entity: checkEntityId(id), resource: checkConfigResource(resource)}
}

/** Sets or removes a switch and stamps live buckets; then looks where it does not reach: to switch off comes first. */
async function changeSwitch(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  access: Wanted,
  {where, progress}: SwitchOptions,
): Promise<ShownSwitch> {
  const isStrong = access === 'disabled' || access === 'bypass'
  const notice = isStrong ? await newNameNotice(namespace, scope) : undefined
  const change = await changeWithProgress(sync => namespace.setAccess(scope, access, sync), progress)
  const reach = await reachOf(namespace, scope, access)
  const warnings = [notice, reach.problem].flatMap(each => each ?? [])
  return {lines: switchLines(change, reach, where), result: switchJson(change, reach, where), warnings}
}

/** What was switched stays so when the look at the others fails. */
async function reachOf(namespace: NamespaceRepository, scope: PolicyScope, access: Wanted): Promise<Reach> {
  try {
    return {access, exceptions: await switchExceptions(namespace, scope, access)}
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    const problem = `the switch is set; whether more specific ones count somewhere is not known: ${error.message}`
    return {access, exceptions: {found: [], looked: 0, isComplete: false}, problem}
  }
}
