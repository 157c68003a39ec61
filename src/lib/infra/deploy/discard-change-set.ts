import {DeleteChangeSetCommand, DeleteStackCommand, ListChangeSetsCommand} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import {sleepMs} from '../../dynamo/retry.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll} from '../aws/send-change.js'
import {readStack} from '../stack/reader.js'
import type {ChangeSet} from './planned-change.js'

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

/** Returns the original failure. If the clean-up fails too, it also says what is left and how to remove it. */
export async function discardAfter(failure: unknown, aws: Aws, changeSet: ChangeSet): Promise<unknown> {
  try {
    await discardChangeSet(aws, changeSet)
    return failure
  } catch (error) {
    if (!(failure instanceof ZaelError) || !(error instanceof ZaelError)) return failure
    const {kind, code, message, hint = '', details, cause} = failure
    const left = `The planned changes could not be discarded: ${error.message}`
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
