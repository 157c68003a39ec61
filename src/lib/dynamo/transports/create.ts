import {connectionsClosed, unlessStopped} from '../abort.js'
import {classifyError} from '../classify.js'
import {SharedFlight} from '../shared-flight.js'
import {type ClosableTransport, isDataOperation, type Operation, type SendOptions} from '../transport.js'
import {accessOf, explicitAccess} from './access.js'
import {isPlainClient} from './plain-client.js'
import {createSdkTransport, leftMs, type SdkTransportOptions} from './sdk.js'

// A provider of credentials may start a program or ask a server.
const LONGEST_CHOICE_MS = 30_000

/**
 * The transport to a table: lean for operations on items, the SDK for those on tables. A client of the caller that has
 * more settings than an identity, a region and an endpoint is used directly. Modules are loaded with the first request;
 * where the connection settings are complete, as for a local engine, operations on items do not load the SDK.
 */
export function createTransport(options: SdkTransportOptions): ClosableTransport {
  const sdk = createSdkTransport(options)
  const choice = new SharedFlight<ClosableTransport>(LONGEST_CHOICE_MS)
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

  async function chosen(operation: Operation, {signal, timeoutMs}: SendOptions): Promise<ClosableTransport> {
    try {
      const deadlineMs = timeoutMs === undefined ? undefined : performance.now() + leftMs(timeoutMs)
      forItems ??= await unlessStopped(choice.join(choose), {signal, deadlineMs})
      return forItems
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: false})
    }
  }

  return {
    async send(operation, input, sending = {}) {
      if (!isDataOperation(operation)) return sdk.send(operation, input, sending)
      if (forItems !== undefined) return forItems.send(operation, input, sending)
      const startedMs = performance.now()
      const transport = await chosen(operation, sending)
      const {timeoutMs} = sending
      const left = timeoutMs === undefined ? {} : {timeoutMs: timeoutMs - (performance.now() - startedMs)}
      return transport.send(operation, input, {...sending, ...left})
    },

    async close() {
      choice.abandon(connectionsClosed())
      await forItems?.close()
      await sdk.close()
    },
  }
}
