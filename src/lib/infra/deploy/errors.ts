import {InvalidInput, ZaelError} from '../../core/errors.js'
import {indexes} from '../../schema/attributes.js'
import {indexKeys} from '../../schema/keys.js'
import {firstFailure, type StackEvent} from '../stack/events.js'
import {LOST_TABLE_FIX} from '../stack/reader.js'
import {ownTags} from '../stack/tags.js'
import type {PlannedResource} from './planned-change.js'

const MAX_NAME_LENGTH = 55

/** The names of all resources derive from the stack's name. */
export function checkCloudFormationName(name: string): void {
  if (name.length >= 3 && name.length <= MAX_NAME_LENGTH && /^[A-Za-z][A-Za-z0-9-]*$/.test(name)) return
  throw new InvalidInput('deploy.name', `"${name}" is not a valid stack name.`, {
    hint: `Use 3 to ${MAX_NAME_LENGTH} letters, digits and hyphens, starting with a letter.`,
    details: {stack: name},
  })
}

export function wouldLoseTable(stack: string, {physicalId, properties, action}: PlannedResource): ZaelError {
  if (action === 'restore') return tableIsGone(stack)
  const causes = properties.map(({name}) => name)
  const because = causes.length === 0 ? '' : ` because of ${causes.join(', ')}`
  const [would, or] =
    action === 'maybe-replace' ? ['may', ' If you rebuild the resource index, add --resource-index.'] : ['would', '']
  const message = `CloudFormation ${would} replace the table "${physicalId ?? stack}"${because}: the new one would be empty.`
  return new ZaelError('conflict', 'deploy.replaces-table', message, {
    hint: `Nothing was changed: zael never replaces a table. Leave that option as it was, or deploy a second stack and move there.${or}`,
    details: {stack, properties: causes},
  })
}

export function tableIsGone(stack: string): ZaelError {
  const message = `The table "${stack}" was deleted, and a deployment cannot restore its data.`
  return new ZaelError('conflict', 'deploy.table-gone', message, {
    hint: `Nothing was changed. ${LOST_TABLE_FIX}`,
    details: {stack},
  })
}

/** An index cannot be changed in place, and one update can only drop it or create it. */
export function needsIndexRebuild(stack: string, deployed: string, asked: string): ZaelError {
  const tags = Object.entries(ownTags(stack)).map(([key, value]) => `${key}=${value}`)
  const deploy = `aws cloudformation deploy --stack-name ${stack} --template-file DIR/stack.yaml`
  const [partitionKey, sortKey] = Object.keys(indexKeys.bucketOfResource('', '', '', 0))
  const parts = `${indexes.resource}, ${partitionKey} and ${sortKey}`
  const steps = [
    `1. zael deploy --stack ${stack} --export DIR, then delete ${parts} from the table in DIR/stack.yaml`,
    `2. ${deploy} --capabilities CAPABILITY_NAMED_IAM --tags ${tags.join(' ')}`,
    `3. zael deploy --stack ${stack} --resource-index ${asked}`,
  ]
  const message = `The resource index of "${stack}" is ${deployed}; changing it to ${asked} takes two updates: drop it, then create it again.`
  return new ZaelError('conflict', 'deploy.index-rebuild', message, {
    hint:
      'Nothing was changed. Acquires keep working during the updates; lists and usage by resource are incomplete until the ' +
      'index is built. Step 2 removes every tag that it does not name, so add your own tags:\n' +
      steps.map(step => `  ${step}`).join('\n'),
    details: {stack, deployed, asked, steps},
  })
}

export function deployFailed(
  stack: string,
  events: readonly StackEvent[],
  end: StackEvent,
  codeWarning?: string,
): ZaelError {
  const first = firstFailure(events)
  const what = first
    ? `${first.logicalId} (${first.type}): ${first.reason ?? first.status}`
    : (end.reason ?? end.status)
  const isGone = end.status === 'ROLLBACK_COMPLETE' || end.status === 'DELETE_COMPLETE'
  const but =
    codeWarning === undefined ? '' : `, but ${codeWarning}. Upload its code again: zael deploy --stack ${stack}`
  const isAdoption = events.some(({status}) => status.startsWith('IMPORT_'))
  const outcome = isGone
    ? isAdoption
      ? `The table is unchanged and belongs to no stack. ${leftBucket(events)}Only the record of the stack remains in CloudFormation.`
      : 'Only its record remains in CloudFormation.'
    : end.status === 'UPDATE_ROLLBACK_COMPLETE'
      ? `CloudFormation rolled back all changes${but}.`
      : `The stack is ${end.status}${but}.`
  // The stack's ARN contains the region.
  const [, , , region = 'REGION'] = end.physicalId?.split(':') ?? []
  const isTakenIamName = first?.type.startsWith('AWS::IAM::') && isNameTaken(first.reason ?? '')
  const next = isTakenIamName ? otherNamesHint(region) : 'Fix the cause, then run the same command again.'
  return new ZaelError('failed', 'deploy.failed', `Stack "${stack}" could not be deployed. ${what}`, {
    hint: `${outcome} ${next}`,
    details: {
      stack,
      status: end.status,
      resource: first?.logicalId ?? null,
      resourceType: first?.type ?? null,
      reason: first?.reason ?? end.reason,
    },
  })
}

/** The rollback of an adoption keeps retained resources, even a bucket that it has just created. */
function leftBucket(events: readonly StackEvent[]): string {
  const kept = events.find(({status, type}) => status === 'DELETE_SKIPPED' && type === 'AWS::S3::Bucket')
  return kept?.physicalId ? `An empty bucket is left: aws s3 rb s3://${kept.physicalId}. ` : ''
}

const OVERTAKEN = /^(ChangeSetNotFound|InvalidChangeSetStatus)(Exception)?$/

const BUSY = /is in \w+_IN_PROGRESS state and can ?not be|already exists and cannot be created again with the changeSet/

export function asConflict(stack: string, region: string, error: unknown): unknown {
  const {name = '', message = ''} = error instanceof Error ? error : {}
  if (OVERTAKEN.test(name) || (name === 'ValidationError' && BUSY.test(message)))
    return overtaken(stack, message, error)
  return /^EntityAlreadyExists/.test(name) ? nameTaken(stack, region, message, error) : error
}

export function isNameTaken(reason: string): boolean {
  return /already ?exists|ResourceExistenceCheck/i.test(reason)
}

export function otherNamesHint(region: string): string {
  const format = `"{}-${region}"`
  return (
    'Names of roles and policies are unique in the account. If another region has a stack with this name, add ' +
    `--role-name-format ${format} --policy-name-format ${format}; see docs/deploying.md#one-name-in-several-regions`
  )
}

function overtaken(stack: string, reason: string, cause: unknown): ZaelError {
  return new ZaelError('conflict', 'deploy.overtaken', `Another deployment is changing stack "${stack}": ${reason}`, {
    hint:
      'Your changes were not applied. Wait for the other deployment, then run the same command again. Check it: ' +
      `zael status --stack ${stack}`,
    details: {stack},
    cause,
  })
}

function nameTaken(stack: string, region: string, reason: string, cause: unknown): ZaelError {
  return new ZaelError('conflict', 'deploy.name-taken', `Stack "${stack}" cannot be deployed: ${reason}`, {
    hint: otherNamesHint(region),
    details: {stack, region},
    cause,
  })
}
