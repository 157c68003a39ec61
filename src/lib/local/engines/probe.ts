import {request} from 'node:http'

// Engines check that a signature is there and well-formed, not that it is right.
const HEADERS = {
  'content-type': 'application/x-amz-json-1.0',
  'x-amz-target': 'DynamoDB_20120810.ListTables',
  'x-amz-date': '20200101T000000Z',
  authorization:
    'AWS4-HMAC-SHA256 Credential=local/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host;x-amz-date, Signature=0',
}

/** Whether a DynamoDB engine at this endpoint answers ListTables; false when it refuses, fails or the signal ends the wait. */
export function answersListTables(endpoint: string, signal: AbortSignal): Promise<boolean> {
  return new Promise(resolve => {
    // No agent: a kept-alive connection would outlast the probe and delay the engine's shutdown.
    const call = request(endpoint, {method: 'POST', headers: HEADERS, agent: false, signal}, response => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    call.on('error', () => resolve(false))
    call.end('{}')
  })
}
