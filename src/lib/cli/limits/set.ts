import {isoMinute} from '../../core/calendar/windows-until.js'
import {isCurrencyName, quotesText} from '../../core/limits/amount-text.js'
import {isInFlight, type Limit, tokenLimits} from '../../core/limits/limit.js'
import {formatLimit, type GivenLimit, keptParts, limitChanges} from '../../core/limits/limit-text.js'
import {formatList, formatTokens, shellWord} from '../../core/text/text.js'
import type {ScopePreview} from '../../insight/preview/preview.js'
import type {ConfigChange, SetOptions} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import {scopeArguments, scopeWords} from '../base/scope.js'
import type {ProgressStream} from '../output/progress.js'
import {factLines} from '../output/text-table.js'
import {endLines} from './boost.js'
import type {ChangeOutcome} from './json.js'
import {bucketsText, confirmationLine, kindChangeText, listText} from './presenter.js'
import {alteredLive, changeLines, changeQuestion, copyLines, DRY_RUN} from './preview.js'
import type {LimitsSetResult} from './results.js'
import {changeWithProgress} from './run.js'

/** Limits as typed, completed by the limits in force. */
interface GivenLimits {
  readonly given: readonly GivenLimit[]
  /** Currencies of the namespace, by limit name. */
  readonly units: ReadonlyMap<string, string>
}

export interface SetRequest extends GivenLimits {
  readonly scope: ConfigScope
  readonly options: SetOptions
  /** As typed: the limits, then --for or --until. */
  readonly words: readonly string[]
}

const limitsOf = ({given}: GivenLimits): Limit[] => given.map(({limit}) => limit)

/** An amount without a period keeps the other parameters of the limit that applies to the scope now. */
export async function completeLimits(
  namespace: NamespaceRepository,
  scope: ConfigScope,
  texts: readonly string[],
  {isTemporary = false}: {readonly isTemporary?: boolean} = {},
): Promise<GivenLimits> {
  const [{limitsAt}, {calendarCheck}, {parseLimitsOver}, {withoutWindows}] = await Promise.all([
    import('../../insight/preview/level-limits.js'),
    import('../../core/calendar/schedule.js'),
    import('../../core/limits/limit-text.js'),
    import('../../core/limits/limit.js'),
  ])
  const [limits, units] = await Promise.all([limitsAt(namespace, scope), namespace.configs.units()])
  return {given: parseLimitsOver(texts, isTemporary ? limits.map(withoutWindows) : limits, calendarCheck), units}
}

export interface PreviewedSet {
  readonly planned: ConfigChange
  readonly preview: ScopePreview
}

export async function previewSet(
  namespace: NamespaceRepository,
  request: SetRequest,
  nowMs: number,
): Promise<PreviewedSet> {
  const {scope, options} = request
  const limits = limitsOf(request)
  const {previewChange} = await import('../../insight/preview/preview.js')
  const planned = await namespace.configs.preview(scope, limits, options)
  const named = limits.map(({name}) => name)
  return {planned, preview: await previewChange(namespace, {...planned, named}, nowMs)}
}

/** Keeps limits that others added since the preview. */
export async function setAsPreviewed(
  namespace: NamespaceRepository,
  {scope, options, ...request}: SetRequest,
  {planned, preview}: PreviewedSet,
  progress?: ProgressStream,
): Promise<{readonly change: ChangeOutcome; readonly made: ScopePreview}> {
  const {previewMade} = await import('../../insight/preview/preview.js')
  const mayRemove = planned.before.map(({name}) => name)
  const change = await changeWithProgress(
    sync => namespace.setLimits(scope, limitsOf(request), {...options, mayRemove, ...sync}),
    progress,
  )
  return {change, made: await previewMade(namespace, preview, planned, change)}
}

interface SetQuestion {
  readonly question: string
  /** A suggested alternative. */
  readonly instead: string | undefined
}

/** Shown before the question. After a yes, only the result follows, unless others changed the limits meanwhile. */
export function askedLines({planned, preview}: PreviewedSet, {given}: SetRequest, where: string): string[] {
  return [...changeLines(planned, preview, {state: ' (nothing written yet)', where, kept: keptText(given)}), '']
}

interface SetOutput {
  readonly dryRun: boolean
  /** The limits and effects are above the question. */
  readonly isListed?: boolean
  /** Flags for suggested commands. */
  readonly where: string
  readonly asked?: SetQuestion | undefined
}

export function setLines(
  change: ChangeOutcome,
  preview: ScopePreview,
  request: SetRequest,
  {dryRun, isListed = false, where, asked}: SetOutput,
): string[] {
  const {scope, given, options} = request
  const {until} = options
  const notes = until
    ? endLines(change, {given: limitsOf(request), until, next: preview.next}, where)
    : copyLines(change.copied, scope, where)
  const advice = dryRun ? asked?.instead : narrowerText(request, preview, where)
  const state = dryRun ? DRY_RUN : ''
  return [
    ...(isListed ? changedLines(change) : changeLines(change, preview, {state, where, kept: keptText(given)})),
    ...eachResourceLines(scope, preview),
    ...(until ? [] : refillLines(given)),
    ...notes,
    ...(dryRun && asked ? ['', confirmationLine(asked.question)] : []),
    ...(advice === undefined ? [] : ['', advice]),
  ]
}

export const changedLines = ({scope, buckets}: ChangeOutcome): string[] =>
  factLines(`Changed the limits of ${scopeWords(scope)}`, {'live buckets': buckets && bucketsText(buckets)})

/** A budget for every resource is easily taken for one that they share. */
function eachResourceLines(scope: ConfigScope, {after}: ScopePreview): string[] {
  if (scope.level !== 'system' && levelOf(scope) !== 'entity_default') return []
  const own = (what: string, limits: readonly Limit[]): string[] => {
    return limits.length === 0 ? [] : [`its own ${what} of ${formatList(limits.map(({name}) => name))}`]
  }
  const quotas = after.limits.filter(({reset}) => reset)
  const texts = [...own('allowance', quotas), ...own('slots', after.limits.filter(isInFlight))]
  return texts.length === 0 ? [] : ['', `Each resource has ${texts.join(' and ')}.`]
}

const DAY_SECONDS = 86_400

/** A new rate per day is easily taken for a quota. A burst shows that a rate is meant. */
function refillLines(given: readonly GivenLimit[]): string[] {
  const names = given.flatMap(
    ({hasPeriod, inForce, limit: {name, reset, capacity, refillAmount, refillPeriodSeconds}}) => {
      const isDaily = hasPeriod && !reset && refillPeriodSeconds >= DAY_SECONDS && capacity === refillAmount
      const isKnown = inForce && !inForce.reset && inForce.refillPeriodSeconds >= DAY_SECONDS
      return isDaily && !isKnown ? [name] : []
    },
  )
  if (names.length === 0) return []
  const refills = names.length === 1 ? 'is a rate and refills' : 'are rates and refill'
  return ['', `${formatList(names)} ${refills} continuously. For a quota that resets at midnight, give /day@UTC.`]
}

/** A new limit of a parent that its members lack. A soft one meters each member. */
export async function memberLines(
  namespace: NamespaceRepository,
  {scope, given}: SetRequest,
  {previous}: ConfigChange,
  where: string,
): Promise<string[]> {
  if (scope.level !== 'entity') return []
  const {limitsWithoutMembers} = await import('../../insight/lookup/family-limits.js')
  const had = (previous?.limits ?? []).map(({name}) => name)
  const added = tokenLimits(given.flatMap(({limit}) => (had.includes(limit.name) ? [] : [limit])))
  const names = await limitsWithoutMembers(
    namespace,
    scope,
    added.map(({name}) => name),
  )
  if (names.length === 0) return []
  const soft = added.filter(({name}) => names.includes(name)).map(limit => formatLimit({...limit, soft: true}))
  const all: ConfigScope =
    levelOf(scope) === 'entity_default' ? {level: 'system'} : {level: 'resource', resource: scope.resource}
  return [
    '',
    `Members of ${scope.entity} have no limit ${formatList(names)}, so its use is recorded for ${scope.entity} only. ` +
      `To record it for each member, without refusing: ${setCommand(all, soft, where)}`,
  ]
}

/** `undefined` when no confirmation is needed. */
export function setQuestion(
  request: SetRequest,
  {planned, preview}: PreviewedSet,
  where: string,
): SetQuestion | undefined {
  const {scope, given, units} = request
  const {previous, record, copied} = planned
  const untilMs = record?.copiedUntilMs === undefined ? previous?.copiedUntilMs : undefined
  const limits = copied?.limits ?? []
  const questions = [
    changeQuestion(scope, preview, {untilMs, limits}),
    kindQuestion(preview),
    ...given.map(each => moneyQuestion(each, units)),
  ].flatMap(question => question ?? [])
  if (questions.length === 0) return undefined
  const ending = untilMs === undefined || limits.length === 0 ? undefined : untilCommand(request, untilMs, where)
  const bare = given.find(each => lacksCurrency(each, units))
  const quotes = bare && quotesText(`${bare.limit.name}=$500/month@UTC`)
  const instead = [ending ?? narrowerText(request, preview, where), quotes].flatMap(text => text ?? [])
  return {question: questions.join('. '), instead: instead.length === 0 ? undefined : instead.join(' ')}
}

/** Of the scope and, for an entity's default limits, of the resources that they hide. */
function kindQuestion({before, after, altered}: ScopePreview): string | undefined {
  const own = limitChanges(before.limits, after.limits).map(change => ({...change, what: change.name}))
  const hidden = altered.map(change => ({...change, what: `${change.name} for ${change.resource}`}))
  const texts = [...own, ...hidden].flatMap(({what, ...change}) => {
    const text = kindChangeText(change)
    return text === undefined ? [] : [`${what} ${text}`]
  })
  return texts.length === 0 ? undefined : `This changes ${listText(texts)}`
}

/** A shell may have removed the dollar sign and the first digit: "usd=$1500" arrives as usd=500. */
function lacksCurrency({limit, inForce, isUnitKept}: GivenLimit, units: GivenLimits['units']): boolean {
  if (isUnitKept) return true
  if (isInFlight(limit)) return false
  const isNewInTokens = limit.unit === undefined && inForce === undefined
  return isNewInTokens && (isCurrencyName(limit.name) || units.has(limit.name))
}

function moneyQuestion(given: GivenLimit, units: GivenLimits['units']): string | undefined {
  const {text, limit, base, hasPeriod, isUnitKept} = given
  const amount = formatTokens(limit.reset ? limit.capacity : limit.refillAmount, limit.unit)
  if (isUnitKept) return `${text} has no currency and is read as ${amount}`
  if (lacksCurrency(given, units)) return `${text} has no currency, so it limits ${amount} tokens, not money`
  if (limit.unit === undefined || hasPeriod || base) return undefined
  return `${text} has no period, so it limits ${amount} per minute. For a month: ${shellWord(`${text}/month@UTC`)}`
}

export function keptJson(given: readonly GivenLimit[]): LimitsSetResult['kept'] {
  const kept = given.map(each => ({limit: each.limit.name, text: keptParts(each).join(', ')}))
  return kept.filter(({text}) => text !== '')
}

export function keptText(given: readonly GivenLimit[]): string | undefined {
  return listText(keptJson(given).map(({limit, text}) => `${limit} ${text}`))
}

/** Suggests one command per resource: an entity's default limits hide resource limits. */
function narrowerText(request: SetRequest, preview: ScopePreview, where: string): string | undefined {
  const {scope, words} = request
  if (scope.level !== 'entity' || levelOf(scope) !== 'entity_default') return undefined
  const resources = [...new Set(alteredLive(preview).map(({resource}) => resource))]
  if (resources.length === 0) return undefined
  const commands = resources.slice(0, MOST_PROPOSED).map(resource => setCommand({...scope, resource}, words, where))
  return `To change only the named limits: ${commands.join('; ')}`
}

const MOST_PROPOSED = 3

function untilCommand({scope, words}: SetRequest, untilMs: number, where: string): string {
  return `To keep the copy temporary: ${setCommand(scope, [...words, '--until', isoMinute(untilMs)], where)}`
}

const setCommand = (scope: ConfigScope, words: readonly string[], where: string): string =>
  `zael limits set ${scopeArguments(scope)} ${words.map(shellWord).join(' ')}${where}`
