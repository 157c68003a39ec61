import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import fc from 'fast-check'
import {describe, expect, test} from 'vitest'
import {type Credentials, type Signable, Signer} from '../../../src/lib/dynamo/transports/wire.js'
import {runs} from '../../helpers/runs.js'

interface SdkSigner {
  sign(request: object, options: {signingDate: Date}): Promise<{headers: Record<string, string>}>
}

type SdkSignerClass = new (options: object) => SdkSigner

/** The class of the SDK's own signer, which it does not export. */
async function sdkSignerClass(): Promise<SdkSignerClass> {
  const client = new DynamoDBClient({region: 'us-east-1', credentials: {accessKeyId: 'a', secretAccessKey: 'b'}})
  const config = client.config as unknown as {signer: (scheme: object) => Promise<object>}
  const signer = await config.signer({name: 'sigv4', properties: {}})
  client.destroy()
  return signer.constructor as SdkSignerClass
}

/** The SDK's signature of the same request, without the optional header of the body hash. */
async function reference(credentials: Credentials, region: string, {host, target, body, nowMs}: Signable) {
  const Class = await signerClass
  const signer = new Class({credentials, region, service: 'dynamodb', sha256: Sha256, applyChecksum: false})
  const headers = {'content-type': 'application/x-amz-json-1.0', host, 'x-amz-target': target}
  const request = {method: 'POST', protocol: 'https:', hostname: host, path: '/', query: {}, headers, body}
  return (await signer.sign(request, {signingDate: new Date(nowMs)})).headers
}

const signerClass = sdkSignerClass()
const {sha256: Sha256} = new DynamoDBClient({region: 'us-east-1'}).config

const header = (signed: ReturnType<Signer['sign']>, name: string) => signed.find(([key]) => key === name)?.[1]

const word = fc.stringMatching(/^[A-Za-z0-9/+=]{1,60}$/)
const identities = fc.record({accessKeyId: fc.stringMatching(/^[A-Z0-9]{4,20}$/), secretAccessKey: word})
const requests = fc.record({
  host: fc.constantFrom(
    'dynamodb.eu-west-1.amazonaws.com',
    '123456789012.ddb.us-east-1.amazonaws.com',
    '127.0.0.1:8000',
  ),
  target: fc.constantFrom('DynamoDB_20120810.UpdateItem', 'DynamoDB_20120810.TransactWriteItems'),
  body: fc.oneof(fc.json(), fc.string({unit: 'grapheme', maxLength: 200})),
  nowMs: fc.integer({min: Date.UTC(2020, 0), max: Date.UTC(2099, 0)}),
})
const region = fc.constantFrom('us-east-1', 'eu-central-2', 'cn-north-1', 'us-gov-west-1')

describe('a signature', () => {
  test('matches the SDK for every identity, region, instant and body', async () => {
    await fc.assert(
      fc.asyncProperty(
        identities,
        fc.option(word, {nil: undefined}),
        region,
        requests,
        async (id, token, at, asked) => {
          const credentials = token === undefined ? id : {...id, sessionToken: token}
          const signed = new Signer(credentials, at).sign(asked)
          const expected = await reference(credentials, at, asked)
          expect(header(signed, 'x-amz-date')).toBe(expected['x-amz-date'])
          expect(header(signed, 'x-amz-security-token')).toBe(expected['x-amz-security-token'])
          expect(header(signed, 'authorization')).toBe(expected.authorization)
        },
      ),
      {numRuns: runs(250)},
    )
  })

  test('is correct on every day, and on the same day again', async () => {
    const credentials = {accessKeyId: 'KEY', secretAccessKey: 'secret'}
    const signer = new Signer(credentials, 'us-east-1')
    const asked = {host: 'h', target: 't', body: '{}'}
    const evening = Date.UTC(2026, 1, 28, 23, 59, 59, 999)
    for (const nowMs of [evening, evening, evening + 1, evening, evening + 86_400_000]) {
      const fresh = new Signer(credentials, 'us-east-1').sign({...asked, nowMs})
      expect(signer.sign({...asked, nowMs})).toEqual(fresh)
    }
    expect(header(signer.sign({...asked, nowMs: evening}), 'x-amz-date')).toBe('20260228T235959Z')
  })

  test('is never created with an identity that would break the headers', () => {
    for (const broken of [{accessKeyId: 'A\r\nx: y'}, {sessionToken: 'a\nb'}, {accessKeyId: ''}]) {
      const credentials = {accessKeyId: 'KEY', secretAccessKey: 'secret', ...broken}
      expect(() => new Signer(credentials, 'us-east-1')).toThrow(
        expect.objectContaining({name: 'CredentialsProviderError'}),
      )
    }
  })
})
