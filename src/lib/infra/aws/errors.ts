import {ZaelError} from '../../core/errors.js'

/** What an error of an SDK client may carry; every field is a guess until looked at. */
interface Evidence {
  readonly name?: string
  readonly message?: string
  readonly code?: string
  readonly $metadata?: {readonly httpStatusCode?: number}
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

/** Does something on AWS; what goes wrong tells what was being done, in words such as `read stack "prod"`. */
export async function callAws<T>(doing: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw toZaelError(error, doing)
  }
}

/** Any failure of an AWS call as a member of the family. */
export function toZaelError(error: unknown, doing: string): ZaelError {
  if (error instanceof ZaelError) return error
  const evidence: Evidence = typeof error === 'object' && error !== null ? error : {}
  const {name = '', code = '', $metadata: {httpStatusCode: status = 0} = {}} = evidence
  const said = sayingOf(evidence)
  const failed = (kind: 'failed' | 'access' | 'conflict', id: string, message: string, hint: string) =>
    new ZaelError(kind, id, message, {hint, details: {doing, service: name || null}, cause: error})

  if (/^Region (is missing|not accepted)/.test(said)) {
    const hint = 'Pass --region, set AWS_REGION, or choose a profile that has a region.'
    return failed('failed', 'aws.region', `Cannot ${doing}: no usable AWS region is configured`, hint)
  }
  if (/signature (expired|not yet current)/i.test(said) || name === 'RequestTimeTooSkewed') {
    const hint = 'Set the clock of this machine: requests are signed with the time.'
    return failed('access', 'aws.clock', `Cannot ${doing}: ${said}`, hint)
  }
  if (DENIED.has(name)) return denied(said, doing, error)
  if (CREDENTIALS.has(name)) {
    const hint =
      'Choose a profile with --profile, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; `aws sts get-caller-identity` shows who you are.'
    return failed('access', 'aws.credentials', `Cannot ${doing}: no valid AWS credentials: ${said}`, hint)
  }
  if (THROTTLED.has(name) || status === 429) {
    const hint = 'Wait a minute, then run the same command again: it goes on where it stopped.'
    return failed('failed', 'aws.throttled', `Cannot ${doing}: AWS refuses so many requests: ${said}`, hint)
  }
  if (name === 'LimitExceededException' || name === 'LimitExceeded' || name === 'ServiceQuotaExceededException') {
    const hint = 'Remove what is not needed, or ask for a higher quota in the Service Quotas console.'
    return failed('failed', 'aws.quota', `Cannot ${doing}: a quota of the account is used up: ${said}`, hint)
  }
  if (NETWORK.has(code) || name === 'TimeoutError' || status >= 500) {
    const hint = 'Check the network, the spelling of the region and --endpoint-url, then try again.'
    return failed('failed', 'aws.unavailable', `Cannot ${doing}: AWS gives no answer: ${said}`, hint)
  }
  if (status === 401 || status === 403) return denied(said, doing, error)
  return failed(
    'failed',
    'aws.failed',
    `Cannot ${doing}: ${said}`,
    'Run again with ZAEL_DEBUG=1 to see the whole answer.',
  )
}

/** Names the missing action when the service does; which it does for most. */
function denied(said: string, doing: string, cause: unknown): ZaelError {
  const action = /not authorized to perform:?\s+([\w-]+:\w+)/.exec(said)?.[1] ?? null
  const needed = action === null ? `the permission to ${doing}` : action
  return new ZaelError('access', 'aws.denied', `Not allowed to ${doing}: ${said}`, {
    hint: `Ask for ${needed}, or choose another identity with --profile; \`zael doctor\` checks all that is needed.`,
    details: {doing, action},
    cause,
  })
}

/** The SDK appends advice for its own developers on further lines and names its modules in front. */
function sayingOf({message, name, code, $metadata}: Evidence): string {
  const said = message?.split('\n', 1)[0]?.replace(/^@smithy\/\S+ - (\[ERROR\] )?/, '')
  // The SDK's word for an answer without words, such as that of a proxy.
  const hasWords = said !== undefined && !/^(|Unknown|UnknownError)$/.test(said)
  return hasWords ? said : code || `HTTP status ${$metadata?.httpStatusCode ?? name ?? 'unknown'}`
}
