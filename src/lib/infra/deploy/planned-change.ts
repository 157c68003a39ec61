import type {Change, Parameter} from '@aws-sdk/client-cloudformation'
import {GetFunctionConfigurationCommand, UpdateFunctionCodeCommand} from '@aws-sdk/client-lambda'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws, callUnlessMissing} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/send-change.js'
import {type LambdaPackage, LOGICAL_ID, lambdaPackage} from '../stack/artifacts.js'
import {OTHER_PARAMETERS, parameterText, STACK_OPTIONS} from '../stack/options.js'
import type {StackResource} from '../stack/reader.js'

export type ChangeAction =
  | 'add'
  | 'import' // exists and becomes part of the stack
  | 'restore' // was deleted, is created again
  | 'change'
  | 'sync' // already matches the template
  | 'replace'
  | 'maybe-replace' // CloudFormation decides during the update
  | 'remove'
  | 'keep' // leaves the stack, but is not deleted

/** Values are `null` where CloudFormation does not report them. */
interface PropertyChange {
  readonly name: string
  readonly before: string | null
  readonly after: string | null
}

export interface PlannedResource {
  readonly action: ChangeAction
  readonly logicalId: string
  readonly physicalId: string | null
  readonly type: string
  readonly properties: readonly PropertyChange[]
}

export interface ChangeSet {
  readonly id: string
  readonly name: string
  readonly stackId: string
  /** The stack was created for this change set and is empty. */
  readonly hasOwnStack: boolean
  readonly changes: readonly PlannedResource[]
}

const TABLE = 'AWS::DynamoDB::Table'

export function toPlannedChange({ResourceChange: change = {}}: Change): PlannedResource {
  const properties = new Map<string, PropertyChange>()
  for (const {Target: target} of change.Details ?? []) {
    const name = target?.Name ?? target?.Attribute ?? ''
    const property = {name, before: target?.BeforeValue ?? null, after: target?.AfterValue ?? null}
    // A property is listed once per cause of its change, not always with values.
    if (name !== '' && (property.after !== null || !properties.has(name))) properties.set(name, property)
  }
  return {
    action: actionOf(change),
    logicalId: change.LogicalResourceId ?? '',
    physicalId: change.PhysicalResourceId || null,
    type: change.ResourceType ?? '',
    properties: [...properties.values()],
  }
}

const LOSSES = new Set<ChangeAction>(['replace', 'maybe-replace', 'remove', 'keep', 'restore'])

/** Whether the table's data could be lost or detached from the stack. zael never executes such a plan. */
export function destroysTable({type, action, properties}: PlannedResource, addsIndex: boolean): boolean {
  // CloudFormation reports the attributes of a new index as a possible replacement; adding them replaces nothing.
  const isOfIndex = addsIndex && properties.every(({name}) => name !== 'TableName' && name !== 'KeySchema')
  return type === TABLE && LOSSES.has(action) && !(action === 'maybe-replace' && isOfIndex)
}

function actionOf(change: NonNullable<Change['ResourceChange']>): ChangeAction {
  const {Action, Replacement, PolicyAction, ResourceDriftStatus} = change
  if (ResourceDriftStatus === 'DELETED' && Action !== 'Remove') return 'restore'
  if (Action === 'Import') return 'import'
  if (Action === 'SyncWithActual') return 'sync'
  if (Action === 'Remove') return PolicyAction?.startsWith('Retain') === true ? 'keep' : 'remove'
  if (Action === 'Modify')
    return Replacement === 'True' ? 'replace' : Replacement === 'Conditional' ? 'maybe-replace' : 'change'
  // For `Dynamic` the change is not known before the update.
  return Action === 'Dynamic' ? 'maybe-replace' : 'add'
}

/** `before`: the default on a new stack. */
export interface ParameterChange {
  readonly option: string
  readonly before: string
  readonly after: string
}

/** Parameters not given keep their value; new parameters of the template get their default. */
export function requestParameters(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
): Parameter[] {
  const keys = [...STACK_OPTIONS.map(({parameter}) => parameter), ...OTHER_PARAMETERS]
  return keys.flatMap((ParameterKey): Parameter[] => {
    const ParameterValue = given[ParameterKey]
    if (ParameterValue !== undefined) return [{ParameterKey, ParameterValue}]
    return ParameterKey in deployed ? [{ParameterKey, UsePreviousValue: true}] : []
  })
}

/** `former`: values of stacks that lack the parameter; they change to the default. */
export function parameterChanges(
  given: Readonly<Record<string, string>>,
  deployed: Readonly<Record<string, string>> = {},
  former: Readonly<Record<string, string>>,
): ParameterChange[] {
  return STACK_OPTIONS.flatMap(option => {
    const {parameter} = option
    const byDefault = parameterText(option, option.default)
    const before = deployed[parameter] ?? former[parameter] ?? byDefault
    const after = given[parameter] ?? deployed[parameter] ?? byDefault
    return after === before ? [] : [{option: option.name, before, after}]
  })
}

export type RunningCode = Readonly<NonNullable<Awaited<ReturnType<typeof readRunningCode>>>>

export async function readRunningCode(aws: Aws, resources: readonly StackResource[]) {
  const functionName = resources.find(({logicalId}) => logicalId === LOGICAL_ID.function)?.physicalId
  if (!functionName) return null
  const [deployed, ours] = await Promise.all([readCode(aws, functionName), lambdaPackage()])
  // The function was deleted outside of CloudFormation.
  if (deployed === null) return null
  const {sha256Base64, runtime} = deployed
  return {functionName, sha256Base64, runtime, isOurs: sha256Base64 === ours.sha256Base64}
}

export function planCode(
  running: RunningCode | null,
  changeSet: Pick<ChangeSet, 'changes'> | undefined,
): 'new' | 'current' | 'none' {
  const change = changeSet?.changes.find(({logicalId}) => logicalId === LOGICAL_ID.function)
  if (change?.action === 'remove') return 'none'
  if (change && ['add', 'restore', 'replace'].includes(change.action)) return 'new'
  if (!running) return 'none'
  // Lambda changes the architecture only together with code, so CloudFormation uploads the template's placeholder.
  const isReset = change?.properties.some(({name}) => name === 'Architectures')
  return isReset || !running.isOurs ? 'new' : 'current'
}

/** After a failed update: a rollback can install the template's placeholder code. */
export async function codeWarning(aws: Aws, running: RunningCode | null): Promise<string | undefined> {
  if (!running) return undefined
  const {functionName, sha256Base64} = running
  try {
    if ((await readCode(aws, functionName))?.sha256Base64 === sha256Base64) return undefined
    return `the function ${functionName} now runs other code and may not count usage`
  } catch {
    return `zael could not check the code of the function ${functionName}`
  }
}

async function readCode(aws: Aws, FunctionName: string) {
  const found = await callUnlessMissing(`read the code hash of function "${FunctionName}"`, async () => {
    return (await aws.lambda()).send(new GetFunctionConfigurationCommand({FunctionName}))
  })
  return found?.CodeSha256 === undefined
    ? null
    : {sha256Base64: found.CodeSha256, runtime: (found.Runtime as string | undefined) ?? null}
}

/** More than for other requests: the code is 1 MB. */
const UPLOAD_TIMEOUT_MS = 60_000

export async function updateFunctionCode(
  aws: Aws,
  functionName: string,
  code: LambdaPackage,
  wait: WaitOptions,
): Promise<{readonly updated: boolean; readonly sha256Base64: string}> {
  return callAws(`update the code of function "${functionName}"`, async () => {
    const client = await aws.lambda()
    // Lambda rejects an update while another one is in progress.
    const current = await waitForUpdates(aws, functionName, wait)
    if (current.CodeSha256 === code.sha256Base64) return {updated: false, sha256Base64: code.sha256Base64}
    await client.send(
      new UpdateFunctionCodeCommand({
        FunctionName: functionName,
        ZipFile: code.zip,
        // Without it Lambda would reset the architecture to x86.
        ...(current.Architectures === undefined ? {} : {Architectures: current.Architectures}),
        Publish: false,
      }),
      {requestTimeout: UPLOAD_TIMEOUT_MS},
    )
    const {CodeSha256 = ''} = await waitForUpdates(aws, functionName, wait)
    if (CodeSha256 !== code.sha256Base64) throw changedMeanwhile(functionName)
    return {updated: true, sha256Base64: CodeSha256}
  })
}

async function waitForUpdates(aws: Aws, FunctionName: string, wait: WaitOptions) {
  const client = await aws.lambda()
  return poll(wait, async () => {
    const configuration = await client.send(new GetFunctionConfigurationCommand({FunctionName}))
    const {LastUpdateStatus, State} = configuration
    if (LastUpdateStatus === 'Failed' || State === 'Failed') {
      const reason = configuration.LastUpdateStatusReason ?? configuration.StateReason ?? 'no reason given'
      throw new ZaelError('failed', 'lambda.failed', `Function "${FunctionName}" could not be updated: ${reason}`, {
        hint: 'Fix the cause, then run the same command again.',
        details: {functionName: FunctionName, reason},
      })
    }
    return LastUpdateStatus === 'InProgress' || State === 'Pending' ? undefined : configuration
  })
}

function changedMeanwhile(functionName: string): ZaelError {
  const message = `Another deployment changed the code of "${functionName}" at the same time.`
  return new ZaelError('conflict', 'lambda.raced', message, {
    hint: 'Run the same command again after the other deployment.',
    details: {functionName},
  })
}
