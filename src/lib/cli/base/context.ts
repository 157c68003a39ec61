import {string} from '@oclif/core/flags'
import type {OptionFlag} from '@oclif/core/interfaces'
import type {ConnectionInput} from '../../dynamo/connection.js'
import type {ServerClock} from '../../dynamo/server-clock.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {NamespaceRepository, Repository} from '../../repository/repository.js'
import type {Table} from '../../repository/table/table.js'

const helpGroup = 'STACK'

/** Flags of every command that works on a stack. What is not typed is looked for elsewhere, see `settings.ts`. */
export const stackFlags = {
  stack: string({
    char: 's',
    description: 'Name of the stack; "local" is the one of `zael local up`. "zae-limiter" unless set.',
    helpGroup,
  }) as OptionFlag<string>, // filled in before a command sees it
  namespace: string({char: 'n', description: 'Tenant to work in.', helpGroup}) as OptionFlag<string>, // likewise
  region: string({description: 'AWS region.', helpGroup}),
  profile: string({description: 'Profile with credentials and region.', helpGroup}),
  'endpoint-url': string({description: 'Where to send DynamoDB requests instead of to AWS.', helpGroup}),
}

/** The values of those flags. */
export interface StackFlagValues {
  readonly stack: string
  readonly namespace: string
  readonly region?: string | undefined
  readonly profile?: string | undefined
  readonly 'endpoint-url'?: string | undefined
}

/** A stack, ready to be used; the first request connects. */
export interface StackContext extends AsyncDisposable {
  readonly stack: string
  readonly table: Table
  readonly repository: Repository
  /** The chosen namespace; throws when there is none of that name. */
  namespace(): Promise<NamespaceRepository>
  /** Where requests go instead of to AWS; `undefined`: to AWS, or wherever the environment sends them. */
  readonly endpoint: string | undefined
  /**
   * The services around the table; `undefined` for a local engine, which has none. For the caller to dispose of; a signal
   * does so too, also while it is not yet known what there is.
   */
  surroundings(signal?: AbortSignal): Promise<Aws | undefined>
}

type Environment = Readonly<Record<string, string | undefined>>

/** From flags to ready objects. The local stack needs neither credentials nor a region, whatever the environment says. */
export async function openStack(flags: StackFlagValues, env: Environment = process.env): Promise<StackContext> {
  const [{openTable}, {Repository}, {ServerClock}, {LOCAL_STACK}, {lazyPrincipal, openSurroundings}] =
    await Promise.all([
      import('../../repository/table/open-table.js'),
      import('../../repository/repository.js'),
      import('../../dynamo/server-clock.js'),
      import('../../local/state-dir/state.js'),
      import('./aws-services.js'),
    ])
  const serverClock = new ServerClock(Date.now)
  const {stack, region, profile, 'endpoint-url': endpointUrl} = flags
  const isLocalStack = stack === LOCAL_STACK && !endpointUrl
  const input = {region, profile, endpointUrl}
  const local = isLocalStack ? await findLocalStack(env) : undefined
  const transport = local ? local.transport : await transportTo(input, env, serverClock)
  const seams = {stack, transport, clock: () => serverClock.now()}
  const repository = new Repository(isLocalStack ? seams : {...seams, principal: lazyPrincipal(input, env)})
  return {
    stack,
    table: openTable(seams).table,
    repository,
    namespace: () => repository.namespace(flags.namespace),
    endpoint: local?.endpoint ?? endpointUrl,
    surroundings: async signal => (isLocalStack ? undefined : openSurroundings(input, env, signal)),
    [Symbol.asyncDispose]: () => transport.close(),
  }
}

async function findLocalStack(env: Environment): Promise<{transport: ClosableTransport; endpoint: string}> {
  const [{requireStack}, {findStateDir}, {localTransport}] = await Promise.all([
    import('../../local/find.js'),
    import('../../local/state-dir/paths.js'),
    import('../../local/engines/transport.js'),
  ])
  const {endpoint} = (await requireStack(findStateDir(env))).state
  return {transport: localTransport(endpoint), endpoint}
}

async function transportTo(
  input: ConnectionInput,
  env: Environment,
  serverClock: ServerClock,
): Promise<ClosableTransport> {
  const {resolveConnection} = await import('../../dynamo/connection.js')
  const {createTransport} = await import('../../dynamo/transports/create.js')
  const connection = resolveConnection(input, env)
  return createTransport({connection, clock: Date.now, onResponse: serverClock.observe})
}
