import {isoMinute} from '../../core/calendar/windows-until.js'
import type {Limit} from '../../core/limits/limit.js'
import {shellWord} from '../../core/text/text.js'
import type {ScopePreview} from '../../insight/preview/preview.js'
import type {ConfigChange, SetOptions} from '../../repository/limits/change-options.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import {type ConfigScope, levelOf} from '../../schema/config-record.js'
import {scopeArguments} from '../base/scope.js'
import type {ProgressStream} from '../output/progress.js'
import {endLines} from './boost.js'
import type {ChangeOutcome} from './json.js'
import {alteredLive, changeLines, changeQuestion, copyLines} from './preview.js'
import {changeWithProgress} from './run.js'

export interface SetRequest {
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
  readonly options: SetOptions
  /** As typed: the limits, then --for or --until. */
  readonly words: readonly string[]
}

export interface PreviewedSet {
  readonly planned: ConfigChange
  readonly preview: ScopePreview
}

export async function previewSet(
  namespace: NamespaceRepository,
  {scope, limits, options}: SetRequest,
  nowMs: number,
): Promise<PreviewedSet> {
  const {previewChange} = await import('../../insight/preview/preview.js')
  const planned = await namespace.configs.preview(scope, limits, options)
  const named = limits.map(({name}) => name)
  return {planned, preview: await previewChange(namespace, {...planned, named}, nowMs)}
}

/** Keeps limits that others added since the preview. */
export async function setAsPreviewed(
  namespace: NamespaceRepository,
  {scope, limits, options}: SetRequest,
  {planned, preview}: PreviewedSet,
  progress?: ProgressStream,
): Promise<{readonly change: ChangeOutcome; readonly made: ScopePreview}> {
  const {previewMade} = await import('../../insight/preview/preview.js')
  const mayRemove = planned.before.map(({name}) => name)
  const change = await changeWithProgress(
    sync => namespace.setLimits(scope, limits, {...options, mayRemove, ...sync}),
    progress,
  )
  return {change, made: await previewMade(namespace, preview, planned, change)}
}

/** `where`: flags for suggested commands. */
export function setLines(
  change: ChangeOutcome,
  preview: ScopePreview,
  request: SetRequest,
  {dryRun, where, nowMs}: {readonly dryRun: boolean; readonly where: string; readonly nowMs: number},
): string[] {
  const {scope, limits, options} = request
  const {until} = options
  const notes = until ? endLines(change, {given: limits, until, nowMs}, where) : copyLines(change.copied, scope, where)
  const narrower = narrowerText(request, preview, where)
  return [...changeLines(change, preview, dryRun), ...notes, ...(narrower === undefined ? [] : ['', narrower])]
}

/** `instead`: a suggested alternative. `undefined` when no confirmation is needed. */
export function setQuestion(
  request: SetRequest,
  {planned, preview}: PreviewedSet,
  where: string,
): {readonly question: string; readonly instead: string | undefined} | undefined {
  const {scope} = request
  const {previous, record, copied} = planned
  const untilMs = record?.copiedUntilMs === undefined ? previous?.copiedUntilMs : undefined
  const limits = copied?.limits ?? []
  const question = changeQuestion(scope, preview, {untilMs, limits})
  if (question === undefined) return undefined
  const ending = untilMs === undefined || limits.length === 0 ? undefined : untilCommand(request, untilMs, where)
  return {question, instead: ending ?? narrowerText(request, preview, where)}
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
