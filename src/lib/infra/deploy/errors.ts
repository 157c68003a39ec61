import {InvalidInput, ZaelError} from '../../core/errors.js'
import {ownTags} from '../options/tags.js'
import {firstFailure, type StackEvent} from '../stacks/events.js'
import type {DeployedStack} from '../stacks/reader.js'
import {isNameTaken, otherNamesHint} from './conflicts.js'
import type {PlannedResource} from './planned-change.js'

const LONGEST_NAME = 55

/** A name that every resource of a stack can be derived from. */
export function checkCloudFormationName(name: string): void {
  if (name.length >= 3 && name.length <= LONGEST_NAME && /^[A-Za-z][A-Za-z0-9-]*$/.test(name)) return
  throw new InvalidInput('deploy.name', `"${name}" cannot be the name of a stack.`, {
    hint: `Use 3 to ${LONGEST_NAME} letters, digits and hyphens, a letter first.`,
    details: {stack: name},
  })
}

/** Somebody else's stack of the same name. */
export function foreignStack({name, status}: DeployedStack): ZaelError {
  return new ZaelError(
    'conflict',
    'stack.foreign',
    `There is a stack "${name}" (${status}) that is not a rate limiter.`,
    {
      hint: 'Nothing was touched. Choose another name with --stack, or another --region or --profile.',
      details: {stack: name},
    },
  )
}

/** A stack of the Python tool, which has another template: an update would take its resources away. */
export function pythonStack({name}: DeployedStack): ZaelError {
  return new ZaelError('conflict', 'stack.python', `Stack "${name}" was deployed by the Python tool (zae-limiter).`, {
    hint:
      'Nothing was touched. All commands on limits, entities and usage work with it as it is. ' +
      'To hand the stack over to zael, follow "Adopting a table of the Python tool" in docs/deploying.md.',
    details: {stack: name},
  })
}

/** CloudFormation takes one change at a time, and none in some states. */
export function unusableStack({name, status}: DeployedStack): ZaelError {
  const hint = status.endsWith('_IN_PROGRESS')
    ? `Wait until it is done, then run the same command again: zael status --stack ${name}`
    : status === 'UPDATE_ROLLBACK_FAILED'
      ? `Let it finish going back first: aws cloudformation continue-update-rollback --stack-name ${name}`
      : `Delete what is left of it first; the table stays: zael delete --stack ${name}`
  return new ZaelError('conflict', 'stack.state', `Stack "${name}" is ${status} and cannot be changed now.`, {
    hint,
    details: {stack: name, status},
  })
}

/** A table of that name outside of any stack, such as one that a deleted stack has left. */
export function tableWithoutStack(name: string): ZaelError {
  return new ZaelError('conflict', 'deploy.table-exists', `There is a table "${name}" that belongs to no stack.`, {
    hint:
      'Nothing was touched, and every command works with the table as it is. To put it under a stack again, follow ' +
      `"Adopting a table" in docs/deploying.md; if it can go: zael delete --stack ${name} --delete-table`,
    details: {stack: name},
  })
}

/** The table with all its data would be taken away. */
export function wouldLoseTable(stack: string, {physicalId, properties}: PlannedResource): ZaelError {
  const causes = properties.map(({name}) => name)
  const because = causes.length === 0 ? '' : ` because of ${causes.join(', ')}`
  return new ZaelError(
    'conflict',
    'deploy.replaces-table',
    `CloudFormation would replace the table "${physicalId ?? stack}"${because}: the new one would be empty.`,
    {
      hint: 'Nothing was changed, and zael never does this. Leave that option as it is, or deploy a second stack and move there.',
      details: {stack, properties: causes},
    },
  )
}

/** An index cannot be changed, only dropped and made anew, and CloudFormation does one of both at a time. */
export function needsIndexRebuild(stack: string, deployed: string, asked: string): ZaelError {
  const tags = Object.entries(ownTags(stack)).map(([key, value]) => `${key}=${value}`)
  const deploy = `aws cloudformation deploy --stack-name ${stack} --template-file DIR/stack.yaml`
  const steps = [
    `1. zael deploy --stack ${stack} --export DIR, then delete GSI2, GSI2PK and GSI2SK from the table in DIR/stack.yaml`,
    `2. ${deploy} --capabilities CAPABILITY_NAMED_IAM --tags ${tags.join(' ')}`,
    `3. zael deploy --stack ${stack} --resource-index ${asked}`,
  ]
  return new ZaelError(
    'conflict',
    'deploy.index-rebuild',
    `The resource index of "${stack}" is ${deployed}; making it ${asked} takes two changes: drop it, then build it anew.`,
    {
      hint:
        'Nothing was changed. Admission goes on meanwhile; lists and usage by resource are incomplete until it is built. ' +
        'Step 2 takes away every tag that it does not name, so add your own tags to it:\n' +
        steps.map(step => `  ${step}`).join('\n'),
      details: {stack, deployed, asked, steps},
    },
  )
}

/** What went wrong first, and what became of the stack; `doubt`: what of the code is not as it was. */
export function deployFailed(stack: string, events: readonly StackEvent[], end: StackEvent, doubt?: string): ZaelError {
  const first = firstFailure(events)
  const what = first
    ? `${first.logicalId} (${first.type}): ${first.reason ?? first.status}`
    : (end.reason ?? end.status)
  const isGone = end.status === 'ROLLBACK_COMPLETE' || end.status === 'DELETE_COMPLETE'
  const but = doubt === undefined ? '' : `, but ${doubt}. Upload its code again: zael deploy --stack ${stack}`
  const became = isGone
    ? 'Nothing of it is left but its record.'
    : end.status === 'UPDATE_ROLLBACK_COMPLETE'
      ? `Everything is as it was before${but}.`
      : `The stack is ${end.status}${but}.`
  // The stack's own ARN tells where it is.
  const [, , , region = 'REGION'] = end.physicalId?.split(':') ?? []
  const isOfIam = first?.type.startsWith('AWS::IAM::') && isNameTaken(first.reason ?? '')
  return new ZaelError('failed', 'deploy.failed', `Stack "${stack}" could not be deployed. ${what}`, {
    hint: isOfIam ? `${became} ${otherNamesHint(region)}` : `${became} Mend that, then run the same command again.`,
    details: {
      stack,
      status: end.status,
      resource: first?.logicalId ?? null,
      resourceType: first?.type ?? null,
      reason: first?.reason ?? end.reason,
    },
  })
}
