import {calendarCheck} from '../../core/calendar/schedule.js'
import {InvalidInput, ZaelError} from '../../core/errors.js'
import {type Limit, makeLimit} from '../../core/limits/limit.js'
import {checkConfigResource, checkEntityId, checkResourceName, DEFAULT_RESOURCE} from '../../core/names.js'
import {formatList} from '../../core/text/text.js'
import {configAttributeCount} from '../../schema/config-limits.js'
import type {ConfigScope, OnUnavailable, Policies} from '../../schema/config-record.js'

/** Settings of the system level; absent settings are kept. */
export interface SystemSettings {
  readonly onUnavailable?: OnUnavailable | undefined
  readonly auditRetentionDays?: number | undefined
}

/** Checks that need no read. Returns the limits in normal form. */
export function checkChange(
  scope: ConfigScope,
  limits: readonly Limit[],
  {policies = {}, ...settings}: SystemSettings & {readonly policies?: Policies | undefined},
): Limit[] {
  checkScope(scope)
  checkPolicies(scope, policies)
  const checked = checkLimits(limits)
  const {access, cascade} = policies
  checkSettings(scope, settings, limits.length > 0 || access !== undefined || cascade !== undefined)
  return checked
}

/** A namespace as a whole has no switch and no parent. */
export function checkPolicies(scope: ConfigScope, {access, cascade}: Policies): void {
  if (scope.level === 'system' && (access !== undefined || cascade !== undefined))
    throw new InvalidInput(
      'limits.policies',
      'Switches and cascade policies belong to a resource or an entity, not to the system level.',
    )
}

const LONGEST_REASON = 500

export function checkReason(reason: string): string {
  const text = reason.trim()
  if (text.length > 0 && text.length <= LONGEST_REASON) return text
  throw new InvalidInput(
    'switch.reason',
    `A reason has 1 to ${LONGEST_REASON} characters; this one has ${text.length}.`,
  )
}

export const switchRemoved = (): InvalidInput =>
  new InvalidInput('switch.removed', 'An end or a reason was given, but the switch is removed.')

/** Refuses names that cannot be stored before anything is written (D-43). */
export function checkScope(scope: ConfigScope): void {
  if (scope.level === 'entity') {
    checkEntityId(scope.entity)
    checkConfigResource(scope.resource)
  } else if (scope.level === 'resource') checkResourceName(scope.resource)
}

function checkLimits(limits: readonly Limit[]): Limit[] {
  const names = new Set<string>()
  return limits.map(limit => {
    if (names.has(limit.name)) throw new InvalidInput('limit.duplicate', `The limit "${limit.name}" is given twice.`)
    names.add(limit.name)
    return makeLimit(limit, calendarCheck)
  })
}

/** DynamoDB bounds expressions at 4 KB and 300 operators; a change of a configuration compares all limit attributes. */
const MOST_LIMITS = 47
const MOST_ATTRIBUTES = 3 * MOST_LIMITS

export function tooManyLimits(limits: readonly Limit[]): string | undefined {
  if (limits.length > MOST_LIMITS) return `${limits.length} limits are too many: the maximum is ${MOST_LIMITS}`
  const attributes = limits.reduce((sum, limit) => sum + configAttributeCount(limit), 0)
  if (attributes <= MOST_ATTRIBUTES) return undefined
  return `${limits.length} limits with resets and schedules are too many: they need ${attributes} attributes, and the maximum is ${MOST_ATTRIBUTES}`
}

interface CopiedNames {
  readonly names: readonly string[]
  readonly from: string
}

export function checkLimitsTogether(after: readonly Limit[], copied?: CopiedNames): void {
  const only = copied && `${copied.names.length} of them apply there now and would be copied from ${copied.from}`
  const reason = tooManyLimits(after)
  if (reason !== undefined) {
    throw new InvalidInput('limit.too-many', `${reason}.`, {
      ...(only !== undefined && {hint: `${only}. To drop them, replace all limits with the given ones.`}),
      details: {limits: after.length, most: MOST_LIMITS, copied: copied?.names.length ?? 0},
    })
  }
  const [first, ...more] = after.filter(limit => limit.timeZone !== undefined)
  const other = more.find(({timeZone}) => timeZone !== first?.timeZone)
  if (!first || !other) return
  const message = `All limits of a scope share one time zone: "${first.name}" has ${first.timeZone}, "${other.name}" has ${other.timeZone}.`
  throw new InvalidInput('limits.zones', message, {
    hint: [first, other].some(({name}) => copied?.names.includes(name))
      ? `${only}. Use the same zone, or replace all limits with the given ones.`
      : 'Set all of them at once, with the same zone.',
    details: {zones: [first.timeZone, other.timeZone]},
  })
}

function checkSettings(
  scope: ConfigScope,
  {onUnavailable, auditRetentionDays}: SystemSettings,
  isMoreGiven: boolean,
): void {
  const hasSettings = onUnavailable !== undefined || auditRetentionDays !== undefined
  if (hasSettings && scope.level !== 'system')
    throw new InvalidInput('limits.settings', 'Outage policy and audit retention are settings of the system level.')
  if (!isMoreGiven && !hasSettings)
    throw new InvalidInput('limits.empty', `No limits are given for ${nameOf(scope)}.`, {
      hint: 'Give at least one limit, for example rpm=100/min. To remove limits, use unset.',
    })
  if (auditRetentionDays !== undefined && !(Number.isSafeInteger(auditRetentionDays) && auditRetentionDays > 0))
    throw new InvalidInput('limits.retention', `Audit events cannot be kept for ${auditRetentionDays} days.`)
}

/** Other clients may have added limits since the user confirmed the removal. */
export function requireRemovable(
  scope: ConfigScope,
  {before = [], after = []}: {readonly before?: readonly Limit[] | undefined; readonly after?: readonly Limit[]},
  mayRemove: readonly string[] | undefined,
): void {
  const allowed = new Set([...(mayRemove ?? []), ...after.map(({name}) => name)])
  const added = before.flatMap(({name}) => (allowed.has(name) ? [] : [name]))
  if (mayRemove === undefined || added.length === 0) return
  const message = `Another client has since added ${formatList(added)} to the limits of ${nameOf(scope)}.`
  throw new ZaelError('conflict', 'limits.changed', message, {
    hint: 'Nothing was changed. Check the new limits and try again.',
    details: {scope, added},
  })
}

export function missing(scope: ConfigScope, limitName?: string, others: readonly Limit[] = []): ZaelError {
  const what = limitName === undefined ? 'No limits are' : `No limit "${limitName}" is`
  return new ZaelError('notFound', 'limits.missing', `${what} configured for ${nameOf(scope)}.`, {
    hint: others.length > 0 ? `It has ${others.map(({name}) => name).join(', ')}.` : 'Check the spelling.',
    details: {
      scope,
      ...(others.length > 0 ? {others: others.map(({name}) => name)} : {}),
      ...(limitName !== undefined ? {limit: limitName} : scope.level === 'resource' ? {resource: scope.resource} : {}),
    },
  })
}

export function notBoosted(scope: ConfigScope, limitName: string | undefined, others: readonly string[]): ZaelError {
  const message = `No temporary limit${limitName === undefined ? '' : ` "${limitName}"`} for ${nameOf(scope)}.`
  return new ZaelError('notFound', 'boost.missing', message, {
    hint: others.length > 0 ? `Temporary limits: ${others.join(', ')}.` : 'It has no temporary limits.',
    details: {scope, ...(limitName !== undefined && {limit: limitName})},
  })
}

export function nothingApplies(entity: string, resource: string): ZaelError {
  const message = `No level has limits for entity ${entity} and resource ${resource}.`
  return new ZaelError('notFound', 'limits.missing', message, {
    hint: 'Set limits, for example for the resource.',
    details: {entity, resource},
  })
}

export function nameOf(scope: ConfigScope): string {
  if (scope.level === 'system') return 'the system'
  if (scope.level === 'resource') return `resource "${scope.resource}"`
  const {entity, resource} = scope
  return resource === DEFAULT_RESOURCE
    ? `entity "${entity}" (all resources)`
    : `entity "${entity}" and resource "${resource}"`
}
