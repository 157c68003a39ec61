import {ZaelError} from '../../core/errors.js'

/** What AWS calls a change set that another deployment has made worthless. */
const OVERTAKEN = /^(ChangeSetNotFound|InvalidChangeSetStatus)(Exception)?$/

/** The same of a stack that another deployment is changing. */
const BUSY = /is in \w+_IN_PROGRESS state and can ?not be/

/** A failed call of a deployment: in words of its own where something else is in its way, otherwise as it is. */
export function asConflict(stack: string, region: string, error: unknown): unknown {
  const {name = '', message = ''} = error instanceof Error ? error : {}
  if (OVERTAKEN.test(name) || (name === 'ValidationError' && BUSY.test(message)))
    return overtaken(stack, message, error)
  return /^EntityAlreadyExists/.test(name) ? nameTaken(stack, region, message, error) : error
}

/** Whether CloudFormation, or IAM through it, complains of a name that is in use. */
export function isNameTaken(reason: string): boolean {
  return /already ?exists|ResourceExistenceCheck/i.test(reason)
}

/** IAM has no regions: a stack of the same name in another one has the same roles and policies. */
export function otherNamesHint(region: string): string {
  const format = `"{}-${region}"`
  return (
    'Names of roles and policies are those of the whole account: beside a stack of this name in another region, add ' +
    `--role-name-format ${format} --policy-name-format ${format}; see docs/deploying.md#one-name-in-several-regions`
  )
}

function overtaken(stack: string, said: string, cause: unknown): ZaelError {
  return new ZaelError('conflict', 'deploy.overtaken', `Somebody else is deploying stack "${stack}": ${said}`, {
    hint:
      'Your plan was not carried out. Wait until theirs is done, then run the same command again, which plans anew: ' +
      `zael status --stack ${stack}`,
    details: {stack},
    cause,
  })
}

function nameTaken(stack: string, region: string, said: string, cause: unknown): ZaelError {
  return new ZaelError('conflict', 'deploy.name-taken', `Stack "${stack}" cannot be deployed: ${said}`, {
    hint: otherNamesHint(region),
    details: {stack, region},
    cause,
  })
}
