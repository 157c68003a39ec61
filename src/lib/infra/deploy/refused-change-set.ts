import {DescribeEventsCommand} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {isNameTaken, otherNamesHint} from './conflicts.js'

/** The error for a change set that CloudFormation could not plan; `status` is its reason. */
export async function refusedChangeSet(
  aws: Aws,
  stack: string,
  id: string,
  status = 'no reason given',
): Promise<ZaelError> {
  const found = /EarlyValidation/.test(status) ? await readValidationErrors(aws, stack, id) : []
  const reason = found.length === 0 ? status : found.join(' ')
  const next = isNameTaken(status)
    ? otherNamesHint(await aws.region())
    : 'Fix the cause, then run the same command again.'
  return new ZaelError('failed', 'deploy.refused', `CloudFormation rejects the change of stack "${stack}": ${reason}`, {
    hint: `Nothing was changed. ${next}`,
    details: {stack, reason},
  })
}

/** What the checks before a change set have found: "AppRole: Resource … already exists."; none if that cannot be read. */
async function readValidationErrors(aws: Aws, StackName: string, ChangeSetName: string): Promise<string[]> {
  try {
    const client = await aws.cloudFormation()
    const command = new DescribeEventsCommand({StackName, ChangeSetName, Filters: {FailedEvents: true}})
    const {OperationEvents: events = []} = await client.send(command)
    return events.flatMap(({EventType, LogicalResourceId: id, ValidationStatusReason: reason}) =>
      EventType === 'VALIDATION_ERROR' && reason ? [`${id}: ${reason}`] : [],
    )
  } catch {
    // The refusal itself matters more.
    return []
  }
}
