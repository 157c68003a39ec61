import {newNameNotice} from '../../insight/lookup/known-names.js'
import type {PolicyScope} from '../../repository/limits/change-options.js'
import type {LimitsChange, NamespaceRepository} from '../../repository/repository.js'
import {scopeWords} from '../base/scope-text.js'
import {factLines, updatedText} from '../output/text-table.js'
import {scopeJson} from './json.js'
import {cascadeText, policyText} from './presenter.js'
import type {CascadeResult} from './results.js'
import {changeWithProgress} from './run.js'
import {entityScope, resourceScope} from './switch.js'

interface ShownCascade {
  readonly lines: string[]
  readonly result: CascadeResult
  /** For a name that nothing uses yet: it may be misspelled. */
  readonly warnings: readonly string[]
}

/** `policy`: on, off or clear. */
export function cascadeResource(namespace: NamespaceRepository, name: string, policy: string): Promise<ShownCascade> {
  return changeCascade(namespace, resourceScope(name), policy)
}

export function cascadeEntity(
  namespace: NamespaceRepository,
  whose: Parameters<typeof entityScope>[0],
  policy: string,
): Promise<ShownCascade> {
  return changeCascade(namespace, entityScope(whose), policy)
}

async function changeCascade(
  namespace: NamespaceRepository,
  scope: PolicyScope,
  policy: string,
): Promise<ShownCascade> {
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
