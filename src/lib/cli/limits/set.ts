import type {Limit} from '../../core/limit.js'
import type {ConfigChange, SetOptions} from '../../repository/limits/change.js'
import type {NamespaceRepository} from '../../repository/repository.js'
import type {ConfigScope} from '../../schema/config-record.js'
import type {ProgressStream} from '../output/progress.js'
import {endLines} from './boost.js'
import {type ChangeEffect, changeLines, copyLines, effectMade, effectOf} from './effect.js'
import type {ChangeOutcome} from './json.js'
import {changeWithProgress} from './run.js'

/** Limits to set at a scope. */
export interface SetRequest {
  readonly scope: ConfigScope
  readonly limits: readonly Limit[]
  readonly options: SetOptions
}

/** What setting limits would change, as far as it is known before. */
export interface PreviewedSet {
  readonly preview: ConfigChange
  readonly effect: ChangeEffect
}

/** Reads what setting limits would change; writes nothing. */
export async function previewSet(
  namespace: NamespaceRepository,
  {scope, limits, options}: SetRequest,
  nowMs: number,
): Promise<PreviewedSet> {
  const preview = await namespace.configs.preview(scope, limits, options)
  return {preview, effect: await effectOf(namespace, preview, nowMs)}
}

/** Sets limits after a preview: what others have added since is not removed. */
export async function setAsPreviewed(
  namespace: NamespaceRepository,
  {scope, limits, options}: SetRequest,
  {preview, effect}: PreviewedSet,
  progress?: ProgressStream,
): Promise<{readonly change: ChangeOutcome; readonly made: ChangeEffect}> {
  const mayRemove = preview.before.map(({name}) => name)
  const change = await changeWithProgress(
    sync => namespace.setLimits(scope, limits, {...options, mayRemove, ...sync}),
    progress,
  )
  return {change, made: await effectMade(namespace, effect, preview, change)}
}

/** What was changed, or would be, and what to know about it; `where`: flags for suggested commands. */
export function setLines(
  change: ChangeOutcome,
  effect: ChangeEffect,
  {scope, limits, options}: SetRequest,
  {dryRun, where}: {readonly dryRun: boolean; readonly where: string},
): string[] {
  const {until} = options
  const notes = until ? endLines(change, limits, until, where) : copyLines(change.copied, scope, where)
  return [...changeLines(change, effect, dryRun), ...notes]
}
