import {valueFor, valueIf, ZaelError} from '../../core/errors.js'
import {
  Aborted,
  CertificateRefused,
  Denied,
  isCertificateCode,
  RequestFailed,
  ValidationFailed,
} from '../../dynamo/errors.js'

interface SdkError {
  readonly name?: string
  readonly message?: string
  readonly code?: string
  readonly hostname?: string
  readonly $metadata?: {readonly httpStatusCode?: number}
  readonly $response?: {readonly statusCode?: number; readonly headers?: Readonly<Record<string, string>>}
}

const CREDENTIALS = new Set(
  `CredentialsProviderError TokenProviderError InvalidClientTokenId UnrecognizedClientException ExpiredToken
  ExpiredTokenException InvalidAccessKeyId AuthFailure MissingAuthenticationToken SignatureDoesNotMatch
  InvalidSignatureException IncompleteSignature`.split(/\s+/),
)
const DENIED = new Set(
  'AccessDenied AccessDeniedException UnauthorizedOperation AuthorizationError OptInRequired'.split(' '),
)
const THROTTLED = new Set(
  'Throttling ThrottlingException ThrottledException TooManyRequestsException RequestLimitExceeded SlowDown'.split(' '),
)
const NETWORK = new Set(
  `ECONNREFUSED ECONNRESET ECONNABORTED EPIPE ETIMEDOUT ENOTFOUND EAI_AGAIN EHOSTUNREACH ENETUNREACH ENETDOWN
  EADDRNOTAVAIL`.split(/\s+/),
)

/** `doing` completes "Cannot …" in error messages, such as `read stack "prod"`. */
export async function callAws<T>(doing: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    throw toZaelError(error, doing)
  }
}

export async function collected<Page, T>(
  pages: AsyncIterable<Page>,
  elementsOf: (page: Page) => readonly T[] | undefined,
): Promise<T[]> {
  const all: T[] = []
  for await (const page of pages) all.push(...(elementsOf(page) ?? []))
  return all
}

/** `undefined`: Lambda has no such function or event source mapping. */
export async function callUnlessMissing<T>(doing: string, call: () => Promise<T>): Promise<T | undefined> {
  const isMissing = (error: unknown) => error instanceof Error && error.name === 'ResourceNotFoundException'
  return callAws(doing, () => call().catch(valueIf(isMissing, undefined)))
}

/** `null`: the engine does not support the operation, or the caller may not use it. */
export function unlessRefused<T>(read: () => Promise<T>): Promise<T | null> {
  return read().catch(valueFor([Denied, ValidationFailed, RequestFailed], null))
}

export function toZaelError(error: unknown, doing: string): ZaelError {
  if (error instanceof ZaelError) return error
  const sdkError: SdkError = typeof error === 'object' && error !== null ? error : {}
  const {name = '', code = '', $metadata: {httpStatusCode: status = 0} = {}} = sdkError
  if (isCertificateCode(code)) return new CertificateRefused(`the request to ${doing}`, error)
  if (name === 'AbortError') return new Aborted(`The request to ${doing}`, false, error)
  const reason = reasonOf(sdkError)
  const failed = (kind: 'failed' | 'access' | 'conflict', id: string, message: string, hint: string) =>
    new ZaelError(kind, id, message, {hint, details: {doing, service: name || null}, cause: error})

  if (/^Region (is missing|not accepted)/.test(reason)) {
    const hint = 'Pass --region, set AWS_REGION, or choose a profile that has a region.'
    return failed('failed', 'aws.region', `Cannot ${doing}: no usable AWS region is configured`, hint)
  }
  if (/signature (expired|not yet current)/i.test(reason) || name === 'RequestTimeTooSkewed') {
    const hint = 'Synchronize the clock of this machine: AWS rejects requests with a wrong time.'
    return failed('access', 'aws.clock', `Cannot ${doing}: ${reason}`, hint)
  }
  if (DENIED.has(name)) return denied(reason, doing, error)
  if (CREDENTIALS.has(name)) {
    const hint = /expired/i.test(reason)
      ? 'Log in again (aws sso login), or get new credentials. `aws sts get-caller-identity` shows your identity.'
      : 'Choose a profile with --profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. `aws sts get-caller-identity` shows your identity.'
    return failed('access', 'aws.credentials', `Cannot ${doing}: no valid AWS credentials: ${reason}`, hint)
  }
  if (THROTTLED.has(name) || status === 429) {
    const hint = 'Wait a minute, then run the same command again to resume.'
    return failed('failed', 'aws.throttled', `Cannot ${doing}: AWS throttled the requests: ${reason}`, hint)
  }
  if (name === 'LimitExceededException' || name === 'LimitExceeded' || name === 'ServiceQuotaExceededException') {
    const hint = 'Delete unused resources, or request a higher quota in the Service Quotas console.'
    return failed('failed', 'aws.quota', `Cannot ${doing}: a quota of the account is exhausted: ${reason}`, hint)
  }
  if (isFromProxy(sdkError, status)) {
    const answer = `HTTP status ${sdkError.$response?.statusCode ?? status}`
    const hint = 'Use a network without a proxy, or ask your administrator to allow the AWS host names.'
    const message = `Cannot ${doing}: a proxy or a web page responded instead of AWS (${answer})`
    return failed('failed', 'aws.proxy', message, hint)
  }
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') {
    const host = sdkError.hostname ?? reason
    const hint = `Check the region and --endpoint-url. Then check the network: nslookup ${host}`
    return failed('failed', 'aws.unavailable', `Cannot ${doing}: the host ${host} was not found (${code})`, hint)
  }
  if (NETWORK.has(code) || name === 'TimeoutError' || status >= 500) {
    const hint = 'Check the network, the region and --endpoint-url, then try again.'
    return failed('failed', 'aws.unavailable', `Cannot ${doing}: AWS did not respond: ${reason}`, hint)
  }
  if (status === 401 || status === 403) return denied(reason, doing, error)
  const hint = 'Run again with ZAEL_DEBUG=1 to see the full response.'
  return failed('failed', 'aws.failed', `Cannot ${doing}: ${reason}`, hint)
}

/** AWS responds with XML or JSON, and never with 407. */
function isFromProxy({$response}: SdkError, status: number): boolean {
  return status === 407 || /^text\/html/.test($response?.headers?.['content-type'] ?? '')
}

function denied(reason: string, doing: string, cause: unknown): ZaelError {
  const action = /not authorized to perform:?\s+([\w-]+:\w+)/.exec(reason)?.[1] ?? null
  const needed = action === null ? `the permission to ${doing}` : action
  return new ZaelError('access', 'aws.denied', `Not allowed to ${doing}: ${reason}`, {
    hint: `Request ${needed}, or choose another identity with --profile. \`zael doctor\` checks all permissions.`,
    details: {doing, action},
    cause,
  })
}

/** Later lines of a message are advice for SDK developers. */
function reasonOf({message, name, code, $metadata}: SdkError): string {
  const reason = message?.split('\n', 1)[0]?.replace(/^@smithy\/\S+ - (\[ERROR\] )?/, '')
  // The SDK uses these for a response without a message, such as a proxy's.
  const isKnown = reason !== undefined && !/^(|Unknown|UnknownError)$/.test(reason)
  return isKnown ? reason : code || `HTTP status ${$metadata?.httpStatusCode ?? name ?? 'unknown'}`
}
