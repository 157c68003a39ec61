import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {classifyError} from '../../../src/lib/dynamo/classify.js'
import {callAws, toZaelError} from '../../../src/lib/infra/aws/errors.js'

function refusal(name: string, message: string, more: object = {}): Error {
  return Object.assign(new Error(message), {name, ...more})
}

describe('a failed call to AWS', () => {
  it.each([
    ['CredentialsProviderError', 'Could not load credentials from any providers', 'aws.credentials', 'access'],
    ['ExpiredToken', 'The security token included in the request is expired', 'aws.credentials', 'access'],
    ['SignatureDoesNotMatch', 'Signature expired: 20261115 is now earlier than 20261116', 'aws.clock', 'access'],
    ['AccessDenied', 'User: arn:x is not authorized to perform: cloudformation:DescribeStacks', 'aws.denied', 'access'],
    ['AccessDeniedException', 'no identity-based policy allows the action', 'aws.denied', 'access'],
    ['Throttling', 'Rate exceeded', 'aws.throttled', 'failed'],
    ['TooManyRequestsException', 'Rate exceeded', 'aws.throttled', 'failed'],
    ['LimitExceededException', 'Limit for stack has been exceeded', 'aws.quota', 'failed'],
    ['TimeoutError', 'socket hang up', 'aws.unavailable', 'failed'],
    ['Error', 'Region is missing', 'aws.region', 'failed'],
    ['ValidationError', 'Parameters: [X] must have values', 'aws.failed', 'failed'],
  ])('%s: %s', (name, message, code, kind) => {
    const error = toZaelError(refusal(name, message), 'read stack "prod"')
    expect(error).toMatchObject({code, kind, details: {doing: 'read stack "prod"'}})
    expect(error.message).toContain('read stack "prod"')
    expect(error.hint).toMatch(/^[A-Z].*[.;]/)
  })

  it('distinguishes an expired session from a missing profile', () => {
    const expired = refusal('ExpiredToken', 'The security token included in the request is expired')
    expect(toZaelError(expired, 'ask').hint).toMatch(/^Log in again/)
  })

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT'])('reports %s as AWS being unavailable', code => {
    expect(toZaelError(refusal('Error', `connect ${code}`, {code}), 'ask')).toMatchObject({code: 'aws.unavailable'})
  })

  it.each(['ENOTFOUND', 'EAI_AGAIN'])('names the host without an address for %s', code => {
    const hostname = 'cloudformation.eu-nowhere-9.amazonaws.com'
    expect(toZaelError(refusal('Error', `getaddrinfo ${code}`, {code, hostname}), 'ask')).toMatchObject({
      code: 'aws.unavailable',
      message: `Cannot ask: the host ${hostname} was not found (${code})`,
      hint: expect.stringContaining(`nslookup ${hostname}`),
    })
  })

  it.each([
    ['SELF_SIGNED_CERT_IN_CHAIN', 'NODE_EXTRA_CA_CERTS'],
    ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY', 'NODE_EXTRA_CA_CERTS'],
    ['CERT_HAS_EXPIRED', 'clock'],
    ['ERR_TLS_CERT_ALTNAME_INVALID', '--endpoint-url'],
  ])('reports %s as a certificate problem, also for DynamoDB', (code, words) => {
    const expected = {code: 'aws.certificate', kind: 'failed', hint: expect.stringContaining(words)}
    expect(toZaelError(refusal('Error', 'not trusted', {code}), 'ask')).toMatchObject(expected)
    expect(classifyError(refusal('Error', 'not trusted', {code}), 'GetItem')).toMatchObject(expected)
  })

  it.each([
    ['asks for credentials of its own', {$metadata: {httpStatusCode: 407}}],
    ['shows a page', {$response: {statusCode: 403, headers: {'content-type': 'text/html; charset=utf-8'}}}],
  ])('names the proxy when it %s', (_, more) => {
    const error = toZaelError(refusal('Unknown', 'Unknown', more), 'ask')
    expect(error).toMatchObject({code: 'aws.proxy', kind: 'failed'})
    expect(error.message).toMatch(/^Cannot ask: a proxy .* responded instead of AWS \(HTTP status (407|403)\)$/)
  })

  it.each([
    [429, 'aws.throttled'],
    [403, 'aws.denied'],
    [503, 'aws.unavailable'],
    [418, 'aws.failed'],
  ])('handles a response without a message, status %i', (httpStatusCode, code) => {
    const error = toZaelError(refusal('Unknown', 'Unknown', {$metadata: {httpStatusCode}}), 'ask')
    expect(error.code).toBe(code)
    expect(error.message).toContain(`HTTP status ${httpStatusCode}`)
  })

  it('names the missing action', () => {
    const reason =
      'User: arn:aws:iam::1:user/ann is not authorized to perform: lambda:UpdateFunctionCode on resource: x'
    const error = toZaelError(refusal('AccessDeniedException', reason), 'update the code')
    expect(error.details).toEqual({doing: 'update the code', action: 'lambda:UpdateFunctionCode'})
    expect(error.hint).toMatch(/^Request lambda:UpdateFunctionCode, /)
  })

  it("omits the SDK's advice for developers", () => {
    const error = toZaelError(refusal('Error', '@smithy/node-http-handler - [ERROR] slow\nadvice'), 'ask')
    expect(error.message).toBe('Cannot ask: slow')
  })

  it('returns a ZaelError as it is', async () => {
    const own = new InvalidInput('some.code', 'said')
    await expect(callAws('ask', () => Promise.reject(own))).rejects.toBe(own)
  })
})
