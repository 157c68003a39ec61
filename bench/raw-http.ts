import {Agent, request} from 'node:http'

/** Sends a JSON body to an engine over kept-alive sockets: no SDK, no signature that means anything. */
export function rawSender(endpoint: string): {send(target: string, input: unknown): Promise<unknown>; close(): void} {
  const agent = new Agent({keepAlive: true, maxSockets: 128})
  const {hostname, port} = new URL(endpoint)
  const headers = {
    'content-type': 'application/x-amz-json-1.0',
    'x-amz-date': '20240101T000000Z',
    authorization:
      'AWS4-HMAC-SHA256 Credential=local/20240101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0',
  }
  return {
    send: (target, input) =>
      new Promise((resolve, reject) => {
        const body = JSON.stringify(input)
        const options = {agent, hostname, port, method: 'POST', path: '/'}
        const length = Buffer.byteLength(body)
        const call = request(
          {...options, headers: {...headers, 'x-amz-target': `DynamoDB_20120810.${target}`, 'content-length': length}},
          response => {
            const chunks: Buffer[] = []
            response.on('data', chunk => chunks.push(chunk))
            response.on('error', reject)
            response.on('end', () => {
              const text = Buffer.concat(chunks).toString()
              if (response.statusCode === 200) resolve(JSON.parse(text))
              else reject(new Error(`${response.statusCode}: ${text}`))
            })
          },
        )
        call.on('error', reject)
        call.end(body)
      }),
    close: () => agent.destroy(),
  }
}
