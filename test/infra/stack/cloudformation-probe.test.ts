import {createServer} from 'node:http'
import type {AddressInfo} from 'node:net'
import {expect, inject, it} from 'vitest'
import {openAws} from '../../../src/lib/infra/aws/clients.js'
import {hasCloudFormation} from '../../../src/lib/infra/stack/reader.js'
import {describeOnEngine} from '../../helpers/table.js'

/** Probes a server that responds to everything in the same way. */
async function probe(status: number, body: string): Promise<boolean> {
  const server = createServer((incoming, outgoing) => {
    incoming.resume()
    outgoing.writeHead(status, {'content-type': 'text/xml'}).end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  try {
    using aws = openAws({endpointUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`}, {})
    return await hasCloudFormation(aws)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

const refusal = (code: string, message: string) =>
  `<ErrorResponse><Error><Code>${code}</Code><Message>${message}</Message></Error></ErrorResponse>`

it.each([
  [400, refusal('ValidationError', 'Stack with id no-such-stack does not exist'), true],
  [403, refusal('AccessDenied', 'not authorized'), true],
  [403, refusal('InvalidClientTokenId', 'invalid'), true],
  [404, 'not here', false],
])('a response with status %i: %s', async (status, body, hasIt) => {
  expect(await probe(status, body)).toBe(hasIt)
})

it('fails without a response', async () => {
  using aws = openAws({endpointUrl: 'http://127.0.0.1:1'}, {})
  await expect(hasCloudFormation(aws)).rejects.toMatchObject({code: 'aws.unavailable'})
})

describeOnEngine('a DynamoDB engine', () => {
  it('does not offer CloudFormation', async () => {
    using aws = openAws({endpointUrl: inject('engineEndpoint')}, {})
    expect(await hasCloudFormation(aws)).toBe(false)
  })
})
