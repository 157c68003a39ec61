import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import type {Table} from '../../repository/table/table.js'
import {ensureVersion} from '../../repository/table/version.js'
import type {Aws} from '../aws/clients.js'
import type {WaitOptions} from '../aws/poll.js'
import {updateFunctionCode} from '../lambda/code.js'
import {lambdaPackage} from '../lambda/package.js'
import {followEvents, latestEventId, type StackEvent} from '../stacks/events.js'
import {readStackResources} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'
import {executeChangeSet} from './change-set.js'
import {deployFailed} from './errors.js'
import {waitForEventSource} from './event-source.js'
import type {DeployPlan} from './plan.js'
import {codeWarning} from './planned-code.js'

/** Who is told what happens meanwhile. */
export interface DeployWatcher {
  readonly onEvent: (event: StackEvent) => void
  /** Called before each step after the stack itself, in words such as "Uploading the code". */
  readonly onStep: (what: string) => void
}

/** How a stack is once everything is done. */
export interface FinishedStack {
  /** `null` without an aggregator. */
  readonly functionName: string | null
  readonly codeSha256: string | null
  readonly codeUpdated: boolean
  /** Enabled, unless somebody has disabled it; `null` without an aggregator. */
  readonly eventSource: string | null
  readonly schemaVersion: string
  readonly defaultNamespaceCreated: boolean
}

/** Begins to carry out a plan; from here on CloudFormation goes on by itself. Returns where its events begin. */
export async function startChanges(aws: Aws, {stack, changeSet}: DeployPlan): Promise<string | undefined> {
  if (!changeSet) return undefined
  const since = await latestEventId(aws, changeSet.stackId)
  await executeChangeSet(aws, stack, changeSet)
  return since
}

const SUCCEEDED = new Set(['CREATE_COMPLETE', 'UPDATE_COMPLETE'])

/** Tells the events of a plan that was started, until the stack is as planned; throws with the first cause if it fails. */
export async function followChanges(
  aws: Aws,
  {stack, changeSet, runningCode}: DeployPlan,
  since: string | undefined,
  {onEvent}: Pick<DeployWatcher, 'onEvent'>,
  waiting: WaitOptions,
): Promise<void> {
  if (!changeSet) return
  const events: StackEvent[] = []
  for await (const event of followEvents(aws, changeSet.stackId, since, waiting)) {
    events.push(event)
    onEvent(event)
  }
  const end = events.at(-1) as StackEvent
  if (!SUCCEEDED.has(end.status)) throw deployFailed(stack, events, end, await codeWarning(aws, runningCode))
}

/** What CloudFormation does not do: the function's code, the table's version record, the default namespace. */
export async function finishStack(
  aws: Aws,
  table: Table,
  {version}: {readonly version: string},
  {onStep}: Pick<DeployWatcher, 'onStep'>,
  waiting: WaitOptions,
): Promise<FinishedStack> {
  const resources = await readStackResources(aws, table.name)
  const named = (id: string) => resources.find(({logicalId}) => logicalId === id)?.physicalId ?? null
  const functionName = named(LOGICAL_ID.function)
  onStep('Checking the table')
  const {schemaVersion} = await ensureVersion(table, {by: `zael:${version}`})
  const {created} = await registerDefault(table)
  const none = {functionName, codeSha256: null, codeUpdated: false, eventSource: null}
  if (functionName === null) return {...none, schemaVersion, defaultNamespaceCreated: created}

  onStep('Comparing the code of the aggregator')
  const code = await updateFunctionCode(aws, functionName, await lambdaPackage(), waiting)
  onStep('Waiting for the event source')
  const mapping = named(LOGICAL_ID.mapping)
  const eventSource = mapping === null ? null : await waitForEventSource(aws, mapping, waiting)
  return {
    functionName,
    codeSha256: code.sha256Base64,
    codeUpdated: code.updated,
    eventSource,
    schemaVersion,
    defaultNamespaceCreated: created,
  }
}

/** Looked for first: registering writes, and a second deployment is to write nothing. */
async function registerDefault(table: Table): Promise<{created: boolean}> {
  const namespaces = new Namespaces(table)
  if (await namespaces.resolve(DEFAULT_NAMESPACE)) return {created: false}
  return namespaces.register(DEFAULT_NAMESPACE)
}
