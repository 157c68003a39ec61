import {ZaelError} from '../core/errors.js'
import type {Item} from '../schema/attribute-value.js'

function detailOf(cause: unknown): string {
  if (!(cause instanceof Error)) return ''
  // The SDK appends developer advice on further lines and prefixes module names.
  const message = cause.message.split('\n', 1)[0]?.replace(/^@smithy\/\S+ - (\[ERROR\] )?/, '')
  return message ? `: ${message}` : ''
}

/** A conditional write was refused; nothing was written. */
export class ConditionFailed extends ZaelError {
  /**
   * The stored item, when the request asked for it with ReturnValuesOnConditionCheckFailure and there is one.
   *
   * @internal
   */
  readonly oldItem: Item | undefined

  /** @internal */
  constructor(operation: string, oldItem?: Item, cause?: unknown) {
    super('conflict', 'dynamo.condition', `${operation} was not applied: the stored item does not meet its condition`, {
      hint: 'Read the item again and retry; another client may have changed it.',
      details: {operation},
      cause,
    })
    this.oldItem = oldItem
  }
}

/** Why one item cancelled a transaction; `None` for the items that did not. */
export interface CancellationReason {
  code: string
  message: string | undefined
  /** @internal */
  oldItem: Item | undefined
}

const THROTTLING_REASONS = new Set(['ThrottlingError', 'ProvisionedThroughputExceeded', 'RequestLimitExceeded'])

/** Nothing of the transaction was applied. `reasons` are in the order of its items. */
export class TransactionCancelled extends ZaelError {
  readonly reasons: readonly CancellationReason[]

  constructor(operation: string, reasons: readonly CancellationReason[], cause?: unknown) {
    const codes = reasons.map(reason => reason.code)
    super('conflict', 'dynamo.cancelled', `${operation} was cancelled, nothing was applied (${codes.join(', ')})`, {
      hint: 'Read the items again and retry; another client may have changed them.',
      details: {operation, reasons: codes},
      cause,
    })
    this.reasons = reasons
  }

  get hasConditionFailure(): boolean {
    return this.reasons.some(reason => reason.code === 'ConditionalCheckFailed')
  }

  get hasConflict(): boolean {
    return this.reasons.some(reason => reason.code === 'TransactionConflict')
  }

  /** Only throttling cancelled the transaction. */
  get isThrottling(): boolean {
    return this.#isCancelledOnlyBy(code => THROTTLING_REASONS.has(code))
  }

  /** Only throttling or other transactions cancelled it: a retry may succeed. */
  get isPassing(): boolean {
    return this.#isCancelledOnlyBy(code => code === 'TransactionConflict' || THROTTLING_REASONS.has(code))
  }

  #isCancelledOnlyBy(isCause: (code: string) => boolean): boolean {
    const causes = this.reasons.filter(({code}) => code !== 'None')
    return causes.length > 0 && causes.every(({code}) => isCause(code))
  }
}

/** A request conflicted with a transaction in flight on the same item; nothing was written. */
export class TransactionConflict extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('conflict', 'dynamo.conflict', `${operation} conflicted with another write in flight on the same item`, {
      hint: 'Try again in a moment.',
      details: {operation},
      cause,
    })
  }
}

/** DynamoDB throttled the request; nothing was written. */
export class Throttled extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('failed', 'dynamo.throttled', `DynamoDB is throttling ${operation}${detailOf(cause)}`, {
      hint: 'Try again later; if it persists, check the capacity of the table and look for a hot key.',
      details: {operation},
      cause,
    })
  }
}

/** DynamoDB was unreachable, or did not respond in time. */
export class Unavailable extends ZaelError {
  /** The request is a write and may have been applied without a response. */
  readonly maybeApplied: boolean

  constructor(operation: string, maybeApplied: boolean, cause?: unknown) {
    const ending = maybeApplied ? '; it may or may not have been applied' : ''
    super('failed', 'dynamo.unavailable', `DynamoDB did not answer ${operation}${detailOf(cause)}${ending}`, {
      hint: 'Check the network, the region and the endpoint, then try again.',
      details: {operation, maybeApplied},
      cause,
    })
    this.maybeApplied = maybeApplied
  }
}

/** Credentials are missing, expired or lack permissions. */
export class Denied extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    const skewed = /signature (expired|not yet current)/i.test(detailOf(cause))
    const isAnonymous = cause instanceof Error && /^(Credentials|Token)ProviderError$/.test(cause.name)
    const reason = isAnonymous ? `Cannot ${operation} without valid AWS credentials` : `Not allowed to ${operation}`
    super('access', 'dynamo.denied', `${reason}${detailOf(cause)}`, {
      hint: isAnonymous
        ? 'Choose a profile with --profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.'
        : skewed
          ? 'Synchronize the clock of this machine: AWS rejects requests with a wrong time.'
          : 'Check the AWS profile or credentials in use and their permissions on the table.',
      details: {operation},
      cause,
    })
  }
}

/** Credentials cannot be loaded or have expired. To a limiter this is an outage: they may return. */
export class CredentialsUnavailable extends Denied {}

/** A proxy responded instead of AWS and blocks requests: a wrong setting, never an outage. */
export class BlockedByProxy extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('failed', 'aws.proxy', `${operation} failed${detailOf(cause)}`, {
      hint: 'Use a network without a proxy, or ask your administrator to allow the AWS host names.',
      details: {operation},
      cause,
    })
  }
}

/** The server's certificate is not trusted: a wrong setting or a proxy, never an outage. */
export class CertificateRefused extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    const {code = ''} = (cause ?? {}) as {code?: string}
    super(
      'failed',
      'aws.certificate',
      `The certificate of the server is not trusted for ${operation}${detailOf(cause)}`,
      {
        hint: CERTIFICATE_HINTS[code] ?? OWN_AUTHORITY,
        details: {operation, reason: code},
        cause,
      },
    )
  }
}

const OWN_AUTHORITY =
  'If a proxy of your network inspects connections, trust its certificate authority: export NODE_EXTRA_CA_CERTS=/path/to/ca.pem'

const CERTIFICATE_HINTS: Readonly<Record<string, string>> = {
  SELF_SIGNED_CERT_IN_CHAIN: OWN_AUTHORITY,
  DEPTH_ZERO_SELF_SIGNED_CERT: OWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: OWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: OWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: OWN_AUTHORITY,
  CERT_UNTRUSTED: OWN_AUTHORITY,
  CERT_HAS_EXPIRED: 'Check the clock of this machine. If it is right, the certificate must be renewed.',
  CERT_NOT_YET_VALID: 'Check the clock of this machine.',
  ERR_TLS_CERT_ALTNAME_INVALID:
    'The certificate belongs to another host. Check --endpoint-url, the name server and proxies.',
}

export function isCertificateCode(code: string | undefined): boolean {
  return code !== undefined && code in CERTIFICATE_HINTS
}

/** The table does not exist. */
export class TableMissing extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('notFound', 'table.missing', `The table of ${operation} does not exist${detailOf(cause)}`, {
      hint: 'Check the stack name, the region and the endpoint, or deploy the stack first.',
      details: {operation},
      cause,
    })
  }
}

/** DynamoDB rejects the request as invalid: bad input or a bug, never an outage. */
export class ValidationFailed extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('failed', 'dynamo.validation', `DynamoDB does not accept this ${operation}${detailOf(cause)}`, {
      hint: 'A retry will not help; if the input looks right, please report this as a bug.',
      details: {operation},
      cause,
    })
  }
}

export function isInvalid(error: unknown): error is ValidationFailed | TransactionCancelled {
  if (error instanceof TransactionCancelled) return error.reasons.some(({code}) => code === 'ValidationError')
  return error instanceof ValidationFailed
}

/** The table's state does not allow the request: in use, too many changes at once, collection full. */
export class Conflict extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('conflict', 'table.conflict', `The state of the table does not allow ${operation} now${detailOf(cause)}`, {
      hint: 'Wait until the table is active and other changes are done, then try again.',
      details: {operation},
      cause,
    })
  }
}

/** The caller's signal aborted the request. */
export class Aborted extends ZaelError {
  /** The request is a write and was already sent. */
  readonly maybeApplied: boolean

  constructor(operation: string, maybeApplied: boolean, cause?: unknown) {
    const ending = maybeApplied ? '; it may or may not have been applied' : ''
    super('failed', 'dynamo.aborted', `${operation} was stopped${ending}`, {details: {operation, maybeApplied}, cause})
    this.maybeApplied = maybeApplied
  }
}

/** No region is configured, or not a valid one. */
export class RegionMissing extends ZaelError {
  constructor(cause?: unknown) {
    super('failed', 'aws.region', 'No usable AWS region is configured', {
      hint: 'Pass --region, set AWS_REGION, or choose a profile that has a region.',
      cause,
    })
  }
}

/** An unknown failure; `cause` is the original. */
export class RequestFailed extends ZaelError {
  constructor(operation: string, cause?: unknown) {
    super('failed', 'dynamo.failed', `${operation} failed${detailOf(cause)}`, {details: {operation}, cause})
  }
}

/** Bugs and refusals never count as an outage (D-34). */
export function isUnavailability(error: unknown): error is Throttled | Unavailable {
  return error instanceof Throttled || error instanceof Unavailable
}

/** The table is unavailable, or the credentials are. */
export function isOutage(error: unknown): error is ZaelError {
  return isUnavailability(error) || error instanceof CredentialsUnavailable
}

/** Nothing was applied and a retry may succeed: safe for every request. */
export function isRetryable(error: unknown): boolean {
  if (error instanceof Unavailable) return !error.maybeApplied
  if (error instanceof TransactionCancelled) return error.isPassing
  return error instanceof Throttled || error instanceof TransactionConflict
}

/** Also true if the request may have been applied: only for idempotent requests. */
export function isRetryableWhenIdempotent(error: unknown): boolean {
  return error instanceof Unavailable || isRetryable(error)
}
