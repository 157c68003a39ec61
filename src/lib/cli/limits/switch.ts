import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import {newNameNotice} from '../../inspect/known-names.js'
import type {PolicyScope} from '../../repository/limits/change.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch} from '../../schema/config-record.js'
import {factLines, updatedText} from '../output/facts.js'
import type {ProgressStream} from '../output/progress.js'
import type {SwitchResult} from '../results/switch.js'
import {scopeJson} from './json.js'
import {policyText, scopeWords} from './presenter.js'
import {changeWithProgress} from './run.js'

/** What to set; `undefined` removes the switch. */
type Wanted = AccessSwitch | undefined

/** A switch as a command shows it. */
interface ShownSwitch {
  readonly lines: string[]
  readonly result: SwitchResult
  /** When something new was disabled or bypassed: the name may be misspelled. */
  readonly warnings: readonly string[]
}

/** Switches a resource. */
export function switchResource(namespace: NamespaceRepository, name: string, access: Wanted): Promise<ShownSwitch> {
  return changeSwitch(namespace, resourceScope(name), access)
}

/** Switches an entity, for all resources unless one is given. */
export function switchEntity(
  namespace: NamespaceRepository,
  whose: Parameters<typeof entityScope>[0],
  access: Wanted,
  progress?: ProgressStream,
): Promise<ShownSwitch> {
  return changeSwitch(namespace, entityScope(whose), access, progress)
}

/** The scope of a resource that a command names. */
export function resourceScope(name: string): PolicyScope {
  return {level: 'resource', resource: checkResourceName(name)}
}

/** The scope of an entity that a command names, for all resources unless one is given. */
export function entityScope({
  id,
  resource = DEFAULT_RESOURCE,
}: {
  readonly id: string
  readonly resource: string | undefined
}): PolicyScope {
  return {level: 'entity', entity: checkEntityId(id), resource: checkConfigResource(resource)}
}

/** Sets or removes a switch and stamps live buckets. */
async function changeSwitch(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  access: Wanted,
  progress?: ProgressStream,
): Promise<ShownSwitch> {
  const isStrong = access === 'disabled' || access === 'bypass'
  const notice = isStrong ? await newNameNotice(namespace, scope) : undefined
  const change = await changeWithProgress(sync => namespace.setAccess(scope, access, sync), progress)
  return {lines: switchLines(change), result: switchJson(change), warnings: notice === undefined ? [] : [notice]}
}

function switchLines({scope, previous, record, buckets}: LimitsChange): string[] {
  return factLines(`Switch of ${scopeWords(scope)}`, {
    access: policyText(previous?.access, record?.access) ?? 'not set, unchanged',
    'live buckets': updatedText(buckets),
  })
}

function switchJson({scope, previous, record, buckets}: LimitsChange): SwitchResult {
  return {
    scope: scopeJson(scope),
    access: {before: previous?.access ?? null, after: record?.access ?? null},
    buckets,
  }
}
