import {ZaelError} from '../../core/errors.js'

interface Unobserved {
  readonly code: string
  /** "CloudFormation continues …", such as `to delete stack "prod"`. */
  readonly continuing: string
  readonly hint: string
  readonly stack: string
}

/** Explains that a stack changes on although it can no longer be read; other errors unchanged. */
export function outOfSight(error: unknown, {code, continuing, hint, stack}: Unobserved): unknown {
  if (!(error instanceof ZaelError) || error.code !== 'stack.out-of-sight') return error
  const {kind, message, details, cause} = error
  const text = `CloudFormation continues ${continuing}, but its progress can no longer be read. ${message}`
  return new ZaelError(kind, code, text, {hint, details: {stack, ...details}, cause})
}
