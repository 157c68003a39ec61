import {
  type ChangeSetType,
  CreateChangeSetCommand,
  DeleteChangeSetCommand,
  DeleteStackCommand,
  DescribeChangeSetCommand,
  type DescribeChangeSetOutput,
  DescribeEventsCommand,
  ExecuteChangeSetCommand,
  ListChangeSetsCommand,
  type Parameter,
  paginateDescribeChangeSet,
} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import {type Aws, awsUntilAborted} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'
import {poll, sendChange, type WaitOptions} from '../aws/send-change.js'
import {readStack} from '../stack/reader.js'
import {asConflict, isNameTaken, otherNamesHint} from './errors.js'
import {type ChangeSet, toPlannedChange} from './planned-change.js'
import type {TemplateSource} from './template-upload.js'

interface ChangeSetRequest {
  readonly stack: string
  readonly type: ChangeSetType
  readonly template: TemplateSource
  readonly role?: string | undefined
  readonly parameters: readonly Parameter[]
  readonly tags: Readonly<Record<string, string>>
  /** Unique among the change sets of the stack. */
  readonly changeSetName: string
  /** No stack of this name exists, or only zael's empty one for change sets. */
  readonly isNewName: boolean
  /** Adopt existing resources that the template names and no stack owns. */
  readonly imports?: boolean
  readonly revertsDrift?: boolean
}

/** `undefined`: no changes. Changes no resources. */
export async function createChangeSet(
  aws: Aws,
  request: ChangeSetRequest,
  wait: WaitOptions,
): Promise<ChangeSet | undefined> {
  const {stack} = request
  return callOnStack(aws, stack, `plan changes of stack "${stack}"`, async () => {
    const client = await aws.cloudFormation()
    const command = new CreateChangeSetCommand({
      StackName: stack,
      ChangeSetName: request.changeSetName,
      // Makes a retry after a lost response idempotent.
      ClientToken: request.changeSetName,
      ChangeSetType: request.type,
      ...request.template,
      ...(request.role === undefined ? {} : {RoleARN: request.role}),
      Parameters: [...request.parameters],
      Tags: Object.entries(request.tags).map(([Key, Value]) => ({Key, Value})),
      Capabilities: ['CAPABILITY_NAMED_IAM'],
      ...(request.imports ? {ImportExistingResources: true} : {}),
      ...(request.revertsDrift ? {DeploymentMode: 'REVERT_DRIFT' as const} : {}),
      Description: 'zael deploy',
    })
    const planning = {what: 'Planning', signal: wait.signal}
    const creation = sendChange(command, options => client.send(command, options), planning)
    const {Id: id = '', StackId: stackId = ''} = await creation.catch(async error => {
      // Some emulators report "no changes" here, AWS only in the description of the change set.
      if (isNoChange(error?.message)) return {Id: undefined, StackId: undefined}
      if (isUnanswered(error)) await discardUnanswered(aws, request)
      throw error
    })
    if (id === '') return undefined
    const empty = {id, name: request.changeSetName, stackId, hasOwnStack: request.isNewName, changes: []}
    try {
      const planned = await poll(wait, async () => {
        const described = await describe(awsUntilAborted(aws, wait.signal), id)
        return described.Status === 'CREATE_COMPLETE' || described.Status === 'FAILED' ? described : undefined
      })
      if (planned.Status === 'CREATE_COMPLETE') return {...empty, changes: (planned.Changes ?? []).map(toPlannedChange)}
      if (!isNoChange(planned.StatusReason)) throw await refusedChangeSet(aws, stack, id, planned.StatusReason)
    } catch (error) {
      throw await discardAfter(error, aws, empty)
    }
    await discardChangeSet(aws, empty)
    return undefined
  })
}

/** The stack's events report the progress. `onSent` is called when the changes may begin. */
export async function executeChangeSet(
  aws: Aws,
  stack: string,
  {id, name, changes}: ChangeSet,
  {signal, onSent}: {readonly signal?: AbortSignal | undefined; readonly onSent?: () => void} = {},
): Promise<void> {
  // A failed creation also deletes retained resources: an empty table would block the next attempt.
  // AWS does not say whether that includes imported resources, which have data.
  const RetainExceptOnCreate = changes.every(({action}) => action !== 'import')
  const command = new ExecuteChangeSetCommand({ChangeSetName: id, ClientRequestToken: name, RetainExceptOnCreate})
  const executing = {what: 'Executing the planned changes', signal, onSent}
  await callOnStack(aws, stack, `change stack "${stack}"`, async () => {
    const client = await aws.cloudFormation()
    return sendChange(command, options => client.send(command, options), executing)
  })
}

function isUnanswered(error: unknown): boolean {
  if (error instanceof Aborted) return error.maybeApplied
  const {name = '', code = ''} = (error ?? {}) as {name?: string; code?: string}
  return name === 'TimeoutError' || code === 'ECONNRESET'
}

async function discardUnanswered(aws: Aws, {stack, changeSetName, isNewName}: ChangeSetRequest): Promise<void> {
  const client = await aws.cloudFormation()
  const command = new DescribeChangeSetCommand({StackName: stack, ChangeSetName: changeSetName})
  const found = await client.send(command).catch(() => undefined)
  const {ChangeSetId: id, StackId: stackId = ''} = found ?? {}
  if (id === undefined) return
  await discardChangeSet(aws, {id, name: changeSetName, stackId, hasOwnStack: isNewName, changes: []})
}

async function describe(aws: Aws, ChangeSetName: string): Promise<DescribeChangeSetOutput> {
  const input = {ChangeSetName, IncludePropertyValues: true}
  const pages = paginateDescribeChangeSet({client: await aws.cloudFormation()}, input)
  const described: DescribeChangeSetOutput[] = await collected(pages, page => [page])
  return {...described[0], Changes: described.flatMap(({Changes = []}) => Changes)}
}

function isNoChange(reason: string | undefined): boolean {
  return /didn't contain changes|no updates are to be performed/i.test(reason ?? '')
}

function callOnStack<T>(aws: Aws, stack: string, doing: string, call: () => Promise<T>): Promise<T> {
  return callAws(doing, async () => {
    try {
      return await call()
    } catch (error) {
      throw asConflict(stack, await aws.region(), error)
    }
  })
}

async function refusedChangeSet(aws: Aws, stack: string, id: string, status = 'no reason given'): Promise<ZaelError> {
  const found = /EarlyValidation/.test(status) ? await readValidationErrors(aws, stack, id) : []
  const reason = found.length === 0 ? status : found.join(' ')
  const next = isNameTaken(status)
    ? otherNamesHint(await aws.region())
    : 'Fix the cause, then run the same command again.'
  const message = `CloudFormation rejected the change of stack "${stack}": ${reason}`
  return new ZaelError('failed', 'deploy.refused', message, {
    hint: `Nothing was changed. ${next}`,
    details: {stack, reason},
  })
}

/** Such as "AppRole: Resource … already exists."; empty if they cannot be read. */
async function readValidationErrors(aws: Aws, StackName: string, ChangeSetName: string): Promise<string[]> {
  try {
    const client = await aws.cloudFormation()
    const command = new DescribeEventsCommand({StackName, ChangeSetName, Filters: {FailedEvents: true}})
    const {OperationEvents: events = []} = await client.send(command)
    return events.flatMap(({EventType, LogicalResourceId: id, ValidationStatusReason: reason}) =>
      EventType === 'VALIDATION_ERROR' && reason ? [`${id}: ${reason}`] : [],
    )
  } catch {
    return []
  }
}

const STILL_PLANNING = /CREATE_(PENDING|IN_PROGRESS)|currently in progress/

// About 45 seconds.
const MAX_DELETIONS = 20

export async function discardChangeSet(aws: Aws, {id, stackId, hasOwnStack}: ChangeSet): Promise<void> {
  await callAws('discard the planned changes', async () => {
    const client = await aws.cloudFormation()
    let attempts = 0
    await poll({sleep: sleepMs}, () =>
      client.send(new DeleteChangeSetCommand({ChangeSetName: id})).then(
        () => true,
        error => {
          // CloudFormation does not delete a change set that it is still planning.
          if (!STILL_PLANNING.test(error?.message) || ++attempts === MAX_DELETIONS) throw error
          return undefined
        },
      ),
    )
    // Read again: another deployment may have started to fill the stack, or may have a plan for it.
    const isEmpty = hasOwnStack && (await readStack(aws, stackId))?.status === 'REVIEW_IN_PROGRESS'
    if (isEmpty && !(await hasOtherPlan(aws, stackId))) await client.send(new DeleteStackCommand({StackName: stackId}))
  })
}

/** Returns the original failure. If the cleanup also fails, adds the leftovers and the command that removes them. */
export async function discardAfter(failure: unknown, aws: Aws, changeSet: ChangeSet): Promise<unknown> {
  try {
    await discardChangeSet(aws, changeSet)
    return failure
  } catch (error) {
    if (!(failure instanceof ZaelError) || !(error instanceof ZaelError)) return failure
    const {kind, code, message, hint = '', details, cause} = failure
    const left = `zael could not discard the planned changes: ${error.message}`
    const remove = `To discard them: aws cloudformation delete-change-set --change-set-name ${changeSet.id}`
    if (failure instanceof Aborted)
      return new ZaelError('interrupted', 'deploy.interrupted', `Interrupted: nothing was changed. ${left}`, {
        hint: remove,
        details: {changeSet: changeSet.id},
      })
    return new ZaelError(kind, code, message, {hint: `${hint}\n${left} ${remove}`.trim(), details, cause})
  }
}

/** True if it cannot be read: another deployment may plan to fill the empty stack. */
async function hasOtherPlan(aws: Aws, StackName: string): Promise<boolean> {
  try {
    const client = await aws.cloudFormation()
    const {Summaries = []} = await client.send(new ListChangeSetsCommand({StackName}))
    // Emulators also list change sets of other stacks.
    return Summaries.some(({StackId}) => StackId === StackName)
  } catch {
    return true
  }
}
