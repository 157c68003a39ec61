import {type ApplyOptions, type ApplyResult, applyPlan} from '../../src/lib/manifest/apply.js'
import {manifestTexts, openExport} from '../../src/lib/manifest/export.js'
import type {Manifest} from '../../src/lib/manifest/manifest.js'
import {parseManifest} from '../../src/lib/manifest/parse.js'
import {type PlannedChange, planManifest} from '../../src/lib/manifest/plan.js'
import {scopeName} from '../../src/lib/manifest/scopes.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import type {TestTable} from '../helpers/table.js'
import {newTenant, type TestTenant} from '../repository/namespace-table.js'

export interface TestNamespace {
  readonly tenant: TestTenant
  readonly repository: NamespaceRepository
}

/** A new namespace whose transport counts calls and can be made to fail. */
export function newNamespace(table: TestTable, options?: {attempts?: number}): TestNamespace {
  const tenant = newTenant(table, options)
  return {tenant, repository: new NamespaceRepository(tenant, 'tester')}
}

/** A manifest for the namespace `test`; `text` is the rest of it. */
export function manifestOf(text: string): Manifest {
  return parseManifest(`namespace: test\n${text}`, {file: 'limits.yaml'})
}

/** Plans and applies. */
export async function apply(
  repository: NamespaceRepository,
  manifest: Manifest | string,
  options?: ApplyOptions,
): Promise<ApplyResult> {
  const parsed = typeof manifest === 'string' ? manifestOf(manifest) : manifest
  return applyPlan(repository, await planManifest(repository, parsed), options)
}

/** A change in one line: action, scope, old and new values. */
export function lineOf(change: PlannedChange): string {
  if (change.kind === 'entity') {
    return `${change.action} ${change.entity} ${JSON.stringify(change.before)} → ${JSON.stringify(change.after)}`
  }
  const rates = (limits: typeof change.before) =>
    limits.map(limit => `${limit.name}=${limit.refillAmount}/${limit.refillPeriodSeconds}:${limit.capacity}`).join(' ')
  const policy = change.onUnavailable
  const ending = policy ? ` (${policy.before} → ${policy.after})` : ''
  const adopts = change.adopts ? ' adopts' : ''
  return `${change.action}${adopts} ${scopeName(change.scope)}: ${rates(change.before)} → ${rates(change.after)}${ending}`
}

/** The changes that a manifest needs now, one line each. */
export async function planLines(repository: NamespaceRepository, manifest: Manifest | string): Promise<string[]> {
  const parsed = typeof manifest === 'string' ? manifestOf(manifest) : manifest
  return (await planManifest(repository, parsed)).changes.map(lineOf)
}

export async function exportManifest(repository: NamespaceRepository, namespace: string): Promise<string> {
  let text = ''
  for await (const piece of manifestTexts(repository, namespace)) text += piece
  return text
}

/** The document that `zael limits export --json` prints. */
export async function exportForm(repository: NamespaceRepository, namespace: string) {
  const {head, entities} = await openExport(repository, namespace)
  const forms = []
  for await (const entry of entities) forms.push(entry)
  return forms.length === 0 ? head : {...head, entities: Object.fromEntries(forms)}
}
