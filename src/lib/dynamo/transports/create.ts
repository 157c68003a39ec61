import {isDeepStrictEqual} from 'node:util'
import type {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {leftMs} from '../../core/text/duration.js'
import {connectionsClosed, unlessStopped} from '../abort.js'
import {classifyError} from '../classify.js'
import {SharedFlight} from '../shared-flight.js'
import {type ClosableTransport, isDataOperation, type Operation, type SendOptions} from '../transport.js'
import {accessOf, explicitAccess} from './access.js'
import {createSdkTransport, type SdkTransportOptions} from './sdk.js'

// A credentials provider may start a program or ask a server.
const LONGEST_CHOICE_MS = 30_000

/**
 * Lean for item operations, unless a caller's client has other settings. The SDK for table operations. With complete
 * connection settings, item operations do not load the SDK.
 */
export function createTransport(options: SdkTransportOptions): ClosableTransport {
  const sdk = createSdkTransport(options)
  const choice = new SharedFlight<ClosableTransport>(LONGEST_CHOICE_MS)
  let forItems: ClosableTransport | undefined

  async function choose(): Promise<ClosableTransport> {
    // Read again when credentials expire.
    const explicit = () => ('connection' in options ? explicitAccess(options.connection, process.env) : undefined)
    const client = explicit() === undefined ? await sdk.client() : undefined
    if (client !== undefined && 'client' in options && !(await isPlainClient(client))) return sdk
    const access = async () => explicit() ?? accessOf(client ?? (await sdk.client()))
    // A path would have to be signed; only rare proxies have one.
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

/** Whether a client has only identity, region and endpoint. Its owner set any other option for a reason. */
export async function isPlainClient(client: DynamoDBClient): Promise<boolean> {
  try {
    const Client = client.constructor as new (config: object) => DynamoDBClient
    const fresh = new Client({region: 'us-east-1'})
    const [given, usual] = await Promise.all([traitsOf(client), traitsOf(fresh)])
    fresh.destroy()
    return isDeepStrictEqual(given, usual)
  } catch {
    return false
  }
}

async function traitsOf(client: DynamoDBClient): Promise<unknown> {
  const {config, middlewareStack} = client
  return {
    send: client.send,
    middleware: middlewareStack.identify(),
    logger: config.logger.constructor,
    userAgent: config.customUserAgent,
    signers: config.httpAuthSchemes.map(scheme => scheme.signer.constructor),
    handler: await handlerTraits(config.requestHandler as unknown as NodeHandler),
  }
}

interface NodeHandler {
  readonly configProvider: Promise<NodeHandlerConfig>
}

interface NodeHandlerConfig {
  readonly httpAgentProvider: () => Promise<object>
  readonly httpAgent?: object
  readonly httpsAgent: object
}

async function handlerTraits(handler: NodeHandler): Promise<unknown> {
  // `httpAgent` is set from the provider on first use.
  const {httpAgentProvider, httpAgent: _, httpsAgent, ...settings} = await handler.configProvider
  const agents = [await httpAgentProvider(), httpsAgent]
  return {type: handler.constructor, settings, agents: agents.map(agentTraits)}
}

function agentTraits(agent: object): unknown {
  const {options} = agent as {options: unknown}
  return {type: agent.constructor, fields: Object.keys(agent), options}
}
