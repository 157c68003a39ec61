import {
  type ChangeSetType,
  CreateChangeSetCommand,
  DeleteChangeSetCommand,
  DeleteStackCommand,
  DescribeChangeSetCommand,
  type DescribeChangeSetOutput,
  ExecuteChangeSetCommand,
  type Parameter,
} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/poll.js'
import {readStack} from '../stacks/reader.js'
import {asConflict, isNameTaken, otherNamesHint} from './conflicts.js'
import {type PlannedResource, toPlannedChange} from './planned-change.js'
import type {TemplateSource} from './template-upload.js'

/** The desired state of a stack. */
interface ChangeSetRequest {
  readonly stack: string
  readonly type: ChangeSetType
  readonly template: TemplateSource
  /** ARN of the service role for CloudFormation; `undefined`: the role that the stack has, or the caller's permissions. */
  readonly role?: string | undefined
  readonly parameters: readonly Parameter[]
  readonly tags: Readonly<Record<string, string>>
  /** Unique among the change sets of the stack. */
  readonly changeSetName: string
  /** There is no stack of this name yet: CloudFormation creates an empty one for the change set. */
  readonly isNewName: boolean
}

/** Changes that CloudFormation has planned and not yet executed. */
export interface ChangeSet {
  readonly id: string
  readonly name: string
  readonly stackId: string
  /** The stack was created for this change set and is empty. */
  readonly hasOwnStack: boolean
  readonly changes: readonly PlannedResource[]
}

/** Lets CloudFormation plan the changes; `undefined` when there are none. Changes no resources. */
export async function createChangeSet(
  aws: Aws,
  request: ChangeSetRequest,
  wait: WaitOptions,
): Promise<ChangeSet | undefined> {
  const {stack} = request
  return callOnStack(aws, stack, `plan changes of stack "${stack}"`, async () => {
    const client = await aws.cloudFormation()
    const {Id: id = '', StackId: stackId = ''} = await client
      .send(
        new CreateChangeSetCommand({
          StackName: stack,
          ChangeSetName: request.changeSetName,
          // Makes retries of a request whose response was lost idempotent.
          ClientToken: request.changeSetName,
          ChangeSetType: request.type,
          ...request.template,
          ...(request.role === undefined ? {} : {RoleARN: request.role}),
          Parameters: [...request.parameters],
          Tags: Object.entries(request.tags).map(([Key, Value]) => ({Key, Value})),
          Capabilities: ['CAPABILITY_NAMED_IAM'],
          Description: 'zael deploy',
        }),
      )
      .catch(error => {
        // Some emulators report here what AWS reports only in the description of the change set.
        if (isNoChange(error?.message)) return {Id: undefined, StackId: undefined}
        throw error
      })
    if (id === '') return undefined
    const empty = {id, name: request.changeSetName, stackId, hasOwnStack: request.isNewName, changes: []}
    try {
      const planned = await poll(wait, async () => {
        const described = await describe(aws, id)
        return described.Status === 'CREATE_COMPLETE' || described.Status === 'FAILED' ? described : undefined
      })
      if (planned.Status === 'CREATE_COMPLETE') return {...empty, changes: (planned.Changes ?? []).map(toPlannedChange)}
      if (!isNoChange(planned.StatusReason)) throw refused(stack, await aws.region(), planned.StatusReason)
    } catch (error) {
      await discardChangeSet(aws, empty)
      throw error
    }
    await discardChangeSet(aws, empty)
    return undefined
  })
}

/** Starts the changes; the stack's events report their progress. */
export async function executeChangeSet(aws: Aws, stack: string, {id, name}: ChangeSet): Promise<void> {
  // A failed creation also removes resources that are otherwise retained: an empty table would block the next attempt.
  const command = new ExecuteChangeSetCommand({ChangeSetName: id, ClientRequestToken: name, RetainExceptOnCreate: true})
  await callOnStack(aws, stack, `change stack "${stack}"`, async () => (await aws.cloudFormation()).send(command))
}

/** Deletes a change set, and the empty stack that was created for it. */
export async function discardChangeSet(aws: Aws, {id, stackId, hasOwnStack}: ChangeSet): Promise<void> {
  await callAws('discard the planned changes', async () => {
    const client = await aws.cloudFormation()
    await client.send(new DeleteChangeSetCommand({ChangeSetName: id}))
    // Read again: another deployment may have started to fill the stack.
    const isEmpty = hasOwnStack && (await readStack(aws, stackId))?.status === 'REVIEW_IN_PROGRESS'
    if (isEmpty) await client.send(new DeleteStackCommand({StackName: stackId}))
  })
}

/** Combines all pages. */
async function describe(aws: Aws, ChangeSetName: string): Promise<DescribeChangeSetOutput> {
  const client = await aws.cloudFormation()
  const readPage = (NextToken?: string) =>
    client.send(
      new DescribeChangeSetCommand({ChangeSetName, IncludePropertyValues: true, ...(NextToken ? {NextToken} : {})}),
    )
  const first = await readPage()
  const changes = [...(first.Changes ?? [])]
  for (let token = first.NextToken; token; ) {
    const page = await readPage(token)
    changes.push(...(page.Changes ?? []))
    token = page.NextToken
  }
  return {...first, Changes: changes}
}

function isNoChange(reason: string | undefined): boolean {
  return /didn't contain changes|no updates are to be performed/i.test(reason ?? '')
}

/** Like `callAws`, for calls that can conflict with another deployment or another stack. */
function callOnStack<T>(aws: Aws, stack: string, doing: string, call: () => Promise<T>): Promise<T> {
  return callAws(doing, async () => {
    try {
      return await call()
    } catch (error) {
      throw asConflict(stack, await aws.region(), error)
    }
  })
}

function refused(stack: string, region: string, reason = 'no reason given'): ZaelError {
  const next = isNameTaken(reason) ? otherNamesHint(region) : 'Fix the cause, then run the same command again.'
  return new ZaelError('failed', 'deploy.refused', `CloudFormation rejects the change of stack "${stack}": ${reason}`, {
    hint: `Nothing was changed. ${next}`,
    details: {stack, reason},
  })
}
