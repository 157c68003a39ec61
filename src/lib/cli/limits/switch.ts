import {ZaelError} from '../../core/errors.js'
import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import {formatPlural, formatSome, shellWord} from '../../core/text/text.js'
import {newNameNotice} from '../../insight/lookup/known-names.js'
import {type SwitchException, type SwitchExceptions, switchExceptions} from '../../insight/preview/switch-exceptions.js'
import type {PolicyScope, SwitchChangeOptions} from '../../repository/limits/change-options.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
import type {AccessSwitch} from '../../schema/config-record.js'
import {scopeWords} from '../base/scope.js'
import type {ProgressStream} from '../output/progress.js'
import {factLines, nextLines, updatedText} from '../output/text-table.js'
import {scopeJson, switchEndJson} from './json.js'
import {accessText, cascadeText, policyText} from './presenter.js'
import type {CascadeResult, SwitchResult} from './results.js'
import {changeWithProgress} from './run.js'

/** `enable` only ends a block; `clear` removes the switch in any position. */
export type SwitchVerb = 'disable' | 'enable' | 'exempt' | 'bypass' | 'clear'

const POSITIONS: Partial<Record<SwitchVerb, AccessSwitch>> = {disable: 'disabled', exempt: 'enabled', bypass: 'bypass'}

interface ShownChange<Result> {
  readonly lines: string[]
  readonly result: Result
  /** An unknown name, perhaps misspelled, or a failed search for exceptions. */
  readonly warnings: readonly string[]
}

interface SwitchOptions extends Pick<SwitchChangeOptions, 'until' | 'reason'> {
  /** Flags for suggested commands, each with a leading space. */
  readonly where: string
  readonly progress?: ProgressStream | undefined
}

export function resourceScope(name: string): PolicyScope {
  return {level: 'resource', resource: checkResourceName(name)}
}

export function entityScope(id: string, resource = DEFAULT_RESOURCE): PolicyScope {
  return {level: 'entity', entity: checkEntityId(id), resource: checkConfigResource(resource)}
}

/** Sets the switch before it searches for exceptions: disabling must not wait. */
export async function changeSwitch(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  verb: SwitchVerb,
  {where, progress, until, reason}: SwitchOptions,
): Promise<ShownChange<SwitchResult>> {
  const access = POSITIONS[verb]
  const notice = access === undefined ? undefined : await newNameNotice(namespace, scope)
  const options = verb === 'enable' ? ({from: 'disabled'} as const) : {until, reason}
  const change = await changeWithProgress(sync => namespace.setAccess(scope, access, {...sync, ...options}), progress)
  const found = await searchExceptions(namespace, scope, verb)
  const isBlocked = verb !== 'enable' || scope.level !== 'entity' || change.previous?.access !== undefined
  const effect = {...found, disabledResources: isBlocked ? [] : await disabledResources(namespace, scope.resource)}
  const warnings = [notice, effect.problem].flatMap(each => each ?? [])
  return {lines: switchLines(change, effect, where), result: switchJson(change, effect, where), warnings}
}

/** The switch stays set when the search for exceptions fails. After `enable`, only blocks are exceptions. */
async function searchExceptions(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  verb: SwitchVerb,
): Promise<Omit<SwitchEffect, 'disabledResources'>> {
  try {
    const exceptions = await switchExceptions(namespace, scope, POSITIONS[verb])
    const found = exceptions.found.filter(({access}) => verb !== 'enable' || access === 'disabled')
    return {verb, exceptions: {...exceptions, found}}
  } catch (error) {
    if (!(error instanceof ZaelError)) throw error
    const problem = `The switch is set, but the search for more specific switches failed: ${error.message}`
    return {verb, exceptions: {found: [], looked: 0, isComplete: false}, problem}
  }
}

async function disabledResources({configs}: NamespaceRepository, only: string): Promise<string[]> {
  const names = (await configs.resources()).flatMap(({scope, access}) =>
    scope.level === 'resource' && access === 'disabled' ? [scope.resource] : [],
  )
  return names.filter(name => only === DEFAULT_RESOURCE || name === only).slice(0, MOST_SHOWN)
}

interface SwitchEffect {
  readonly verb: SwitchVerb
  /** That refuse an entity without a block of its own. */
  readonly disabledResources: readonly string[]
  readonly exceptions: SwitchExceptions
  readonly problem?: string | undefined
}

const MOST_SHOWN = 5

function switchLines(change: LimitsChange, effect: SwitchEffect, where: string): string[] {
  const {scope, record, buckets} = change
  const {found} = effect.exceptions
  const commands = found.slice(0, MOST_SHOWN).flatMap(each => {
    const command = commandFor(change, each, effect.verb, where)
    return command === undefined ? [] : [[command, `same for ${exceptionText(change, each)}`] as const]
  })
  return [
    ...factLines(`Switch of ${scopeWords(scope)}`, {
      access: accessChange(change, effect),
      reason: record?.accessReason,
      'live buckets': updatedText(buckets),
      'not for': found.length === 0 ? undefined : exceptionsText(change, found),
      [found.length === 0 ? 'exceptions' : 'searched']:
        effect.problem === undefined ? lookedText(change, effect.exceptions) : undefined,
    }),
    ...nextLines([...instead(change, effect, where), ...commands]),
  ]
}

const hadNoBlock = ({previous}: LimitsChange, {verb}: SwitchEffect): boolean =>
  verb === 'enable' && previous?.access !== 'disabled'

function accessChange(change: LimitsChange, effect: SwitchEffect): string {
  const {previous, record} = change
  const text = policyText(accessText(previous ?? {}), accessText(record ?? {}))
  return text ?? (hadNoBlock(change, effect) ? 'it has no block; nothing was changed' : 'not set, unchanged')
}

/** For `enable` without a block to end. */
function instead(change: LimitsChange, effect: SwitchEffect, where: string): (readonly [string, string])[] {
  const {scope, previous} = change
  if (!hadNoBlock(change, effect) || scope.level === 'system') return []
  const {access} = previous ?? {}
  if (access !== undefined) return [[switchCommand('clear', scope, where), `remove the switch (${access})`]]
  return effect.disabledResources.map(resource => [
    switchCommand('exempt', {...scope, resource}, where),
    `admit it although ${resource} is disabled`,
  ])
}

function switchJson(change: LimitsChange, effect: SwitchEffect, where: string): SwitchResult {
  const {scope, previous, record, buckets} = change
  const {found, looked, isComplete} = effect.exceptions
  return {
    scope: scopeJson(scope),
    access: {before: previous?.access ?? null, after: record?.access ?? null},
    ...switchEndJson({untilMs: record?.accessUntilMs, reason: record?.accessReason}),
    buckets,
    exceptions: {
      found: found.map(each => ({
        scope: scopeJson(each.scope),
        access: each.access,
        command: commandFor(change, each, effect.verb, where) ?? null,
      })),
      looked,
      complete: isComplete,
    },
  }
}

function exceptionsText(change: LimitsChange, found: readonly SwitchException[]): string {
  const texts = found.map(each => exceptionText(change, each))
  return `${formatSome(texts, MOST_SHOWN)}: their own switch applies`
}

function exceptionText({scope: {level}}: LimitsChange, {scope, access}: SwitchException): string {
  if (level === 'entity') return `${scope.resource} (${access})`
  return `${scope.entity} (${access}${scope.resource === DEFAULT_RESOURCE ? ' for every resource' : ''})`
}

/** `undefined` for an entity, whose switches are all known. */
function lookedText({scope}: LimitsChange, {found, looked, isComplete}: SwitchExceptions): string | undefined {
  if (scope.level !== 'resource' || (looked === 0 && isComplete)) return undefined
  const configurations = formatPlural(looked, 'entity configuration', 'entity configurations')
  if (isComplete) return found.length === 0 ? `none, searched ${configurations}` : `${configurations} (all)`
  const what = found.length === 0 ? `none in the first ${configurations}` : configurations
  return `${what}; for all: zael limits list --resource ${shellWord(scope.resource)} --all`
}

/** Never suggests lifting an entity's own switch just because its resource was enabled, bypassed or cleared. */
function commandFor(
  {scope}: LimitsChange,
  {scope: own}: SwitchException,
  verb: SwitchVerb,
  where: string,
): string | undefined {
  if (scope.level === 'resource' && verb !== 'disable') return undefined
  const resource = scope.level === 'resource' ? scope.resource : own.resource
  return switchCommand(verb, {...own, resource}, where)
}

/** `where`: flags to append, each with a leading space. */
export function switchCommand(verb: SwitchVerb, scope: PolicyScope, where: string): string {
  const resource = shellWord(scope.resource)
  if (scope.level === 'resource') return `zael resource ${verb} ${resource}${where}`
  const only = scope.resource === DEFAULT_RESOURCE ? '' : ` --resource ${resource}`
  return `zael entity ${verb} ${shellWord(scope.entity)}${only}${where}`
}

/** `policy`: on, off or clear. */
export async function changeCascade(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  policy: string,
): Promise<ShownChange<CascadeResult>> {
  const cascade = policy === 'clear' ? undefined : policy === 'on'
  const notice = cascade === undefined ? undefined : await newNameNotice(namespace, scope)
  const change = await changeWithProgress(sync => namespace.setCascade(scope, cascade, sync))
  return {lines: cascadeLines(change), result: cascadeJson(change), warnings: notice === undefined ? [] : [notice]}
}

function cascadeLines({scope, previous, record, buckets}: LimitsChange): string[] {
  return factLines(`Cascade policy of ${scopeWords(scope)}`, {
    cascade: policyText(cascadeText(previous?.cascade), cascadeText(record?.cascade)) ?? 'not set, unchanged',
    'live buckets': updatedText(buckets),
  })
}

function cascadeJson({scope, previous, record, buckets}: LimitsChange): CascadeResult {
  const cascade = {before: previous?.cascade ?? null, after: record?.cascade ?? null}
  return {scope: scopeJson(scope), cascade, buckets}
}
