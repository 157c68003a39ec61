import type {Connection} from '../connection.js'
import {accessOf, explicitAccess} from './access.js'
import {createSdkTransport} from './sdk.js'
import {createStreamTransport, type StreamTransport} from './stream.js'

export async function openStream(connection: Connection, clock: () => number): Promise<StreamTransport> {
  const explicit = explicitAccess(connection, process.env)
  if (explicit)
    return createStreamTransport({access: {...explicit, endpoint: streamEndpoint(explicit.endpoint)}, clock})
  const sdk = createSdkTransport({connection, clock})
  try {
    const access = await accessOf(await sdk.client())
    return createStreamTransport({access: {...access, endpoint: streamEndpoint(access.endpoint)}, clock})
  } finally {
    await sdk.close()
  }
}

/** Streams have no endpoint per account, and a dash in dual-stack names. Any other endpoint serves both. */
export function streamEndpoint(tables: URL): URL {
  const match = /^(?:\d{12}\.ddb|(dynamodb(?:-fips)?))\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?|api\.[a-z.]+)$/.exec(
    tables.hostname,
  )
  if (!match) return tables
  const [, service = 'dynamodb', region, suffix = ''] = match
  const separator = suffix.startsWith('api.') ? '-' : '.'
  return new URL(`${tables.protocol}//streams${separator}${service}.${region}.${suffix}/`)
}
