/**
 * The kind of a failure. `negative`: the operation succeeded and its answer is no, such as a refusal. `interrupted` and
 * `terminated`: by a signal, in commands only.
 */
export type ErrorKind =
  | 'failed'
  | 'usage'
  | 'notFound'
  | 'access'
  | 'conflict'
  | 'negative'
  | 'interrupted'
  | 'terminated'

export interface ZaelErrorOptions {
  /** The next step, in one sentence. */
  hint?: string
  /** Plain data for `--json` and for programs; never secrets. */
  details?: Record<string, unknown>
  cause?: unknown
}

/** Base of every expected failure. `code` is stable and dotted, such as `limit.syntax` or `table.missing`. */
export class ZaelError extends Error {
  readonly code: string
  readonly kind: ErrorKind
  readonly hint: string | undefined
  readonly details: Record<string, unknown>

  constructor(kind: ErrorKind, code: string, message: string, options: ZaelErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : {cause: options.cause})
    this.name = new.target.name
    this.kind = kind
    this.code = code
    this.hint = options.hint
    this.details = options.details ?? {}
  }
}

type ErrorChange = {[Part in 'kind' | 'code' | 'message' | keyof ZaelErrorOptions]?: ZaelError[Part] | undefined}

/** The same error, except for the parts given. `undefined` keeps a part. */
export function changedError(error: ZaelError, change: ErrorChange): ZaelError {
  const {kind = error.kind, code = error.code, message = error.message, hint = error.hint} = change
  const {details = error.details, cause = error.cause} = change
  return new ZaelError(kind, code, message, {...(hint !== undefined && {hint}), details, cause})
}

/** Makes an error without a stack. Capturing one takes longer than the decision that throws the error. */
export function withoutStack<E extends Error>(make: () => E): E {
  const {stackTraceLimit} = Error
  Error.stackTraceLimit = 0
  try {
    return make()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** For `catch`: a value in place of the errors that `isExpected` accepts. Throws all others again. */
export const valueIf =
  <T>(isExpected: (error: unknown) => boolean, value: T) =>
  (error: unknown): T => {
    if (isExpected(error)) return value
    throw error
  }

/** Like `valueIf`, for errors of these classes. */
export const valueFor = <T>(classes: readonly (abstract new (...args: never[]) => Error)[], value: T) =>
  valueIf(error => classes.some(each => error instanceof each), value)

/** Invalid input. Nothing was read or written. */
export class InvalidInput extends ZaelError {
  constructor(code: string, message: string, options: ZaelErrorOptions = {}) {
    super('usage', code, message, options)
  }
}
