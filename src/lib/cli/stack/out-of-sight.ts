import {ZaelError} from '../../core/errors.js'

/** What goes on without anybody watching, and how to look after it. */
interface Unwatched {
  readonly code: string
  /** "CloudFormation goes on …", such as `with stack "prod"`. */
  readonly goesOn: string
  readonly hint: string
  readonly stack: string
}

/** An error for somebody who lost sight of a stack that changes; any other error as it is. */
export function outOfSight(error: unknown, {code, goesOn, hint, stack}: Unwatched): unknown {
  if (!(error instanceof ZaelError) || error.code !== 'stack.out-of-sight') return error
  const {kind, message, details, cause} = error
  const said = `CloudFormation goes on ${goesOn} by itself, but cannot be watched any more. ${message}`
  return new ZaelError(kind, code, said, {hint, details: {stack, ...details}, cause})
}
