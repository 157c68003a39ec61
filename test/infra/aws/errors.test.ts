import {describe, expect, it} from 'vitest'
import {InvalidInput} from '../../../src/lib/core/errors.js'
import {callAws, toZaelError} from '../../../src/lib/infra/aws/errors.js'

function refusal(name: string, message: string, more: object = {}): Error {
  return Object.assign(new Error(message), {name, ...more})
}

describe('a failed call to AWS', () => {
  it.each([
    ['CredentialsProviderError', 'Could not load credentials from any providers', 'aws.credentials', 4],
    ['ExpiredToken', 'The security token included in the request is expired', 'aws.credentials', 4],
    ['SignatureDoesNotMatch', 'Signature expired: 20261115 is now earlier than 20261116', 'aws.clock', 4],
    ['AccessDenied', 'User: arn:x is not authorized to perform: cloudformation:DescribeStacks', 'aws.denied', 4],
    ['AccessDeniedException', 'no identity-based policy allows the action', 'aws.denied', 4],
    ['Throttling', 'Rate exceeded', 'aws.throttled', 1],
    ['TooManyRequestsException', 'Rate exceeded', 'aws.throttled', 1],
    ['LimitExceededException', 'Limit for stack has been exceeded', 'aws.quota', 1],
    ['TimeoutError', 'socket hang up', 'aws.unavailable', 1],
    ['Error', 'Region is missing', 'aws.region', 1],
    ['ValidationError', 'Parameters: [X] must have values', 'aws.failed', 1],
  ])('%s: %s', (name, message, code, exitCode) => {
    const error = toZaelError(refusal(name, message), 'read stack "prod"')
    expect(error).toMatchObject({code, exitCode, details: {doing: 'read stack "prod"'}})
    expect(error.message).toContain('read stack "prod"')
    expect(error.hint).toMatch(/^[A-Z].*[.;]/)
  })

  it.each(['ECONNREFUSED', 'ENOTFOUND', 'ETIMEDOUT'])('%s means that AWS is unavailable', code => {
    expect(toZaelError(refusal('Error', `connect ${code}`, {code}), 'ask')).toMatchObject({code: 'aws.unavailable'})
  })

  it.each([
    [429, 'aws.throttled'],
    [403, 'aws.denied'],
    [503, 'aws.unavailable'],
    [418, 'aws.failed'],
  ])('a response without a message, status %i', (httpStatusCode, code) => {
    const error = toZaelError(refusal('Unknown', 'Unknown', {$metadata: {httpStatusCode}}), 'ask')
    expect(error.code).toBe(code)
    expect(error.message).toContain(`HTTP status ${httpStatusCode}`)
  })

  it('names the missing action', () => {
    const reason =
      'User: arn:aws:iam::1:user/ann is not authorized to perform: lambda:UpdateFunctionCode on resource: x'
    const error = toZaelError(refusal('AccessDeniedException', reason), 'update the code')
    expect(error.details).toEqual({doing: 'update the code', action: 'lambda:UpdateFunctionCode'})
    expect(error.hint).toMatch(/^Ask for lambda:UpdateFunctionCode, /)
  })

  it('omits the advice of the SDK for its developers', () => {
    const error = toZaelError(refusal('Error', '@smithy/node-http-handler - [ERROR] slow\nadvice'), 'ask')
    expect(error.message).toBe('Cannot ask: slow')
  })

  it('returns a ZaelError as it is', async () => {
    const own = new InvalidInput('some.code', 'said')
    await expect(callAws('ask', () => Promise.reject(own))).rejects.toBe(own)
  })
})
