import {existsSync} from 'node:fs'
import {homedir} from 'node:os'
import {join} from 'node:path'
import type {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {type Connection, configuredEndpoint, type Environment, given} from '../connection.js'
import {tryOnce} from './sdk.js'
import type {Credentials} from './wire.js'

export interface Access {
  readonly endpoint: URL
  readonly region: string
  readonly credentials: Credentials
}

// With one of these, only the SDK knows the identity or the endpoint.
const SDK_VARIABLES = [
  'AWS_PROFILE',
  'AWS_ACCOUNT_ID',
  'AWS_ACCOUNT_ID_ENDPOINT_MODE',
  'AWS_USE_FIPS_ENDPOINT',
  'AWS_USE_DUALSTACK_ENDPOINT',
  'AWS_IGNORE_CONFIGURED_ENDPOINT_URLS',
]

// Other partitions have other domains.
const COMMERCIAL_REGION = /^(?:af|ap|ca|eu|il|me|mx|sa|us)-[a-z]+-\d$/

/**
 * Access by the options and the environment, as in a Lambda function: loading the SDK takes longer than a request.
 * `undefined` if anything else could change what the SDK would use, such as a profile or a settings file.
 */
export function explicitAccess(connection: Connection, env: Environment): Access | undefined {
  const {endpoint, region, profile} = connection
  const credentials = connection.credentials ?? environmentCredentials(env)
  if (region === undefined || credentials === undefined) return undefined
  if (endpoint !== undefined && connection.credentials !== undefined)
    return {endpoint: new URL(endpoint), region, credentials}
  if (profile !== undefined || SDK_VARIABLES.some(name => given(env[name]) !== undefined)) return undefined
  const configured = endpoint ?? configuredEndpoint(env)
  const isCertain = endpoint !== undefined || (configured !== undefined && connection.isLocal) || !hasSettingsFile(env)
  if (!isCertain || (configured === undefined && !COMMERCIAL_REGION.test(region))) return undefined
  return {endpoint: new URL(configured ?? `https://dynamodb.${region}.amazonaws.com`), region, credentials}
}

function environmentCredentials(env: Environment): Credentials | undefined {
  const accessKeyId = given(env.AWS_ACCESS_KEY_ID)
  const secretAccessKey = given(env.AWS_SECRET_ACCESS_KEY)
  if (accessKeyId === undefined || secretAccessKey === undefined) return undefined
  const sessionToken = given(env.AWS_SESSION_TOKEN)
  const expiration = given(env.AWS_CREDENTIAL_EXPIRATION)
  return {
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : {sessionToken}),
    ...(expiration === undefined ? {} : {expiration: new Date(expiration)}),
  }
}

/** Such a file may name another endpoint. */
function hasSettingsFile(env: Environment): boolean {
  const folder = join(homedir(), '.aws')
  const config = given(env.AWS_CONFIG_FILE) ?? join(folder, 'config')
  const credentials = given(env.AWS_SHARED_CREDENTIALS_FILE) ?? join(folder, 'credentials')
  return existsSync(config) || existsSync(credentials)
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
