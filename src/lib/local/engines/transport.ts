import {resolveConnection} from '../../dynamo/connection.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import {type Access, explicitAccess} from '../../dynamo/transports/access.js'
import {LeanTransport} from '../../dynamo/transports/lean.js'

/** Ignores credentials, profile and region in the environment. */
export function localAccess(endpoint: string): Access {
  // A loopback endpoint gets fixed credentials and a fixed region, so nothing can be missing.
  return explicitAccess(resolveConnection({endpointUrl: endpoint}, {}), {}) as Access
}

/** Avoids the SDK, which takes time to load. */
export function localTransport(endpoint: string): ClosableTransport {
  const access = localAccess(endpoint)
  return new LeanTransport({access: () => access, clock: Date.now})
}
