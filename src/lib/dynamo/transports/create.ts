import {classifyError} from '../classify.js'
import {type ClosableTransport, isDataOperation} from '../transport.js'
import {accessOf, explicitAccess} from './access.js'
import {isPlainClient} from './plain-client.js'
import {createSdkTransport, type SdkTransportOptions} from './sdk.js'

/**
 * The transport to a table: lean for operations on items, the SDK for those on tables. A client of the caller that has
 * more settings than an identity, a region and an endpoint is used directly. Modules are loaded with the first request;
 * where the connection settings are complete, as for a local engine, operations on items do not load the SDK.
 */
export function createTransport(options: SdkTransportOptions): ClosableTransport {
  const sdk = createSdkTransport(options)
  let choice: Promise<ClosableTransport> | undefined
  let forItems: ClosableTransport | undefined

  async function choose(): Promise<ClosableTransport> {
    const explicit = 'connection' in options ? explicitAccess(options.connection) : undefined
    const client = explicit === undefined ? await sdk.client() : undefined
    if (client !== undefined && 'client' in options && !(await isPlainClient(client))) return sdk
    const access = async () => explicit ?? accessOf(client ?? (await sdk.client()))
    // A path in front of the service would have to be signed; only rare proxies have one.
    const {endpoint} = await access()
    if (endpoint.pathname !== '/' || endpoint.search !== '') return sdk
    const {LeanTransport} = await import('./lean.js')
    return new LeanTransport({...options, access})
  }

  async function chosen(): Promise<ClosableTransport> {
    choice ??= choose()
    try {
      forItems = await choice
      return forItems
    } catch (error) {
      choice = undefined
      throw error
    }
  }

  return {
    send(operation, input, sending) {
      if (!isDataOperation(operation)) return sdk.send(operation, input, sending)
      if (forItems !== undefined) return forItems.send(operation, input, sending)
      return chosen().then(
        transport => transport.send(operation, input, sending),
        error => {
          throw classifyError(error, operation, {signal: sending?.signal, sent: false})
        },
      )
    },

    async close() {
      await choice?.catch(() => {})
      await forItems?.close()
      await sdk.close()
    },
  }
}
