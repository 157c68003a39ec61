import {resolveConnection} from '../../dynamo/connection.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import {type Access, explicitAccess} from '../../dynamo/transports/access.js'
import {LeanTransport} from '../../dynamo/transports/lean.js'

/** How to reach a local engine, whatever credentials, profile and region the environment names. */
export function localAccess(endpoint: string): Access {
  // An address on loopback gets an identity and a region of its own, so nothing is missing.
  return explicitAccess(resolveConnection({endpointUrl: endpoint}, {})) as Access
}

/** A transport to a local engine for operations on items and tables alike, without the SDK, which takes time to load. */
export function localTransport(endpoint: string): ClosableTransport {
  const access = localAccess(endpoint)
  return new LeanTransport({access: () => access, clock: Date.now})
}
