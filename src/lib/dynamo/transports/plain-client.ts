import {isDeepStrictEqual} from 'node:util'
import type {DynamoDBClient} from '@aws-sdk/client-dynamodb'

/**
 * Whether a client has nothing but an identity, a region and an endpoint. A client whose handlers, agents, middleware or
 * loggers differ from those of a new client of its class, or that cannot be compared, is not plain: its owner set them
 * for a reason.
 */
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

/** The SDK's own handler, of which only the settings can be compared. */
interface NodeHandler {
  readonly configProvider: Promise<NodeHandlerConfig>
}

interface NodeHandlerConfig {
  readonly httpAgentProvider: () => Promise<object>
  readonly httpAgent?: object
  readonly httpsAgent: object
}

async function handlerTraits(handler: NodeHandler): Promise<unknown> {
  // `httpAgent` is set from the provider when the handler is used.
  const {httpAgentProvider, httpAgent: _, httpsAgent, ...settings} = await handler.configProvider
  const agents = [await httpAgentProvider(), httpsAgent]
  return {type: handler.constructor, settings, agents: agents.map(agentTraits)}
}

function agentTraits(agent: object): unknown {
  const {options} = agent as {options: unknown}
  return {type: agent.constructor, fields: Object.keys(agent), options}
}
