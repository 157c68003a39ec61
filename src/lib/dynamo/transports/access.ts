import type {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import type {Connection} from '../connection.js'
import {tryOnce} from './sdk.js'
import type {Credentials} from './signature.js'

export interface Access {
  readonly endpoint: URL
  readonly region: string
  readonly credentials: Credentials
}

export function explicitAccess({endpoint, region, credentials}: Connection): Access | undefined {
  if (endpoint === undefined || region === undefined || credentials === undefined) return undefined
  return {endpoint: new URL(endpoint), region, credentials}
}

/** Stops an SDK request before it is sent, to get exactly the endpoint and region that the SDK would use. */
export async function accessOf(client: DynamoDBClient): Promise<Access> {
  const {GetItemCommand} = await import('@aws-sdk/client-dynamodb')
  const command = new GetItemCommand({TableName: 'none', Key: {}})
  let ready: ReadyRequest | undefined
  command.middlewareStack.add(
    () =>
      async ({request}) => {
        ready = request as ReadyRequest
        return {output: {$metadata: {}}, response: {}}
      },
    {name: 'stopWhenReady', step: 'deserialize', priority: 'high'},
  )
  tryOnce(command)
  await client.send(command, {})
  const {protocol, hostname, port, path, headers} = ready as ReadyRequest
  const endpoint = new URL(`${protocol}//${hostname}${port === undefined ? '' : `:${port}`}${path}`)
  // Credential=KEY/DAY/REGION/dynamodb/aws4_request
  const region = /Credential=[^,]*\/([^/,]+)\/dynamodb\//.exec(headers.authorization ?? '')?.[1]
  if (region === undefined) throw new Error('the client does not sign with AWS Signature Version 4')
  return {endpoint, region, credentials: await client.config.credentials()}
}

interface ReadyRequest {
  readonly protocol: string
  readonly hostname: string
  readonly port?: number
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}
