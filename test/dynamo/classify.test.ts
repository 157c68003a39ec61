import {describe, expect, test} from 'vitest'
import {EXIT} from '../../src/lib/cli/output/exit.js'
import {InvalidInput} from '../../src/lib/core/errors.js'
import {classifyError} from '../../src/lib/dynamo/classify.js'
import {
  Aborted,
  CertificateRefused,
  ConditionFailed,
  Conflict,
  CredentialsUnavailable,
  Denied,
  isRetryable,
  isRetryableWhenIdempotent,
  isUnavailability,
  RegionMissing,
  RequestFailed,
  TableMissing,
  Throttled,
  TransactionCancelled,
  TransactionConflict,
  Unavailable,
  ValidationFailed,
} from '../../src/lib/dynamo/errors.js'

const named = (name: string, extra: object = {}) => Object.assign(new Error(`said ${name}`), {name, ...extra})
const coded = (code: string, extra: object = {}) => Object.assign(new Error(`said ${code}`), {code, ...extra})

describe('the classification of failures', () => {
  test.each([
    [named('ConditionalCheckFailedException'), ConditionFailed, 5],
    [named('TransactionCanceledException'), TransactionCancelled, 5],
    [named('TransactionConflictException'), TransactionConflict, 5],
    [named('TransactionInProgressException'), TransactionConflict, 5],
    [named('ProvisionedThroughputExceededException'), Throttled, 1],
    [named('AccessDeniedException'), Denied, 4],
    [named('CredentialsProviderError'), CredentialsUnavailable, 4],
    [named('ExpiredTokenException'), CredentialsUnavailable, 4],
    [named('ResourceNotFoundException'), TableMissing, 3],
    [named('ValidationException'), ValidationFailed, 1],
    [named('IdempotentParameterMismatchException'), ValidationFailed, 1],
    [named('ItemCollectionSizeLimitExceededException'), Conflict, 5],
    [named('LimitExceededException'), Conflict, 5],
    [named('ResourceInUseException'), Conflict, 5],
    [named('TimeoutError'), Unavailable, 1],
    [named('Gateway', {$metadata: {httpStatusCode: 502}}), Unavailable, 1],
    [coded('EPIPE'), Unavailable, 1],
    [coded('HPE_INVALID_CONSTANT'), Unavailable, 1],
    [new Error('Region is missing'), RegionMissing, 1],
    [new Error('Region not accepted: region="" is not a valid hostname component.'), RegionMissing, 1],
    [coded('SELF_SIGNED_CERT_IN_CHAIN'), CertificateRefused, 1],
    [new TypeError('a bug'), RequestFailed, 1],
    ['thrown by someone rude', RequestFailed, 1],
    [undefined, RequestFailed, 1],
  ])('%s', (error, expected, exitCode) => {
    const failure = classifyError(error, 'UpdateItem')
    expect(failure).toBeInstanceOf(expected)
    expect(EXIT[failure.kind]).toBe(exitCode)
    expect(failure.cause).toBe(error)
  })

  test.each([
    [200, 'DynamoDB did not answer GetItem: '],
    [407, 'GetItem failed: '],
  ])('names a web page with status %i', (httpStatusCode, words) => {
    const page = {$metadata: {httpStatusCode}, $response: {headers: {'content-type': 'text/html'}}}
    const {message} = classifyError(named('SyntaxError', {...page, message: "Unexpected token '<'"}), 'GetItem')
    expect(message).toBe(`${words}a proxy or a web page responded instead of AWS (HTTP status ${httpStatusCode})`)
  })

  test('returns our own errors unchanged', () => {
    const failure = new InvalidInput('x', 'y')
    expect(classifyError(failure, 'Query')).toBe(failure)
  })

  test('passes on the stored item of a failed condition', () => {
    const Item = {PK: {S: 'a'}}
    expect(classifyError(named('ConditionalCheckFailedException', {Item}), 'PutItem')).toMatchObject({oldItem: Item})
  })

  test('uses a response even if the signal fired too', () => {
    const failure = classifyError(named('ValidationException'), 'PutItem', {signal: AbortSignal.abort()})
    expect(failure).toBeInstanceOf(ValidationFailed)
  })

  test('reports a failure after the signal fired as the abort', () => {
    expect(classifyError(coded('ECONNRESET'), 'PutItem', {signal: AbortSignal.abort()})).toBeInstanceOf(Aborted)
  })

  test('treats a request whose connections were all refused as not sent', () => {
    const refused = coded('ECONNREFUSED', {syscall: 'connect'})
    const all = Object.assign(new AggregateError([refused, refused]), {code: 'ECONNREFUSED'})
    expect(classifyError(all, 'UpdateItem')).toMatchObject({maybeApplied: false})
  })

  test('treats a request that timed out while connecting as not sent, and a later timeout as possibly sent', () => {
    expect(classifyError(coded('ETIMEDOUT', {syscall: 'connect'}), 'PutItem')).toMatchObject({maybeApplied: false})
    expect(classifyError(coded('ETIMEDOUT', {syscall: 'read'}), 'PutItem')).toMatchObject({maybeApplied: true})
  })

  test('writes one-line messages without SDK jargon', () => {
    const jargon = named('TimeoutError', {message: '@smithy/node-http-handler - [ERROR] took too long.\n  Hint: look'})
    expect(classifyError(jargon, 'GetItem').message).toBe('DynamoDB did not answer GetItem: took too long.')
  })

  test('distinguishes missing credentials from missing permissions', () => {
    const anonymous = classifyError(
      named('CredentialsProviderError', {message: 'Could not load credentials'}),
      'GetItem',
    )
    expect(anonymous.message).toBe('Cannot GetItem without valid AWS credentials: Could not load credentials')
    expect(anonymous.hint).toContain('--profile')
  })

  test('points at the clock if a signature is refused for its time', () => {
    const skewed = named('InvalidSignatureException', {message: 'Signature expired: 20260101T000000Z is now earlier'})
    expect(classifyError(skewed, 'GetItem').hint).toContain('clock')
    expect(classifyError(named('InvalidSignatureException'), 'GetItem').hint).toContain('credentials')
  })
})

describe('D-34 outages and retryable failures', () => {
  const reason = (code: string) => ({code, message: undefined, oldItem: undefined})
  const cancelled = (...codes: string[]) => new TransactionCancelled('TransactWriteItems', codes.map(reason))
  test.each([
    [new Throttled('PutItem'), {outage: true, safe: true, idempotent: true}],
    [new Unavailable('PutItem', false), {outage: true, safe: true, idempotent: true}],
    [new Unavailable('PutItem', true), {outage: true, safe: false, idempotent: true}],
    [new TransactionConflict('PutItem'), {outage: false, safe: true, idempotent: true}],
    [cancelled('TransactionConflict', 'None'), {outage: false, safe: true, idempotent: true}],
    [cancelled('TransactionConflict', 'ThrottlingError'), {outage: false, safe: true, idempotent: true}],
    [cancelled('TransactionConflict', 'ConditionalCheckFailed'), {outage: false, safe: false, idempotent: false}],
    [cancelled('None'), {outage: false, safe: false, idempotent: false}],
    [new ConditionFailed('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new ValidationFailed('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new Denied('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new TableMissing('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new Conflict('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new Aborted('PutItem', false), {outage: false, safe: false, idempotent: false}],
    [new RequestFailed('PutItem'), {outage: false, safe: false, idempotent: false}],
    [new RangeError('a bug'), {outage: false, safe: false, idempotent: false}],
  ])('%s', (error, {outage, safe, idempotent}) => {
    expect(isUnavailability(error)).toBe(outage)
    expect(isRetryable(error)).toBe(safe)
    expect(isRetryableWhenIdempotent(error)).toBe(idempotent)
  })
})
