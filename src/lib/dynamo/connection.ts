import {InvalidInput} from '../core/errors.js'

/** An empty string counts as not given. */
export interface ConnectionInput {
  region?: string | undefined
  profile?: string | undefined
  endpointUrl?: string | undefined
}

/** The SDK resolves settings that are undefined. */
export interface Connection {
  region: string | undefined
  profile: string | undefined
  endpoint: string | undefined
  credentials: {accessKeyId: string; secretAccessKey: string} | undefined
  isLocal: boolean
}

export type Environment = Readonly<Record<string, string | undefined>>

// Any of these means that the user chose an identity, even for a tunnel or proxy on loopback.
const IDENTITY_VARIABLES = [
  'AWS_ACCESS_KEY_ID',
  'AWS_PROFILE',
  'AWS_WEB_IDENTITY_TOKEN_FILE',
  'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI',
  'AWS_CONTAINER_CREDENTIALS_FULL_URI',
]

// DynamoDB Local accepts only letters in access keys. Copied per connection: AWS clients write into their credentials.
const LOCAL_CREDENTIALS = Object.freeze({accessKeyId: 'local', secretAccessKey: 'local'})
const LOCAL_REGION = 'us-east-1'

export function resolveConnection(input: ConnectionInput, env: Environment): Connection {
  const endpoint = given(input.endpointUrl)
  const profile = given(input.profile)
  // Unlike the AWS CLI, the SDK does not read AWS_DEFAULT_REGION.
  const region = given(input.region) ?? given(env.AWS_REGION) ?? given(env.AWS_DEFAULT_REGION)

  const isLocal = isLoopback(effectiveEndpoint(endpoint, env))
  const hasIdentity = profile !== undefined || IDENTITY_VARIABLES.some(name => given(env[name]) !== undefined)
  const useLocalIdentity = isLocal && !hasIdentity
  const hasProfile = profile !== undefined || given(env.AWS_PROFILE) !== undefined
  return {
    region: region ?? (isLocal && !hasProfile ? LOCAL_REGION : undefined),
    profile,
    endpoint,
    credentials: useLocalIdentity ? {...LOCAL_CREDENTIALS} : undefined,
    isLocal,
  }
}

/** The SDK reads these variables itself; here they only decide whether the endpoint is local. */
function effectiveEndpoint(endpoint: string | undefined, env: Environment): URL | undefined {
  if (endpoint !== undefined) return parseEndpoint(endpoint, '--endpoint-url')
  const configured = configuredEndpoint(env)
  const name = given(env.AWS_ENDPOINT_URL_DYNAMODB) === undefined ? 'AWS_ENDPOINT_URL' : 'AWS_ENDPOINT_URL_DYNAMODB'
  return configured === undefined ? undefined : parseEndpoint(configured, name)
}

export function configuredEndpoint(env: Environment): string | undefined {
  return given(env.AWS_ENDPOINT_URL_DYNAMODB) ?? given(env.AWS_ENDPOINT_URL)
}

function parseEndpoint(text: string, source: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new InvalidInput('endpoint.syntax', `${source} is not an http or https address: "${text}"`, {
      hint: 'Write it like http://127.0.0.1:8000.',
    })
  }
  return url
}

// URL normalizes every form of an IPv4 address to four decimal numbers.
export function isLoopback(url: URL | undefined): boolean {
  if (url === undefined) return false
  return url.hostname === 'localhost' || url.hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(url.hostname)
}

export function given(text: string | undefined): string | undefined {
  return text === '' ? undefined : text
}
