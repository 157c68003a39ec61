import {GetEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import type {Table} from '../../repository/table/table.js'
import {ensureVersion, markAggregator} from '../../repository/table/version.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/poll.js'
import {updateFunctionCode} from '../lambda/code.js'
import {lambdaPackage} from '../lambda/package.js'
import {followEvents, latestEventId, type StackEvent} from '../stacks/events.js'
import {readStackResources} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'
import {executeChangeSet} from './change-set.js'
import {deployFailed} from './errors.js'
import type {DeployPlan} from './plan.js'
import {codeWarning} from './planned-code.js'

/** Receives the progress of a deployment. */
export interface DeployWatcher {
  readonly onEvent: (event: StackEvent) => void
  /** Called before each step that follows the stack's own changes, with a text such as "Checking the table". */
  readonly onStep: (what: string) => void
}

/** The result of a deployment. */
export interface FinishedStack {
  /** `null` without an aggregator. */
  readonly functionName: string | null
  readonly codeSha256: string | null
  readonly codeUpdated: boolean
  /** State of the event source mapping: Enabled, unless it was disabled by hand; `null` without an aggregator. */
  readonly eventSource: string | null
  readonly schemaVersion: string
  readonly defaultNamespaceCreated: boolean
}

/** Starts to execute a plan; CloudFormation continues on its own. Returns the event after which to follow. */
export async function startChanges(aws: Aws, {stack, changeSet}: DeployPlan): Promise<string | undefined> {
  if (!changeSet) return undefined
  const since = await latestEventId(aws, changeSet.stackId)
  await executeChangeSet(aws, stack, changeSet)
  return since
}

const SUCCEEDED = new Set(['CREATE_COMPLETE', 'UPDATE_COMPLETE'])

/** Reports the events of a started plan until the stack is deployed; throws the original cause if it fails. */
export async function followChanges(
  aws: Aws,
  {stack, changeSet, runningCode}: DeployPlan,
  since: string | undefined,
  {onEvent}: Pick<DeployWatcher, 'onEvent'>,
  wait: WaitOptions,
): Promise<void> {
  if (!changeSet) return
  const events: StackEvent[] = []
  for await (const event of followEvents(aws, changeSet.stackId, since, wait)) {
    events.push(event)
    onEvent(event)
  }
  const end = events.at(-1) as StackEvent
  if (!SUCCEEDED.has(end.status)) throw deployFailed(stack, events, end, await codeWarning(aws, runningCode))
}

/** Does what CloudFormation does not: the function's code, the table's version record, the default namespace. */
export async function finishStack(
  aws: Aws,
  table: Table,
  {version}: {readonly version: string},
  {onStep}: Pick<DeployWatcher, 'onStep'>,
  wait: WaitOptions,
): Promise<FinishedStack> {
  const resources = await readStackResources(aws, table.name)
  const physicalId = (id: string) => resources.find(({logicalId}) => logicalId === id)?.physicalId ?? null
  const functionName = physicalId(LOGICAL_ID.function)
  onStep('Checking the table')
  const {schemaVersion} = await ensureVersion(table, {by: `zael:${version}`})
  const {created} = await registerDefault(table)
  const none = {functionName, codeSha256: null, codeUpdated: false, eventSource: null}
  if (functionName === null) {
    await markAggregator(table)
    return {...none, schemaVersion, defaultNamespaceCreated: created}
  }

  onStep('Comparing the code of the aggregator')
  const code = await updateFunctionCode(aws, functionName, await lambdaPackage(), wait)
  await markAggregator(table)
  onStep('Waiting for the event source')
  const mapping = physicalId(LOGICAL_ID.mapping)
  const eventSource = mapping === null ? null : await waitForEventSource(aws, mapping, wait)
  return {
    functionName,
    codeSha256: code.sha256Base64,
    codeUpdated: code.updated,
    eventSource,
    schemaVersion,
    defaultNamespaceCreated: created,
  }
}

const TRANSITIONS = new Set(['Creating', 'Enabling', 'Updating', 'Disabling'])

/** The final state of an event source mapping: Enabled, unless it was disabled by hand. */
export async function waitForEventSource(aws: Aws, UUID: string, wait: WaitOptions): Promise<string> {
  return callAws(`read the event source mapping ${UUID}`, async () => {
    const client = await aws.lambda()
    return poll(wait, async () => {
      const {State = ''} = await client.send(new GetEventSourceMappingCommand({UUID}))
      return TRANSITIONS.has(State) ? undefined : State
    })
  })
}

/** Checked first: registering writes, and a second deployment must not write anything. */
async function registerDefault(table: Table): Promise<{created: boolean}> {
  const namespaces = new Namespaces(table)
  if (await namespaces.resolve(DEFAULT_NAMESPACE)) return {created: false}
  return namespaces.register(DEFAULT_NAMESPACE)
}
