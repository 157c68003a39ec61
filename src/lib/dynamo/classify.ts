import {withoutStack, ZaelError} from '../core/errors.js'
import type {Item} from '../schema/attribute-value.js'
import {
  Aborted,
  BlockedByProxy,
  CertificateRefused,
  ConditionFailed,
  Conflict,
  CredentialsUnavailable,
  Denied,
  isCertificateCode,
  RegionMissing,
  RequestFailed,
  TableMissing,
  Throttled,
  TransactionCancelled,
  TransactionConflict,
  Unavailable,
  ValidationFailed,
} from './errors.js'
import {isRead, type Operation} from './transport.js'

interface Evidence {
  name?: string
  message?: string
  code?: string
  syscall?: string
  errors?: Evidence[]
  $metadata?: {httpStatusCode?: number}
  $response?: {headers?: Readonly<Record<string, string>>}
  contentType?: string
  Item?: Item
  CancellationReasons?: {Code?: string; Message?: string; Item?: Item}[]
}

interface ClassifyContext {
  signal?: AbortSignal | undefined
  /** False while credentials or region were being resolved. */
  sent?: boolean
}

type Make = new (operation: string, cause?: unknown) => ZaelError

const BY_NAME: ReadonlyMap<string, Make> = new Map(
  (
    [
      [
        TransactionConflict,
        'TransactionConflictException TransactionInProgressException ReplicatedWriteConflictException',
      ],
      [Throttled, 'ProvisionedThroughputExceededException RequestLimitExceeded ThrottlingException Throttling'],
      [Throttled, 'ThrottledException RequestThrottledException TooManyRequestsException SlowDown'],
      [Denied, 'AccessDeniedException AccessDenied UnrecognizedClientException InvalidClientTokenId'],
      [Denied, 'InvalidSignatureException IncompleteSignatureException'],
      [Denied, 'SignatureDoesNotMatch MissingAuthenticationTokenException MissingAuthenticationToken OptInRequired'],
      [CredentialsUnavailable, 'CredentialsProviderError TokenProviderError ExpiredTokenException ExpiredToken'],
      [TableMissing, 'ResourceNotFoundException TableNotFoundException'],
      [ValidationFailed, 'ValidationException SerializationException IdempotentParameterMismatchException'],
      [Conflict, 'ItemCollectionSizeLimitExceededException LimitExceededException ResourceInUseException'],
      [Conflict, 'TableInUseException TableAlreadyExistsException'],
    ] as const
  ).flatMap(([make, names]) => names.split(' ').map((name): [string, Make] => [name, make])),
)

const OUTAGE_NAMES = new Set(['InternalServerError', 'InternalFailure', 'ServiceUnavailable', 'TimeoutError'])

// Excludes certificate and protocol errors, which mean wrong settings, not outages.
const NETWORK_CODES = new Set(
  `ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ESHUTDOWN ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH EHOSTDOWN ENETUNREACH
  ENETDOWN EADDRNOTAVAIL ERR_STREAM_PREMATURE_CLOSE ERR_NOT_HTTP`.split(/\s+/),
)

/** Checks responses of the service first: they are certain even if a signal fired too. */
export function classifyError(error: unknown, operation: Operation, context: ClassifyContext = {}): ZaelError {
  if (error instanceof ZaelError) return error
  const evidence: Evidence = typeof error === 'object' && error !== null ? error : {}
  const name = evidence.name ?? ''

  if (name === 'ConditionalCheckFailedException')
    return withoutStack(() => new ConditionFailed(operation, evidence.Item, error))
  if (name === 'TransactionCanceledException') return cancelled(evidence, operation, error)
  const Known = BY_NAME.get(name)
  if (Known !== undefined) return new Known(operation, error)
  if (/^Region (is missing|not accepted)/.test(evidence.message ?? '')) return new RegionMissing(error)
  if (isCertificateCode(evidence.code)) return new CertificateRefused(operation, error)

  const maybeApplied = !isRead(operation) && context.sent !== false && !neverConnected(evidence)
  if (context.signal?.aborted === true) {
    const {reason} = context.signal
    const isDeadline = reason instanceof Error && reason.name === 'TimeoutError'
    return new (isDeadline ? Unavailable : Aborted)(operation, maybeApplied, error)
  }
  if (OUTAGE_NAMES.has(name) || isNetworkCode(evidence.code)) return new Unavailable(operation, maybeApplied, error)
  const status = evidence.$metadata?.httpStatusCode ?? 0
  if (isWebPage(evidence, status)) return fromProxy(status, operation, maybeApplied, error)
  return byStatus(status, operation, maybeApplied, error)
}

function cancelled(evidence: Evidence, operation: Operation, cause: unknown): ZaelError {
  const reasons = (evidence.CancellationReasons ?? []).map(reason => ({
    code: reason.Code ?? 'None',
    message: reason.Message,
    oldItem: reason.Item,
  }))
  const failure = new TransactionCancelled(operation, reasons, cause)
  return failure.isThrottling ? new Throttled(operation, cause) : failure
}

/** For responses without a known name, such as those of a proxy or load balancer. */
function byStatus(status: number, operation: Operation, maybeApplied: boolean, cause: unknown): ZaelError {
  if (status === 429) return new Throttled(operation, cause)
  if (status === 401 || status === 403) return new Denied(operation, cause)
  // An unreadable success is a lost response.
  if (status >= 500 || (status >= 200 && status < 300)) return new Unavailable(operation, maybeApplied, cause)
  return new RequestFailed(operation, cause)
}

/** DynamoDB responds in JSON and never asks for proxy credentials. */
function isWebPage({$response, contentType}: Evidence, status: number): boolean {
  return status === 407 || /^text\/html/.test(contentType ?? $response?.headers?.['content-type'] ?? '')
}

/** A page about an outage counts as an outage. A page that forbids access or asks for a login does not. */
function fromProxy(status: number, operation: Operation, maybeApplied: boolean, cause: unknown): ZaelError {
  const reason = `a proxy or a web page responded instead of AWS (HTTP status ${status})`
  const explained = new Error(reason, {cause})
  const isOutage = status >= 500 || (status >= 200 && status < 300)
  return isOutage ? new Unavailable(operation, maybeApplied, explained) : new BlockedByProxy(operation, explained)
}

function isNetworkCode(code: string | undefined): boolean {
  return code !== undefined && (NETWORK_CODES.has(code) || code.startsWith('HPE_'))
}

/** Refused, unresolved or timed out while connecting: nothing was sent. */
function neverConnected(evidence: Evidence): boolean {
  const {syscall, message} = evidence.errors?.[0] ?? evidence
  return (
    syscall === 'connect' || syscall === 'getaddrinfo' || message?.includes('did not establish a connection') === true
  )
}
