import {openWindow, plainAt} from '../../core/calendar/kind-definition.js'
import {isoMinute} from '../../core/calendar/windows-until.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import {plainRate, rateText} from '../../core/limits/boost-text.js'
import {
  type BoostValues,
  baseOf,
  isSessionReset,
  type Limit,
  MAX_SLOTS,
  MAX_TOKENS,
  type ScheduleEntry,
} from '../../core/limits/limit.js'
import {formatLimit} from '../../core/limits/limit-text.js'
import type {BucketName} from '../../core/names.js'
import {didYouMean} from '../../core/text/nearest.js'
import {
  formatCount,
  formatList,
  formatMinute,
  formatPercent,
  formatPlural,
  formatShortNumber,
  formatSpan,
  formatTokens,
  formatWait,
  shellWord,
} from '../../core/text/text.js'
import {windowStart} from '../../core/window.js'
import type {SlotHolder} from '../../insight/holders/in-flight.js'
import type {SharedCharge} from '../../insight/lookup/family-limits.js'
import {isRefusing, mayHavePaused, refusedByOthers, refusedShare, refusedTotal} from '../../insight/usage/refused.js'
import type {ExplainedLimit, ExplainedSlots, Explanation, SetSwitch} from '../../insight/why/explain.js'
import {isoMilliseconds, isoSeconds} from '../../schema/attribute-value.js'
import {seemsDead} from '../../schema/holder-record.js'
import type {StoredFeedback} from '../../schema/kind-attributes.js'
import {isRunEntity} from '../../schema/run-record.js'
import {scopeArguments, scopeWords} from '../base/scope.js'
import {
  inFlightJson,
  inFlightText,
  processText,
  reservedByJson,
  reservedByText,
  slotHoldersText,
} from '../holders/presenter.js'
import type {InFlightJson} from '../holders/results.js'
import {kindJson, scopeJson, switchEndJson, switchSetJson, switchSetText} from '../limits/json.js'
import {cascadeSource, leftOutText, sharedChargeJson} from '../limits/resolve-presenter.js'
import {type SwitchVerb, switchCommand} from '../limits/switch.js'
import {pick} from '../output/json-text.js'
import {factLines, type NextCommand, nextLines} from '../output/text-table.js'
import {amountWords} from './presenter.js'
import type {WhyAllResult, WhyOneResult} from './results.js'

const lifting = ({scope}: SetSwitch, verb: SwitchVerb, where: string): NextCommand => [
  switchCommand(verb, scope, where),
  `remove the switch of ${scopeWords(scope)}`,
]

/** Narrowest first. */
function opening(disabled: SetSwitch, resource: string, where: string): NextCommand[] {
  const {entity, scope} = disabled
  const lift = lifting(disabled, 'enable', where)
  if (scope.level !== 'resource') return [lift]
  return [[switchCommand('exempt', {level: 'entity', entity, resource}, where), `admit only ${entity}`], lift]
}

export function whyLines(explanation: Explanation, where = '', next = true): string[] {
  const {limits, inFlight, cascade, disabled} = explanation
  if (disabled) {
    return [
      verdict(explanation),
      ...switchFacts(disabled),
      triedText(explanation),
      ...(next ? nextLines(opening(disabled, explanation.resource, where)) : []),
    ]
  }
  const pressed = limits.filter(limit => isPressed(limit, explanation))
  return [
    verdict(explanation),
    ...unknownLines(explanation),
    ...refusedLines(explanation),
    ...unsettledLines(explanation),
    ...limits.flatMap(limit => ['', ...limitLines(limit, explanation)]),
    ...inFlight.flatMap(each => ['', ...slotLines(each, explanation)]),
    ...bypassLines(explanation, where),
    ...(cascade ? sharedLines(explanation, cascade) : []),
    ...(pressed.length === 0 && busy(explanation).length === 0 ? [] : remedyLines(pressed, explanation, where)),
  ]
}

const withName = ({entity, name}: Explanation): string => (name === undefined ? entity : `${entity} (${name})`)

function disabledText({entity, resource}: Explanation, disabled: SetSwitch): string {
  const whose = disabled.entity === entity ? '' : `, the parent of ${entity}`
  return `${resource} is disabled for ${disabled.entity}${whose}: every request is refused until ${endText(disabled)}.`
}

const endText = ({untilMs}: SetSwitch): string =>
  untilMs === undefined ? 'the switch is removed' : formatMinute(untilMs)

const switchFacts = ({scope, reason, set}: SetSwitch): string[] =>
  factLines('', {'set for': scopeWords(scope), 'set at': switchSetText(set), reason}).slice(1)

function bypassLines({bypassed, resource}: Explanation, where: string): string[] {
  if (bypassed.length === 0) return []
  const switches = bypassed.flatMap(each => [
    '',
    `${resource} is bypassed for ${each.entity}: every request is admitted and counted, but not charged${each.untilMs === undefined ? '' : `, until ${endText(each)}`}.`,
    ...switchFacts(each),
  ])
  return [...switches, ...nextLines(bypassed.map(each => lifting(each, 'clear', where)))]
}

function slotLines(limit: ExplainedSlots, {atMs}: Explanation): string[] {
  const {entity, level, exceeded, isBypassed, scope, configured, holders} = limit
  const whose = level === 'parent' ? `the parent ${entity}` : entity
  const state = exceeded ? 'refuses' : isBypassed ? 'is bypassed' : 'has room'
  return factLines(`${limit.limit} of ${whose} ${state}: ${inFlightText(limit)}`, {
    level: slotsLeftText(limit),
    'set for': `${scopeWords(scope)}: ${plainRate(configured)}`,
    'held by': holders.length === 0 ? undefined : slotHoldersText(holders, atMs),
  })
}

const slotsLeftText = ({free, capacity, requested}: ExplainedSlots): string =>
  `${formatCount(free)} of ${formatPlural(capacity, 'slot')} free, ${formatCount(requested)} requested`

const busy = ({inFlight}: Explanation): ExplainedSlots[] => inFlight.filter(({exceeded}) => exceeded)

/** Fastest first: return slots of processes that seem dead, look at all, raise the limit for this entity and resource. */
function slotRemedies(
  {exceeded, entity, resource, requested, ...limit}: ExplainedSlots,
  atMs: number,
  where: string,
): NextCommand[] {
  if (!exceeded) return []
  const {configured, capacity, holders, scope} = limit
  const raised = Math.min(MAX_SLOTS, Math.max(requested, 2 * capacity))
  const raise = formatLimit({...configured, capacity: raised})
  const own = scopeArguments({level: 'entity', entity, resource})
  return [
    ...releases(holders, 'slots', atMs, where),
    [`zael holders list --wait --slots${where}`, 'see which processes are alive, and what they hold'],
    ...(raised > capacity
      ? [
          [
            `zael limits set ${own} ${shellWord(raise)}${where}`,
            `raise the slots of ${scopeWords(scope)} for ${entity}`,
          ] as const,
        ]
      : []),
  ]
}

const MOST_RELEASED = 2

function releases(
  holders: readonly Pick<SlotHolder, 'id' | 'record'>[],
  what: 'slots' | 'reserved tokens',
  atMs: number,
  where: string,
): NextCommand[] {
  const stale = holders.filter(({record}) => seemsDead(record, atMs)).slice(0, MOST_RELEASED)
  return stale.map(({id, record}) => {
    const process = record?.host === undefined ? 'this holder' : processText(record)
    return [`zael holders release ${id}${where}`, `return the ${what} of ${process} if it is dead`]
  })
}

function unknownLines({entity, unknown}: Explanation): string[] {
  if (!unknown) return []
  const nearest = didYouMean(unknown.nearest)
  return [
    `${entity} is unknown: it has no record, limits, bucket or usage. Requests above a capacity are not counted. ` +
      'Its first request gets the limits below.' +
      `${nearest === undefined ? '' : ` ${nearest}`}`,
  ]
}

function refusedLines(explanation: Explanation): string[] {
  const text = refusedText(explanation)
  if (text === undefined || isOverrun(explanation)) return []
  const {entity, changedAtMs} = explanation
  if (changedAtMs === undefined) return [`${entity}: ${text}.${beganText(explanation)}`]
  const since = formatMinute(changedAtMs)
  return [`${entity}: no refusals are recorded since limits or a switch changed at ${since}. Before that: ${text}.`]
}

function unsettledLines({entity, unsettled}: Explanation): string[] {
  if (!unsettled) return []
  const {settlements, lastAtMs} = unsettled
  return [
    `${entity}: the table did not answer in time to settle ${formatPlural(settlements, 'lease')}, the last at ${formatMinute(lastAtMs)}. ` +
      `${settlements === 1 ? 'It' : 'They'} may stay charged as reserved until refill or the reset of a quota.`,
  ]
}

/** With this share of recent requests refused, the state of an instant would mislead. */
const OVERRUN_SHARE = 0.1

const isOverrun = ({recent, atMs, changedAtMs}: Explanation): boolean =>
  changedAtMs === undefined && (refusedShare(recent) ?? 0) >= OVERRUN_SHARE && isRefusing(recent, atMs)

/** A parent may refuse others only. */
const isPressed = (limit: ExplainedLimit, explanation: Explanation): boolean =>
  limit.exceeded || (limit.isPressed && isOverrun(explanation))

/** With the limits of the account that refused requests, of any caller. */
function accountText({entity, resource}: BucketName, limits: readonly ExplainedLimit[]): string {
  const refusing = limits.filter(
    each =>
      each.level === 'provider' && each.entity === entity && each.resource === resource && each.refused.requests > 0,
  )
  return `${entity} · ${resource}${refusing.length === 0 ? '' : ` (${refusing.map(({name}) => name).join(', ')})`}`
}

function beganText({recent: {refusedSince, since, hour}}: Explanation): string {
  if (!refusedSince || since !== hour) return ''
  const {atMs, isHour} = refusedSince
  return ` Refusals began ${isHour ? 'in the hour from' : 'at'} ${formatMinute(atMs)}.`
}

/** Whether somebody still uses a blocked key. */
function triedText(explanation: Explanation): string {
  const {entity, recent} = explanation
  return `${entity}: ${refusedText(explanation) ?? `no refusals are recorded since ${recent.since}`}.`
}

/** Processes write refusals every 10 seconds: later ones may be missing. */
const LATE_MS = 15_000

function refusedText({recent, atMs, limits, changedAtMs}: Explanation): string | undefined {
  const {refused, admitted, since, hour} = recent
  const [total, share] = [refusedTotal(refused), refusedShare(recent)]
  if (total === 0 || share === null) return undefined
  const {byParent, byProvider = []} = refusedByOthers(refused)
  const providers = byProvider.map(account => `, ${formatCount(account.requests)} by ${accountText(account, limits)}`)
  const parent = `${providers.join('')}${byParent > 0 ? `, ${formatCount(byParent)} only by the parent` : ''}`
  const blocked = refused.blocked > 0 ? `, ${formatCount(refused.blocked)} by a block` : ''
  const agoMs = refused.lastAtMs === undefined ? undefined : Math.max(0, atMs - refused.lastAtMs)
  const late = agoMs !== undefined && agoMs <= LATE_MS ? ', counted up to 10 s late' : ''
  const last = agoMs === undefined ? '' : `, last ${formatSpan(agoMs)} ago${late}`
  const start = `since ${since === hour ? '' : 'refusals began at '}${since}`
  const details = `${blocked}${parent}${last}`
  // Requests admitted after the change are counted too: a share of both would mislead.
  if (changedAtMs !== undefined) return `${formatPlural(total, 'request')} refused (${start}${details})`
  const counts = `${formatCount(total)} of ${formatCount(Math.max(0, admitted) + total)}`
  if (mayHavePaused(recent)) return `${counts} requests refused (${start}, perhaps with pauses${details})`
  return `${formatPercent(share)} of requests refused (${counts} ${start}${details})`
}

function sharedLines({entity, parents, leftOut}: Explanation, cascade: SharedCharge): string[] {
  const {charged, level, parent} = cascade
  const source = level === 'record' ? '' : `, by the cascade policy at the ${cascadeSource(cascade)}`
  if (charged) {
    const others = parents.length > 1 ? formatList(parents) : `its parent ${parent}`
    const left = leftOut === undefined ? [] : [leftOutText(entity, parents.length, leftOut)]
    return ['', `Requests of ${entity} also charge ${others}${source}.`, ...left]
  }
  return level === 'record' ? [] : ['', `Requests of ${entity} do not charge its parent ${parent}${source}.`]
}

const BASES: Readonly<Record<Explanation['basis'], (amounts: string) => string>> = {
  asked: amounts => `a request for ${amounts}`,
  typical: amounts => `a typical request (${amounts})`,
  'per-write': amounts => `a request like the average write (${amounts})`,
  'one-token': amounts => `a request for ${amounts}`,
}

function verdict(explanation: Explanation): string {
  const {resource, limits, inFlight, admitted, retryAfterMs, atMs, basis, disabled} = explanation
  if (disabled) return disabledText(explanation, disabled)
  const entity = withName(explanation)
  const own = limits.filter(({level}) => level !== 'provider')
  const units = new Map(own.flatMap(({name, configured: {unit}}) => (unit === undefined ? [] : [[name, unit]])))
  const slots = inFlight.filter(({requested}) => requested !== 1).map(({limit, requested}) => [limit, requested])
  const amounts = amountWords(
    Object.fromEntries([...own.map(({name, requested}) => [name, requested]), ...slots]),
    units,
  )
  const request = amounts === '' ? 'a request' : BASES[basis](amounts)
  if (isOverrun(explanation)) {
    const wait =
      retryAfterMs === null
        ? 'waiting does not help'
        : busy(explanation).length > 0
          ? 'it needs a free slot'
          : `without other requests, it would be admitted in ${formatWait(retryAfterMs)}`
    const now = admitted ? 'would be admitted now' : `is refused now; ${wait}`
    return `${entity}, ${resource}: ${refusedText(explanation)}.${beganText(explanation)} A${request.slice(1)} ${now}.`
  }
  const subject = `${entity}, ${resource}: ${request}`
  const overdrawn = limits.filter(isOverdrawn).map(({name}) => name)
  if (admitted && overdrawn.length > 0) {
    const which = `${formatList(overdrawn)} ${overdrawn.length === 1 ? 'is' : 'are'}`
    return `${subject} is admitted now, although ${which} overdrawn (soft).`
  }
  if (admitted) return `${subject} is admitted now.`
  if (retryAfterMs === null) return `${subject} is refused, and waiting does not help.`
  if (busy(explanation).length > 0) {
    const waitMs = Math.max(0, ...limits.map(limit => limit.retryAfterMs ?? 0))
    const earliest = waitMs > 0 ? `, in ${formatWait(waitMs)} at the earliest` : ''
    return `${subject} is refused: ${busyText(explanation)}. It will be admitted when requests in flight end${earliest}.`
  }
  const at = isoSeconds(Math.ceil((atMs + retryAfterMs) / 1000) * 1000)
  return `${subject} is refused. It will be admitted in ${formatWait(retryAfterMs)}, at ${at}.`
}

/** "3 of 3 requests of parallel in flight". */
const busyText = (explanation: Explanation): string =>
  formatList(
    busy(explanation).map(({inUse, capacity, limit}) => {
      return `${formatCount(inUse)} of ${formatPlural(capacity, 'slot')} of ${limit} in use`
    }),
  )

function limitLines(limit: ExplainedLimit, explanation: Explanation): string[] {
  const {hour, atMs, recent} = explanation
  const {name, entity, level, exceeded, shards, scope, drainedBy, configured} = limit
  const {refused, isBypassed} = limit
  const count = (tokens: number) => formatTokens(tokens, configured.unit)
  const whose = level === 'parent' ? `the parent ${entity}` : level === 'provider' ? accountOf(limit) : entity
  const alone = isOverrun(explanation) ? ' without other requests' : ''
  const clears =
    limit.retryAfterMs === null ? 'waiting does not help' : `clears in ${formatWait(limit.retryAfterMs)}${alone}`
  const state = exceeded
    ? `refuses, ${clears}`
    : isBypassed
      ? 'is bypassed'
      : isOverdrawn(limit)
        ? 'is soft: it is overdrawn and refuses nothing'
        : isPressed(limit, explanation)
          ? 'has room now, but refused recently'
          : 'has room'
  const isNamed = drainedBy.length > 0
  const isShared = level === 'parent' || isNamed
  const rest = count(limit.drainedByOthers)
  // Spend on a limit that the children lack is recorded for the parent only.
  const isRecorded = isNamed || explanation.limits.some(other => other !== limit && other.name === name)
  const others =
    limit.drainedByOthers > 0 ? [isRecorded ? `others ${rest}` : `${rest} in all, recorded for ${entity} only`] : []
  const longer = configured.reset ? `; earlier usage: zael usage top ${shellWord(entity)} --since 30d` : ''
  const who =
    limit.drainedByOthers > 0 && isRecorded ? '; others: its own use, and smaller, moved or deleted members' : ''
  const consumers = [...drainedBy.map(({entity: child, tokens}) => `${child} ${count(tokens)}`), ...others].join(', ')
  return factLines(`${name} of ${whose} ${state}`, {
    level: leftText(limit),
    'set for': `${scopeWords(scope)}: ${rateText(configured, limit.next)}`,
    'topped up': limit.toppedUp > 0 ? `${count(limit.toppedUp)} until the reset` : undefined,
    resets: resetsText(limit, atMs),
    shards: shards.length > 1 ? shardsText(limit) : undefined,
    'provider feedback': feedbackText(limit, atMs),
    refused: refused.requests > 0 ? refusedByText(limit) : undefined,
    'reserved by': limit.reservedBy.length > 0 ? reservedByText(limit.reservedBy, configured.unit, atMs) : undefined,
    callers: limit.callers ? `${callersText(limit)} (since ${recent.hour})` : undefined,
    'consumed by':
      isPressed(limit, explanation) && isShared
        ? `${consumers || 'no recorded usage yet'} (since ${hour}${who}${longer})`
        : undefined,
  })
}

const accountOf = ({entity, resource}: BucketName): string => `the shared scope ${entity} · ${resource}`

const callersText = ({callers = [], configured: {unit}}: ExplainedLimit): string =>
  callers
    .map(({entity, resource, requests, tokens}) => {
      return `${entity} · ${resource} ${formatTokens(tokens, unit)} used, ${formatCount(requests)} refused`
    })
    .join('; ')

const isOverdrawn = ({configured, available, requested}: ExplainedLimit): boolean =>
  configured.soft === true && available < requested

function leftText(limit: ExplainedLimit): string {
  const {available, capacity, requested, configured} = limit
  const count = (tokens: number) => formatTokens(tokens, configured.unit)
  return `${count(available)} of ${count(capacity)} left, ${count(requested)} requested`
}

function refusedByText({refused, refusedSince, configured}: ExplainedLimit): string {
  const tokens = formatTokens(refused.tokens, configured.unit)
  return `${formatPlural(refused.requests, 'request')} for ${tokens} since ${refusedSince}`
}

function feedbackText({feedback, configured: {unit}}: ExplainedLimit, nowMs: number): string | undefined {
  if (!feedback) return undefined
  const what =
    feedback.clearsAtMs === undefined
      ? `${formatTokens(feedback.left ?? 0, unit)} left`
      : `${feedback.clearsAtMs > nowMs ? '' : 'was '}rate limited until ${isoSeconds(Math.ceil(feedback.clearsAtMs / 1000) * 1000)}`
  return `${what} (at ${isoSeconds(feedback.atMs)})`
}

function feedbackJson(
  {atMs, left, clearsAtMs}: StoredFeedback,
  inForce: boolean,
): NonNullable<WhyOneResult['limits'][number]['feedback']> {
  const clears = clearsAtMs === undefined ? {} : {clearsAt: isoMilliseconds(clearsAtMs)}
  return {at: isoMilliseconds(atMs), ...(left !== undefined && {left}), ...clears, inForce}
}

/** Until the provider's own instant; for a balance it reported, until the limit would have filled up since. */
function isFeedbackInForce({feedback, capacity, refillAmount, refillPeriodSeconds}: ExplainedLimit, nowMs: number) {
  if (!feedback) return false
  const {atMs, clearsAtMs = 0} = feedback
  return (
    clearsAtMs > nowMs || (refillAmount > 0 && nowMs - atMs < (capacity / refillAmount) * refillPeriodSeconds * 1000)
  )
}

function providerAdvice(limit: ExplainedLimit, nowMs: number): string {
  const {feedback, configured, name} = limit
  const left = feedback?.left === undefined ? '' : ` only ${formatTokens(feedback.left, configured.unit)} left`
  const said =
    feedback?.clearsAtMs === undefined
      ? `had${left} at ${isoSeconds(feedback?.atMs ?? 0)}`
      : `${feedback.clearsAtMs > nowMs ? 'is' : 'was'} used up until ${isoSeconds(Math.ceil(feedback.clearsAtMs / 1000) * 1000)}`
  return (
    `The provider reported that ${name} of ${limit.entity} ${said}. Wait, or raise the quota at the provider. ` +
    `A reset or a higher limit in zael would lead to 429s of the provider.`
  )
}

/** The limits of a provider account mirror its quota there. */
const isAccount = ({level, callers}: ExplainedLimit): boolean => level === 'provider' || callers !== undefined

function accountAdvice(limit: ExplainedLimit): string {
  const [{tokens: largest = 0} = {}] = limit.callers ?? []
  const most = (limit.callers ?? []).filter(({tokens}) => tokens > 0 && tokens * 2 >= largest).slice(0, 2)
  const named = most.length === 0 ? '' : ` (${most.map(({entity, resource}) => `${entity} · ${resource}`).join(', ')})`
  return (
    `To admit more through ${accountOf(limit)}, limit ${most.length === 1 ? 'the caller that uses' : 'the callers that use'} most of its ${limit.name}${named}, ` +
    'or raise its limits: those of a provider account at the provider first.'
  )
}

function resetsText({entity, configured: {reset}, resetsAtMs}: ExplainedLimit, atMs: number): string | undefined {
  if (resetsAtMs !== undefined) return `${isoSeconds(resetsAtMs)}, in ${formatWait(resetsAtMs - atMs)}`
  return isSessionReset(reset) && !isRunEntity(entity)
    ? `${formatSpan(reset.afterSeconds * 1000)} after its first use`
    : undefined
}

function shardsText({shards, configured: {unit}}: ExplainedLimit): string {
  const each = shards.map(({shard, available, capacity}) => {
    return `${shard}: ${formatTokens(available, unit)} of ${formatTokens(capacity, unit)}`
  })
  return each.join(', ')
}

function remedyLines(pressed: readonly ExplainedLimit[], explanation: Explanation, where: string): string[] {
  const {atMs} = explanation
  const commands = new Map([
    ...busy(explanation).flatMap(limit => slotRemedies(limit, atMs, where)),
    ...pressed.flatMap(limit => remediesIn(explanation, limit, where)),
  ])
  const advice = pressed.flatMap(limit => {
    if (isFeedbackInForce(limit, atMs)) return ['', providerAdvice(limit, atMs)]
    return isAccount(limit) ? ['', accountAdvice(limit)] : []
  })
  const [, , ...lines] = nextLines([...commands])
  const each = pressed.length > 1 ? ' (one command per limit)' : ''
  const sooner = explanation.retryAfterMs === null ? '' : ' sooner'
  const aim = explanation.admitted ? 'To refuse fewer requests:' : `To admit it${sooner}${each}:`
  return commands.size === 0 ? advice : [...advice, '', aim, ...lines]
}

export function whyJson(explanation: Explanation, where = ''): WhyOneResult {
  const {entity, resource, isRegistered, parents, cascade, atMs, hour, admitted, limits, disabled, unsettled} =
    explanation
  const clears = (ms: number | null) => (ms === null ? null : new Date(atMs + ms).toISOString())
  return {
    entity,
    resource,
    registered: isRegistered,
    known: explanation.unknown === undefined,
    name: explanation.name ?? null,
    parent: parents[0] ?? null,
    parents: [...parents],
    cascade: sharedChargeJson(cascade),
    at: new Date(atMs).toISOString(),
    hour,
    admitted,
    retryAfterMs: explanation.retryAfterMs,
    clearsAt: clears(explanation.retryAfterMs),
    disabled: disabled ? switchJson(disabled, opening(disabled, explanation.resource, where)) : null,
    bypassed: explanation.bypassed.map(each => switchJson(each, [lifting(each, 'clear', where)])),
    request: explanation.basis,
    refused: refusedJson(explanation),
    unsettled: unsettled ? {settlements: unsettled.settlements, lastAt: isoMilliseconds(unsettled.lastAtMs)} : null,
    recent: {
      since: explanation.recent.since,
      admitted: explanation.recent.admitted,
      refused: refusedTotal(explanation.recent.refused),
      share: refusedShare(explanation.recent),
      changedAt: explanation.changedAtMs === undefined ? null : isoMilliseconds(explanation.changedAtMs),
    },
    limits: limits.map(limit => ({
      ...pick(limit, 'name', 'level', 'entity', 'resource'),
      setFor: scopeJson(limit.scope),
      text: formatLimit(limit.configured),
      ...pick(limit, 'capacity', 'refillAmount', 'refillPeriodSeconds'),
      ...kindJson(limit.configured),
      ...(limit.toppedUp > 0 && {toppedUp: limit.toppedUp}),
      ...(limit.resetsAtMs !== undefined && {resetsAt: new Date(limit.resetsAtMs).toISOString()}),
      ...(limit.feedback && {feedback: feedbackJson(limit.feedback, isFeedbackInForce(limit, atMs))}),
      ...pick(limit, 'available', 'requested'),
      deficit: missing(limit),
      exceeded: limit.exceeded,
      retryAfterMs: limit.retryAfterMs,
      clearsAt: clears(limit.retryAfterMs),
      ...pick(limit, 'refused', 'refusedSince', 'shards', 'drainedBy', 'drainedByOthers'),
      reservedBy: reservedByJson(limit.reservedBy),
      ...(limit.callers && {callers: limit.callers}),
      remedies: remediesIn(explanation, limit, where).map(remedyJson),
    })),
    inFlight: explanation.inFlight.map(limit => ({
      ...(inFlightJson([limit])[0] as InFlightJson[number]),
      ...pick(limit, 'level', 'entity', 'resource'),
      setFor: scopeJson(limit.scope),
      text: formatLimit(limit.configured),
      ...pick(limit, 'requested', 'exceeded'),
      retryAfterMs: limit.retryAfterMs,
      remedies: slotRemedies(limit, atMs, where).map(remedyJson),
    })),
  }
}

const remedyJson = ([command, purpose]: NextCommand) => ({command, purpose})

function switchJson(set: SetSwitch, commands: readonly NextCommand[]): NonNullable<WhyOneResult['disabled']> {
  const {entity, scope} = set
  const ends = {...switchEndJson(set), ...switchSetJson(set.set)}
  return {entity, setFor: scopeJson(scope), ...ends, remedies: commands.map(remedyJson)}
}

function refusedJson({recent: {refused, since, refusedSince}}: Explanation): WhyOneResult['refused'] {
  const {requests, lastAtMs} = refused
  const lastAt = lastAtMs === undefined ? null : isoMilliseconds(lastAtMs)
  const beganAt = !refusedSince || refusedSince.isHour ? null : isoMilliseconds(refusedSince.atMs)
  const beganInHour = refusedSince ? windowStart('hourly', refusedSince.atMs) : null
  const {byParent, byProvider = []} = refusedByOthers(refused)
  return {requests, byParent, byProvider, beganAt, beganInHour, since, lastAt}
}

function remediesIn(explanation: Explanation, limit: ExplainedLimit, where: string): NextCommand[] {
  if (!isPressed(limit, explanation)) return []
  const {entity, atMs, hour} = explanation
  const all = remedies(limit, atMs, where, parentOf(limit, explanation))
  const lower = all.length === 0 ? undefined : lowering(limit, atMs)
  if (!limit.heaviest || !lower) return all
  const {entity: child, share} = limit.heaviest
  const scope = scopeArguments({level: 'entity', entity: child, resource: limit.resource})
  const command = `zael limits set ${scope} ${shellWord(formatLimit(lower))}${where}`
  const purpose = `limit ${child} to half of this limit; it used ${formatPercent(share)} since ${hour}`
  // It protects the other children, and admits nothing more of this one.
  return child === entity
    ? [...all, [command, `protect the other members of ${limit.entity}: ${purpose}`]]
    : [[command, purpose], ...all]
}

/**
 * Half of the limit, for the child that used most of it. `undefined` unless that lowers a rate. A used-up quota refills
 * only at its reset: a lower limit of a child would admit nothing before.
 */
function lowering({heaviest, configured}: ExplainedLimit, atMs: number): Limit | undefined {
  if (!heaviest || heaviest.limit.schedule || heaviest.limit.boost) return undefined
  if (configured.reset || heaviest.limit.reset) return undefined
  const whole = plainAt(baseOf(configured), atMs)
  const [capacity, refillAmount] = [Math.floor(whole.capacity / 2), Math.floor(whole.refillAmount / 2)]
  const half = {...whole, capacity, refillAmount}
  const paceOf = (limit: Limit) => limit.refillAmount / limit.refillPeriodSeconds
  return capacity > 0 && paceOf(half) > 0 && paceOf(half) < paceOf(heaviest.limit) ? half : undefined
}

/** The slowest rate of this name among the parents, which the requests of the entity are charged to as well. */
function parentOf({level, name}: ExplainedLimit, {limits}: Explanation): ExplainedLimit | undefined {
  const parents = limits.filter(other => other.level === 'parent' && other.name === name && refillPerSecond(other) > 0)
  return level === 'entity' ? parents.toSorted((a, b) => refillPerSecond(a) - refillPerSecond(b))[0] : undefined
}

/**
 * Fastest first: return reserved tokens, top up, refill, or raise the limit for this entity and resource only, at most
 * to the rate of its parent. `where`: flags to append.
 */
export function remedies(limit: ExplainedLimit, atMs: number, where = '', parent?: ExplainedLimit): NextCommand[] {
  const {configured, requested, entity, resource, capacity, exceeded} = limit
  // More tokens than were delegated would be charged to nobody until the run ends.
  if (!limit.isPressed || isRunEntity(entity) || isAccount(limit) || isFeedbackInForce(limit, atMs)) return []
  const refill: NextCommand = [
    `zael bucket reset ${shellWord(entity)} --resource ${shellWord(resource)}${where}`,
    `refill the bucket of ${entity} now${lastingText(limit, capacity)}`,
  ]
  const raise = raising(limit, atMs, where, parent)
  return [
    ...releases(limit.reservedBy, 'reserved tokens', atMs, where),
    ...(configured.reset ? [topUp(limit, where)] : []),
    ...(requested > capacity || !exceeded ? [] : [refill]),
    ...(raise ? [raise] : []),
  ]
}

const refillPerSecond = ({configured: {reset, refillAmount, refillPeriodSeconds}}: ExplainedLimit): number =>
  reset ? 0 : refillAmount / refillPeriodSeconds

/** How long an amount lasts at the recent demand. */
function lastingText(limit: ExplainedLimit, tokens: number): string {
  const drained = (limit.demandPerSecond ?? 0) - refillPerSecond(limit)
  return drained > 0 ? `: lasts about ${formatSpan((tokens / drained) * 1000)} at the recent demand` : ''
}

/** More than the recent demand, which varies. */
const HEADROOM = 1.1

/** How many times the refill rate of a rate limit the recent demand is. */
function overload(limit: ExplainedLimit): number {
  const rate = refillPerSecond(limit)
  return rate > 0 ? (limit.demandPerSecond ?? 0) / rate : 0
}

/**
 * Raises the values that apply when the command takes effect: now, or at the next reset of a quota with windows or of
 * another kind before. A temporary limit, or a copy made for one, keeps its end. `undefined` if it expires before that, or if the raised values
 * equal the base.
 */
function raising(
  limit: ExplainedLimit,
  atMs: number,
  where: string,
  parent: ExplainedLimit | undefined,
): NextCommand | undefined {
  const {configured, requested, entity, resource, resetsAtMs, copiedUntilMs} = limit
  const scope = {level: 'entity', entity, resource} as const
  const untilMs = configured.boost?.isEnded === false ? configured.boost.untilMs : copiedUntilMs
  const base = baseOf(configured)
  // Its use counts against the new allowance at once (decision 43).
  const isPlainQuota = limit.tellsUse && !base.schedule && untilMs === undefined
  const fromMs = isPlainQuota ? atMs : (resetsAtMs ?? atMs)
  if (untilMs !== undefined && untilMs <= fromMs) return undefined
  const present = plainAt(untilMs === undefined ? base : configured, fromMs)
  const needed = isPlainQuota ? present.capacity + missing(limit) : requested
  const isTooSmall = needed > (isPlainQuota ? doubled(present.capacity) : present.capacity)
  // A schedule may apply another rate than the one that the demand was compared with.
  const times = base.schedule ? 0 : overload(limit)
  const isBurst = times > 0 && times <= 1
  const grown = (tokens: number) => (times > 1 ? roundedUp(tokens * times * HEADROOM) : doubled(tokens))
  const wanted = {
    capacity: isTooSmall ? needed : isBurst ? burstFor(present, times) : grown(present.capacity),
    refillAmount: isTooSmall || isBurst ? present.refillAmount : grown(present.refillAmount),
    refillPeriodSeconds: present.refillPeriodSeconds,
  }
  const isFaster = wanted.refillAmount > present.refillAmount
  const values = isFaster && !base.schedule ? atMost(parent, wanted) : wanted
  const isCapped = values !== wanted
  if (isCapped && values.refillAmount <= present.refillAmount) return undefined
  if (untilMs !== undefined && !base.schedule && hasValues(base, values)) return undefined
  const window = untilMs === undefined ? openWindow(base, fromMs) : undefined
  const raised = untilMs === undefined ? withValues(base, window, values) : {...present, ...values}
  const end = untilMs === undefined ? '' : ` --until ${isoMinute(untilMs)}`
  const command = `zael limits set ${scopeArguments(scope)} ${shellWord(formatLimit(raised))}${end}${where}`
  const inWindow = window === undefined ? '' : ` in its window "${base.schedule?.[window]?.cron}"`
  const whose = `of ${scopeWords(scope)}${inWindow}`
  const effect = isPlainQuota ? ', at once' : raisedFrom(limit)
  if (isCapped) return [command, `raise the rate ${whose} to that of its parent ${parent?.entity}`]
  if (!isTooSmall && times > 1)
    return [
      command,
      `raise the rate ${whose} to admit all: recent demand, with retries, is ${formatShortNumber(times)} times the rate`,
    ]
  if (!isTooSmall && isBurst)
    return [
      command,
      `raise the burst ${whose}, not the rate: recent demand, with retries, is ${formatPercent(times)} of the rate`,
    ]
  if (!isTooSmall) return [command, `double the ${base.reset ? 'quota' : 'rate'} ${whose}${effect}`]
  if (!base.reset) return [command, `raise the burst ${whose} to the requested amount`]
  return [command, `raise the quota ${whose} so that the request fits${effect}`]
}

/** The same values, unless the rate exceeds that of the parent, which would refuse the rest. */
function atMost(parent: ExplainedLimit | undefined, values: BoostValues): BoostValues {
  const mostPerSecond = parent && !parent.configured.schedule ? refillPerSecond(parent) : 0
  const refillAmount = Math.floor(mostPerSecond * values.refillPeriodSeconds)
  if (refillAmount === 0 || values.refillAmount <= refillAmount) return values
  return {...values, refillAmount, capacity: Math.min(values.capacity, Math.max(refillAmount, parent?.capacity ?? 0))}
}

/** The demand of a refill period, in case it comes at once. Longer pauses lead to larger bursts, which no record shows. */
function burstFor({capacity, refillAmount}: BoostValues, times: number): number {
  const perPeriod = roundedUp(refillAmount * times)
  return perPeriod > capacity ? perPeriod : doubled(capacity)
}

/** With `window`, changes only that entry of the schedule. */
function withValues(limit: Limit, window: number | undefined, values: BoostValues): Limit {
  const {schedule = [], reset} = limit
  if (window === undefined) return {...limit, ...values}
  const {capacity} = values
  const changed = (entry: ScheduleEntry): ScheduleEntry => {
    const {cron} = entry
    if (!reset) return {cron, ...values}
    return 'scale' in entry ? {cron, capacity} : {...entry, capacity}
  }
  return {...limit, schedule: schedule.map((entry, at) => (at === window ? changed(entry) : entry))}
}

const hasValues = (limit: Limit, values: BoostValues): boolean =>
  (['capacity', 'refillAmount', 'refillPeriodSeconds'] as const).every(key => limit[key] === values[key])

/** When the doubled limit admits the request: doubling adds no tokens. */
function raisedFrom({configured: {reset, schedule}, retryAfterMs}: ExplainedLimit): string {
  if (reset) return ', from its next reset'
  const isPlain = schedule === undefined && retryAfterMs !== null && retryAfterMs > 0
  return isPlain ? `; then clears in ${formatWait(Math.ceil(retryAfterMs / 2))}` : ''
}

const missing = ({exceeded, requested, available}: ExplainedLimit): number => (exceeded ? requested - available : 0)

function topUp(limit: ExplainedLimit, where: string): NextCommand {
  const {entity, resource, name, configured, capacity, toppedUp} = limit
  const tokens = Math.max(missing(limit), (capacity - toppedUp) / 10)
  const amount = shellWord(`${name}=${formatAmount(roundedUp(tokens), configured.unit)}`)
  return [
    `zael bucket top-up ${shellWord(entity)} ${shellWord(resource)} ${amount}${where}`,
    `add this amount until the reset${lastingText(limit, roundedUp(tokens))}`,
  ]
}

/** To two digits. */
function roundedUp(tokens: number): number {
  const step = 10 ** Math.max(0, Math.floor(Math.log10(tokens)) - 1)
  return Math.min(MAX_TOKENS, Math.ceil(tokens / step) * step)
}

function doubled(tokens: number): number {
  return Math.min(MAX_TOKENS, 2 * tokens)
}

export interface WhyReport {
  readonly entity: string
  readonly atMs: number
  /** Worst first. */
  readonly explanations: readonly Explanation[]
  /** Refuses every request for resources without a switch of their own. */
  readonly disabled?: SetSwitch | undefined
}

export function whyAllLines({entity, explanations, disabled}: WhyReport, where = ''): string[] {
  const block = disabled ? blockLines(disabled, entity, explanations, where) : []
  if (explanations.length === 0) return disabled ? block : [`${entity} does not use a resource with limits.`]
  const refusing = explanations.filter(({admitted}) => !admitted).length
  const count = formatPlural(explanations.length, 'resource')
  const head = refusing === 0 ? `${count}, none refusing now.` : `${count}, ${refusing} refusing now.`
  return [
    `${entity}: ${head}`,
    ...explanations.flatMap((each, at) => {
      const isLast = !explanations.slice(at + 1).some(other => isSameSwitch(other.disabled, each.disabled))
      return ['', ...(isNotable(each) ? whyLines(each, where, isLast) : [verdict(each)])]
    }),
    ...(block.length > 0 ? ['', ...block] : []),
  ]
}

/** One command lifts both. */
const isSameSwitch = (one: SetSwitch | undefined, other: SetSwitch | undefined): boolean =>
  one !== undefined && other !== undefined && scopeWords(one.scope) === scopeWords(other.scope)

/** Empty if an explanation shows the switch. */
function blockLines(block: SetSwitch, entity: string, shown: WhyReport['explanations'], where: string): string[] {
  const isShown = shown.some(({disabled}) => isSameSwitch(disabled, block))
  if (isShown) return []
  const whose = `${block.entity}${block.entity === entity ? '' : `, the parent of ${entity}`}`
  const what =
    shown.length === 0 ? `${whose} is disabled for every resource` : `Other resources are disabled for ${whose}`
  return [
    `${what}: every request is refused until ${endText(block)}.`,
    ...switchFacts(block),
    ...nextLines([lifting(block, 'enable', where)]),
  ]
}

const isNotable = (explanation: Explanation): boolean =>
  !explanation.admitted || refusedText(explanation) !== undefined || explanation.limits.some(isOverdrawn)

export function whyAllJson({entity, atMs, explanations, disabled}: WhyReport, where = ''): WhyAllResult {
  return {
    entity,
    at: new Date(atMs).toISOString(),
    admitted: !disabled && explanations.every(({admitted}) => admitted),
    disabled: disabled ? switchJson(disabled, [lifting(disabled, 'enable', where)]) : null,
    resources: explanations.map(each => whyJson(each, where)),
  }
}

export function whyShortLines({entity, atMs, explanations, disabled}: WhyReport): string[] {
  const time = new Date(atMs).toISOString().replace(/\.\d+Z$/, 'Z')
  const none = disabled ? 'disabled for every resource' : 'does not use a resource with limits'
  if (explanations.length === 0) return [`${time}  ${entity}  ${none}`]
  return explanations.map(each => {
    const refused = refusedText(each)
    const before = each.changedAtMs === undefined ? '' : 'before the last change: '
    return `${time}  ${entity} ${each.resource}  ${stateText(each)}${refused === undefined ? '' : `; ${before}${refused}`}`
  })
}

function stateText(explanation: Explanation): string {
  const {admitted, disabled, limits, retryAfterMs} = explanation
  if (disabled) return `disabled for ${disabled.entity}`
  if (busy(explanation).length > 0) return `refused: ${busyText(explanation)}`
  const decisive = limits.filter(({exceeded}) => exceeded !== admitted)
  const tightest = decisive.toSorted((a, b) => roomOf(a) - roomOf(b))[0]
  const detail = tightest ? `: ${limitText(tightest)}` : ''
  if (admitted) return `fits${detail}`
  return `refused${detail}, ${retryAfterMs === null ? 'waiting does not help' : `clears in ${formatWait(retryAfterMs)}`}`
}

const roomOf = ({available, requested, capacity}: ExplainedLimit): number =>
  (available - requested) / Math.max(1, capacity)

function limitText(limit: ExplainedLimit): string {
  const whose =
    limit.level === 'parent'
      ? ` of the parent ${limit.entity}`
      : limit.level === 'provider'
        ? ` of ${accountOf(limit)}`
        : ''
  return `${limit.name}${whose} ${leftText(limit)}`
}
