import {UpdateTerminationProtectionCommand} from '@aws-sdk/client-cloudformation'
import {GetEventSourceMappingCommand} from '@aws-sdk/client-lambda'
import {parseLambdaSettings} from '../../aggregator/environment.js'
import {rollUpFromStart} from '../../aggregator/rollup/plan.js'
import {DEFAULT_NAMESPACE, Namespaces} from '../../repository/namespaces/namespaces.js'
import {isEmptyTable, type Table, untilAborted} from '../../repository/table/table.js'
import {ensureVersion, markAggregator} from '../../repository/table/version.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/send-change.js'
import {LOGICAL_ID, lambdaPackage} from '../stack/artifacts.js'
import {followEvents, latestEventId, type StackEvent} from '../stack/events.js'
import {readStack, readStackResources} from '../stack/reader.js'
import {executeChangeSet} from './change-set.js'
import {deployFailed} from './errors.js'
import {type DeployPlan, leftMaxima} from './plan.js'
import {codeWarning, updateFunctionCode} from './planned-change.js'

export interface DeployWatcher {
  readonly onEvent: (event: StackEvent) => void
  readonly onStep: (what: string) => void
}

export type FinishedStack = Awaited<ReturnType<typeof finishStack>>

/** Returns the event to follow from. The signal can stop it until `onSent`; then CloudFormation continues alone. */
export async function startChanges(
  aws: Aws,
  {stack, changeSet}: DeployPlan,
  {signal, onSent}: {readonly signal?: AbortSignal | undefined; readonly onSent?: () => void} = {},
): Promise<string | undefined> {
  if (!changeSet) return undefined
  const since = await latestEventId(awsUntilAborted(aws, signal), changeSet.stackId)
  await executeChangeSet(aws, stack, changeSet, {signal, ...(onSent && {onSent})})
  return since
}

const SUCCEEDED = new Set(['CREATE_COMPLETE', 'UPDATE_COMPLETE', 'IMPORT_COMPLETE'])

export async function followChanges(
  services: Aws,
  {stack, changeSet, runningCode}: DeployPlan,
  since: string | undefined,
  {onEvent}: Pick<DeployWatcher, 'onEvent'>,
  wait: WaitOptions,
): Promise<void> {
  if (!changeSet) return
  const aws = awsUntilAborted(services, wait.signal)
  const events: StackEvent[] = []
  for await (const event of followEvents(aws, changeSet.stackId, since, wait)) {
    events.push(event)
    onEvent(event)
  }
  const end = events.at(-1) as StackEvent
  if (!SUCCEEDED.has(end.status)) throw deployFailed(stack, events, end, await codeWarning(aws, runningCode))
}

/**
 * Runs the steps outside CloudFormation: function code, version record, default namespace. The event source is `Enabled`,
 * unless it was disabled by hand.
 */
export async function finishStack(
  services: Aws,
  givenTable: Table,
  {version, plan}: {readonly version: string; readonly plan: DeployPlan},
  {onStep}: Pick<DeployWatcher, 'onStep'>,
  wait: WaitOptions,
) {
  const aws = awsUntilAborted(services, wait.signal)
  const table = wait.signal ? untilAborted(givenTable, wait.signal) : givenTable
  const resources = await readStackResources(aws, table.name)
  const physicalId = (id: string) => resources.find(({logicalId}) => logicalId === id)?.physicalId ?? null
  const functionName = physicalId(LOGICAL_ID.function)
  onStep('Checking the table')
  if (functionName !== null) await beginRollups(aws, table)
  const {schemaVersion} = await ensureVersion(table, {by: `zael:${version}`})
  const {created} = await registerDefault(table)
  const warnings = await leftMaxima(table, plan.parameters)
  const finished = {functionName, schemaVersion, defaultNamespaceCreated: created, warnings}
  if (functionName === null) {
    await markAggregator(table)
    await protectStack(aws, plan, onStep)
    return {...finished, codeSha256: null, codeUpdated: false, eventSource: null}
  }

  onStep('Comparing the code of the aggregator')
  const code = await updateFunctionCode(aws, functionName, await lambdaPackage(), wait)
  await markAggregator(table)
  onStep('Waiting for the event source')
  const mapping = physicalId(LOGICAL_ID.mapping)
  const eventSource = mapping === null ? null : await waitForEventSource(aws, mapping, wait)
  await protectStack(aws, plan, onStep)
  return {...finished, codeSha256: code.sha256Base64, codeUpdated: code.updated, eventSource}
}

/** Before the function has code: its first batch would announce them for the next day and month. */
async function beginRollups(aws: Aws, table: Table): Promise<void> {
  if (!(await isEmptyTable(table))) return
  const {SnapshotWindows, SnapshotRetentionDays} = (await readStack(aws, table.name))?.parameters ?? {}
  const environment = {SNAPSHOT_WINDOWS: SnapshotWindows, SNAPSHOT_TTL_DAYS: SnapshotRetentionDays}
  await rollUpFromStart(table, parseLambdaSettings({TABLE_NAME: table.name, ...environment}))
}

/** Runs last: a protected stack that was never created could not be deployed again, and code matters more. */
async function protectStack(aws: Aws, plan: DeployPlan, onStep: DeployWatcher['onStep']): Promise<void> {
  const {stack, terminationProtection: EnableTerminationProtection} = plan
  if (EnableTerminationProtection === null) return
  onStep(`Turning termination protection ${EnableTerminationProtection ? 'on' : 'off'}`)
  const command = new UpdateTerminationProtectionCommand({StackName: stack, EnableTerminationProtection})
  await callAws(`change the termination protection of stack "${stack}"`, async () =>
    (await aws.cloudFormation()).send(command),
  )
}

const TRANSITIONS = new Set(['Creating', 'Enabling', 'Updating', 'Disabling'])

export async function waitForEventSource(aws: Aws, UUID: string, wait: WaitOptions): Promise<string> {
  return callAws(`read the event source mapping ${UUID}`, async () => {
    const client = await aws.lambda()
    return poll(wait, async () => {
      const {State = ''} = await client.send(new GetEventSourceMappingCommand({UUID}))
      return TRANSITIONS.has(State) ? undefined : State
    })
  })
}

/** Registering writes, and a repeated deployment must not write anything. */
async function registerDefault(table: Table): Promise<{created: boolean}> {
  const namespaces = new Namespaces(table)
  if (await namespaces.resolve(DEFAULT_NAMESPACE)) return {created: false}
  return namespaces.register(DEFAULT_NAMESPACE)
}
