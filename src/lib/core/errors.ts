/** Exit codes of the command line, by kind of outcome. A stable interface: scripts branch on them. */
export const EXIT = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 3,
  access: 4,
  conflict: 5,
  /** The command worked and its answer is no: refused, unhealthy, different, not clean. */
  negative: 6,
  interrupted: 130,
  terminated: 143,
} as const

/** What a failure means to the caller; decides the exit code. */
export type ErrorKind = Exclude<keyof typeof EXIT, 'ok'>

export interface ZaelErrorOptions {
  /** What to run or change next, in one sentence. */
  hint?: string
  /** Plain data for `--json` and for programs; never secrets. */
  details?: Record<string, unknown>
  cause?: unknown
}

/**
 * Base of every expected failure; any other error that escapes is a bug.
 * `code` is stable and dotted (`limit.syntax`, `table.missing`); the message tells what happened and why, `hint` what to do.
 */
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

  get exitCode(): number {
    return EXIT[this.kind]
  }
}

/**
 * Makes an error without a stack. For errors that are outcomes and come often: capturing a stack takes longer than the
 * decision, and shows nothing but this package.
 */
export function withoutStack<E extends Error>(make: () => E): E {
  const {stackTraceLimit} = Error
  Error.stackTraceLimit = 0
  try {
    return make()
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

/** Bad input: nothing was read or written. */
export class InvalidInput extends ZaelError {
  constructor(code: string, message: string, options: ZaelErrorOptions = {}) {
    super('usage', code, message, options)
  }
}
