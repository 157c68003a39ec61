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

/** What a stack is to become. */
export interface ChangeSetRequest {
  readonly stack: string
  readonly type: ChangeSetType
  readonly template: string
  readonly parameters: readonly Parameter[]
  readonly tags: Readonly<Record<string, string>>
  /** Unique among the change sets of the stack. */
  readonly changeSetName: string
  /** Nothing bears the name yet: an empty stack is made for the change set, and goes with it. */
  readonly isNewName: boolean
}

/** Changes that CloudFormation has worked out and waits to be told to make. */
export interface ChangeSet {
  readonly id: string
  readonly name: string
  readonly stackId: string
  /** The stack was made for this change set and is empty. */
  readonly hasOwnStack: boolean
  readonly changes: readonly PlannedResource[]
}

/** Has CloudFormation work out what would change; `undefined` when nothing would. Changes nothing itself. */
export async function createChangeSet(
  aws: Aws,
  request: ChangeSetRequest,
  waiting: WaitOptions,
): Promise<ChangeSet | undefined> {
  const {stack} = request
  return attemptOn(aws, stack, `plan changes of stack "${stack}"`, async () => {
    const client = await aws.cloudFormation()
    const {Id: id = '', StackId: stackId = ''} = await client
      .send(
        new CreateChangeSetCommand({
          StackName: stack,
          ChangeSetName: request.changeSetName,
          // A request that is sent again because its answer was lost counts once.
          ClientToken: request.changeSetName,
          ChangeSetType: request.type,
          TemplateBody: request.template,
          Parameters: [...request.parameters],
          Tags: Object.entries(request.tags).map(([Key, Value]) => ({Key, Value})),
          Capabilities: ['CAPABILITY_NAMED_IAM'],
          Description: 'zael deploy',
        }),
      )
      .catch(error => {
        // Some emulators tell at once what AWS tells only when asked about the change set.
        if (isNoChange(error?.message)) return {Id: undefined, StackId: undefined}
        throw error
      })
    if (id === '') return undefined
    const empty = {id, name: request.changeSetName, stackId, hasOwnStack: request.isNewName, changes: []}
    try {
      const told = await poll(waiting, async () => {
        const answer = await describe(aws, id)
        return answer.Status === 'CREATE_COMPLETE' || answer.Status === 'FAILED' ? answer : undefined
      })
      if (told.Status === 'CREATE_COMPLETE') return {...empty, changes: (told.Changes ?? []).map(toPlannedChange)}
      if (!isNoChange(told.StatusReason)) throw refused(stack, await aws.region(), told.StatusReason)
    } catch (error) {
      await discardChangeSet(aws, empty)
      throw error
    }
    await discardChangeSet(aws, empty)
    return undefined
  })
}

/** Begins to make the changes; the events of the stack tell how that goes. */
export async function executeChangeSet(aws: Aws, stack: string, {id, name}: ChangeSet): Promise<void> {
  // What is made just now and fails goes again, even what stays otherwise: an empty table would be in the way of the next
  // attempt.
  const command = new ExecuteChangeSetCommand({ChangeSetName: id, ClientRequestToken: name, RetainExceptOnCreate: true})
  await attemptOn(aws, stack, `change stack "${stack}"`, async () => (await aws.cloudFormation()).send(command))
}

/** Forgets a change set, and the empty stack that was made for it. */
export async function discardChangeSet(aws: Aws, {id, stackId, hasOwnStack}: ChangeSet): Promise<void> {
  await callAws('discard the planned changes', async () => {
    const client = await aws.cloudFormation()
    await client.send(new DeleteChangeSetCommand({ChangeSetName: id}))
    // Looked at once more: a stack that somebody has begun to fill stays.
    const isEmpty = hasOwnStack && (await readStack(aws, stackId))?.status === 'REVIEW_IN_PROGRESS'
    if (isEmpty) await client.send(new DeleteStackCommand({StackName: stackId}))
  })
}

/** All pages as one answer. */
async function describe(aws: Aws, ChangeSetName: string): Promise<DescribeChangeSetOutput> {
  const client = await aws.cloudFormation()
  const ask = (NextToken?: string) =>
    client.send(
      new DescribeChangeSetCommand({ChangeSetName, IncludePropertyValues: true, ...(NextToken ? {NextToken} : {})}),
    )
  const first = await ask()
  const changes = [...(first.Changes ?? [])]
  for (let token = first.NextToken; token; ) {
    const page = await ask(token)
    changes.push(...(page.Changes ?? []))
    token = page.NextToken
  }
  return {...first, Changes: changes}
}

function isNoChange(reason: string | undefined): boolean {
  return /didn't contain changes|no updates are to be performed/i.test(reason ?? '')
}

/** Like `attempt`, for what another deployment of the stack, or another stack, can be in the way of. */
function attemptOn<T>(aws: Aws, stack: string, doing: string, work: () => Promise<T>): Promise<T> {
  return callAws(doing, async () => {
    try {
      return await work()
    } catch (error) {
      throw asConflict(stack, await aws.region(), error)
    }
  })
}

function refused(stack: string, region: string, reason = 'no reason is given'): ZaelError {
  const next = isNameTaken(reason) ? otherNamesHint(region) : 'Mend what it says, then run the same command again.'
  return new ZaelError('failed', 'deploy.refused', `CloudFormation refuses to change stack "${stack}": ${reason}`, {
    hint: `Nothing was changed. ${next}`,
    details: {stack, reason},
  })
}
