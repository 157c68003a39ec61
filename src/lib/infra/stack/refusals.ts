import {ZaelError} from '../../core/errors.js'
import type {DeployedStack} from './reader.js'

/** Throws unless the stack belongs to zael. */
export function checkOwner(stack: DeployedStack): void {
  if (stack.owner === 'zae-limiter') throw pythonStack(stack)
  if (stack.owner === 'other') throw foreignStack(stack)
}

/** CloudFormation allows one change at a time, and none in some states. */
export function unusableStack({name, status}: DeployedStack): ZaelError {
  const hint = status.endsWith('_IN_PROGRESS')
    ? `Wait until it is done, then run the same command again: zael status --stack ${name}`
    : status === 'UPDATE_ROLLBACK_FAILED'
      ? `Finish its rollback first: aws cloudformation continue-update-rollback --stack-name ${name}`
      : `Delete what is left of it first; the table is kept: zael delete --stack ${name}`
  return new ZaelError('conflict', 'stack.state', `Stack "${name}" is ${status} and cannot be changed now.`, {
    hint,
    details: {stack: name, status},
  })
}

function foreignStack({name, status}: DeployedStack): ZaelError {
  const message = `There is a stack "${name}" (${status}) that is not a rate limiter.`
  return new ZaelError('conflict', 'stack.foreign', message, {
    hint: 'Nothing was changed. Choose another name with --stack, or another --region or --profile.',
    details: {stack: name},
  })
}

/** A stack of the Python tool has another template: an update would remove its resources. */
function pythonStack({name}: DeployedStack): ZaelError {
  return new ZaelError('conflict', 'stack.python', `Stack "${name}" was deployed by the Python tool (zae-limiter).`, {
    hint:
      'Nothing was changed. All commands on limits, entities and usage work with it as it is. ' +
      'To hand the stack over to zael, follow "Adopting a table of the Python tool" in docs/operations.md.',
    details: {stack: name},
  })
}
