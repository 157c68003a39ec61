import {ZaelError} from '../../core/errors.js'

/** Error names for a change set that another deployment has made obsolete. */
const OVERTAKEN = /^(ChangeSetNotFound|InvalidChangeSetStatus)(Exception)?$/

/** Error messages for a stack that another deployment is changing, or has created in the meantime. */
const BUSY = /is in \w+_IN_PROGRESS state and can ?not be|already exists and cannot be created again with the changeSet/

/** Converts an error into a conflict if another deployment or stack caused it; returns other errors as they are. */
export function asConflict(stack: string, region: string, error: unknown): unknown {
  const {name = '', message = ''} = error instanceof Error ? error : {}
  if (OVERTAKEN.test(name) || (name === 'ValidationError' && BUSY.test(message)))
    return overtaken(stack, message, error)
  return /^EntityAlreadyExists/.test(name) ? nameTaken(stack, region, message, error) : error
}

export function isNameTaken(reason: string): boolean {
  return /already ?exists|ResourceExistenceCheck/i.test(reason)
}

/** IAM has no regions: stacks of the same name in two regions have the same role and policy names. */
export function otherNamesHint(region: string): string {
  const format = `"{}-${region}"`
  return (
    'Names of roles and policies are unique in the account. If another region has a stack of this name, add ' +
    `--role-name-format ${format} --policy-name-format ${format}; see docs/deploying.md#one-name-in-several-regions`
  )
}

function overtaken(stack: string, reason: string, cause: unknown): ZaelError {
  return new ZaelError('conflict', 'deploy.overtaken', `Another deployment is changing stack "${stack}": ${reason}`, {
    hint:
      'Your plan was not executed. Wait until the other deployment is done, then run the same command again: ' +
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
