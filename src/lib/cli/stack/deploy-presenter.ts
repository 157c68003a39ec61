import {changedError, ZaelError} from '../../core/errors.js'
import {printableText} from '../../core/text/printable.js'
import {formatCount, formatPlural} from '../../core/text/text.js'
import {cutText} from '../../core/text/text-width.js'
import type {FinishedStack} from '../../infra/deploy/deploy.js'
import type {DeployPlan, DeployRequest} from '../../infra/deploy/plan.js'
import type {ChangeAction, PlannedResource} from '../../infra/deploy/planned-change.js'
import type {StackEvent} from '../../infra/stack/events.js'
import {paint} from '../output/lines.js'
import {factLines, nextLines} from '../output/text-table.js'
import type {DeployResult} from './results.js'

const SIGNS: Readonly<Record<ChangeAction, readonly [sign: string, colour: string, note: string]>> = {
  add: ['+', 'green', ''],
  import: ['=', 'green', 'exists; the stack adopts it'],
  restore: ['+', 'green', 'was deleted and is recreated'],
  sync: ['=', 'dim', 'already matches the template'],
  change: ['~', 'yellow', ''],
  'maybe-replace': ['!', 'red', 'CloudFormation may replace it'],
  replace: ['!', 'red', 'is REPLACED by a new one, then deleted'],
  remove: ['-', 'red', 'is deleted'],
  keep: ['-', 'yellow', 'leaves the stack and stays on AWS'],
}

// New to the stack, so their properties are not changes.
const NEW: ReadonlySet<ChangeAction> = new Set(['add', 'import', 'restore'])

// Additions first; changes and deletions last, right above the question.
const ORDER: readonly ChangeAction[] = [
  ...(['sync', 'import', 'add', 'restore', 'change'] as const),
  ...(['keep', 'remove', 'maybe-replace', 'replace'] as const),
]

export function deployPlanLines(plan: DeployPlan): string[] {
  const {stack, region, action, parameters, changeSet, cloudFormationRole} = plan
  const title = `Stack "${stack}" in ${region}`
  if (action === 'none') return [`${title}: no changes`, ...protectionLines(plan), ...codeLines(plan)]
  if (action === 'recreate') {
    return [`${title}: an earlier deployment failed; its leftovers must be deleted first`]
  }
  const changes = (changeSet?.changes ?? []).toSorted((a, b) => ORDER.indexOf(a.action) - ORDER.indexOf(b.action))
  return [
    `${title}: ${action === 'create' ? 'will be created' : 'will be changed'}`,
    ...(cloudFormationRole === null ? [] : [`  CloudFormation assumes ${cloudFormationRole}`]),
    ...adoptionLines(plan),
    ...(plan.repairs ? ['  repairs: resources that differ from the template are reverted'] : []),
    ...parameters.map(({option, before, after}) => `  ${option}: ${before || 'not set'} -> ${after || 'not set'}`),
    ...changes.flatMap(changeLines),
    ...protectionLines(plan),
    ...codeLines(plan),
    '',
    countLine(changes),
  ]
}

function adoptionLines({adopts}: DeployPlan): string[] {
  if (adopts === null) return []
  const {table, items, formerArchive} = adopts
  // DynamoDB's count is hours old, so 0 may be wrong.
  const count = items === 0 ? 'its items' : `about ${formatPlural(items, 'item')}`
  return [
    paint('green', `  adopts table ${table} and keeps ${count}`),
    ...(formerArchive === null ? [] : [`  keeps audit archive ${formerArchive}, but archives new events in a new one`]),
  ]
}

function changeLines(change: PlannedResource): string[] {
  const [sign, colour, note] = SIGNS[change.action]
  const head = `  ${sign} ${resourceName(change)}${note === '' ? '' : `: ${note}`}`
  return [paint(colour, head), ...(NEW.has(change.action) ? [] : change.properties.map(propertyLine))]
}

function propertyLine({name, before, after}: PlannedResource['properties'][number]): string {
  const values = before === null && after === null ? '' : `: ${short(before)} -> ${short(after)}`
  return `      ${name}${values}`
}

const LONGEST_VALUE = 40

function short(value: string | null): string {
  const text = printableText(value === null || value === '' ? 'not set' : value)
  return cutText(text, LONGEST_VALUE)
}

function codeLines({code}: DeployPlan): string[] {
  return code === 'new' ? [paint('yellow', '  ~ aggregator code: will be uploaded')] : []
}

function protectionLines({terminationProtection: after}: DeployPlan): string[] {
  if (after === null) return []
  return [paint('yellow', `  ~ termination protection: ${after ? 'off -> on' : 'on -> off'}`)]
}

function countLine(changes: readonly PlannedResource[]): string {
  const count = (...actions: ChangeAction[]) =>
    formatCount(changes.filter(each => actions.includes(each.action)).length)
  const optional = (action: ChangeAction, what: string) => (count(action) === '0' ? [] : [`${count(action)} ${what}`])
  return [
    ...optional('import', 'to import'),
    `${count('add')} to add`,
    ...optional('restore', 'to recreate'),
    `${count('change', 'maybe-replace')} to change`,
    `${count('replace')} to replace`,
    `${count('remove', 'keep')} to remove`,
  ].join(', ')
}

export function eventLines({at, status, logicalId, reason}: StackEvent): string[] {
  const isFailure = /FAILED|ROLLBACK/.test(status)
  const colour = isFailure ? 'red' : status.endsWith('_COMPLETE') ? 'green' : 'dim'
  const time = at.toISOString().slice(11, 19)
  const line = `  ${paint('dim', time)}  ${paint(colour, status.padEnd(18))}  ${logicalId}`
  return isFailure && reason !== null ? [line, `            ${printableText(reason)}`] : [line]
}

export function finishedLines({stack, action}: DeployPlan, finished: FinishedStack): string[] {
  const title = {
    create: `Stack "${stack}" is deployed`,
    update: `Stack "${stack}" is changed`,
    none: `Stack "${stack}" is up to date`,
    recreate: '',
  }[action]
  const {functionName, codeUpdated, codeSha256, eventSource, schemaVersion, defaultNamespaceCreated} = finished
  return factLines(title, {
    table: `${stack}, layout ${schemaVersion}`,
    namespace: defaultNamespaceCreated ? 'default, new' : undefined,
    aggregator: functionName ?? 'off',
    code: codeSha256 === null ? undefined : `${codeSha256.slice(0, 12)}, ${codeUpdated ? 'uploaded' : 'unchanged'}`,
    stream: functionName === null ? undefined : `event source ${eventSource?.toLowerCase() ?? 'missing'}`,
  })
}

export function deployWarnings(
  {action, cloudFormationRole}: DeployPlan,
  finished: FinishedStack | undefined,
  asked: Pick<DeployRequest, 'cloudFormationRole'>,
): string[] {
  const isRoleUnset = action === 'none' && asked.cloudFormationRole !== undefined
  const role =
    isRoleUnset && cloudFormationRole !== asked.cloudFormationRole
      ? ['The CloudFormation role was not set: CloudFormation sets it only with another change to the stack.']
      : []
  return [...role, ...(finished?.warnings ?? [])]
}

export function unfinishedLines({terminationProtection}: DeployPlan, flags: string): string[] {
  const no = terminationProtection ? '' : 'no-'
  const protection = terminationProtection === null ? '' : ` --${no}termination-protection`
  return nextLines([[`zael deploy${flags}${protection}`, 'finish after CloudFormation is done']])
}

/** Every result starts from this, so the keys are always the same. */
export const NOTHING_DEPLOYED: Omit<DeployResult, 'stack' | 'target'> = {
  region: null,
  dryRun: false,
  action: 'none',
  complete: true,
  parameters: [],
  cloudFormationRole: null,
  terminationProtection: null,
  adopts: null,
  repairs: false,
  changes: [],
  code: 'none',
  aggregator: null,
  schemaVersion: null,
  defaultNamespaceCreated: false,
  files: [],
}

export function deployJson(
  plan: DeployPlan,
  {dryRun, finished}: {readonly dryRun: boolean; readonly finished: FinishedStack | undefined},
): DeployResult {
  const {stack, region, action, parameters, cloudFormationRole, terminationProtection, adopts, repairs, code} = plan
  const planned = {stack, region, action, parameters, cloudFormationRole, terminationProtection, repairs, code}
  return {
    ...NOTHING_DEPLOYED,
    ...planned,
    target: 'cloudformation',
    dryRun,
    complete: finished !== undefined,
    adopts: adopts && {table: adopts.table, items: adopts.items, formerArchive: adopts.formerArchive},
    changes: plan.changeSet?.changes ?? [],
    aggregator: finished ? deployedFunction(finished) : null,
    schemaVersion: finished?.schemaVersion ?? null,
    defaultNamespaceCreated: finished?.defaultNamespaceCreated ?? false,
  }
}

function deployedFunction(finished: FinishedStack): DeployResult['aggregator'] {
  const {functionName, codeSha256, codeUpdated, eventSource} = finished
  return functionName === null || codeSha256 === null ? null : {functionName, codeSha256, codeUpdated, eventSource}
}

interface Unobserved {
  readonly code: string
  /** "CloudFormation continues …", such as `to delete stack "prod"`. */
  readonly continuing: string
  readonly hint: string
  readonly stack: string
}

export function outOfSight(error: unknown, {code, continuing, hint, stack}: Unobserved): unknown {
  if (!(error instanceof ZaelError) || error.code !== 'stack.out-of-sight') return error
  const message = `CloudFormation continues ${continuing}, but zael can no longer read its progress. ${error.message}`
  return changedError(error, {code, message, hint, details: {stack, ...error.details}})
}

interface NamedResource {
  readonly logicalId: string
  readonly physicalId: string | null
  readonly type: string
}

/** `AggregatorFunction prod-aggregator (Lambda Function)`: logical id, name on AWS, and type. */
export function resourceName({logicalId, physicalId, type}: NamedResource): string {
  const name = physicalId === null || physicalId === logicalId ? '' : ` ${lastPart(physicalId)}`
  return `${logicalId}${name} (${type.split('::').slice(1).join(' ')})`
}

/** ARNs and URLs end in the name. */
function lastPart(id: string): string {
  return /^(arn:|https:)/.test(id) ? (id.split(/[/:]/).at(-1) ?? id) : id
}
