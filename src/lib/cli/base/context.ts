import {hostname, userInfo} from 'node:os'
import {string} from '@oclif/core/flags'
import type {OptionFlag} from '@oclif/core/interfaces'
import type {ConnectionInput} from '../../dynamo/connection.js'
import type {ServerClock} from '../../dynamo/server-clock.js'
import type {ClosableTransport} from '../../dynamo/transport.js'
import type {StreamTransport} from '../../dynamo/transports/stream.js'
import type {Aws} from '../../infra/aws/clients.js'
import type {NamespaceRepository, Repository} from '../../repository/repository.js'
import type {Principal} from '../../repository/table/audit.js'
import type {Table} from '../../repository/table/table.js'

const helpGroup = 'STACK'

/** Values that are not typed come from `settings.ts`. */
export const stackFlags = {
  stack: string({
    char: 's',
    description: 'Stack name. "local" is the stack that `zael local up` starts. Default: "zae-limiter".',
    helpValue: 'NAME',
    helpGroup,
  }) as OptionFlag<string>, // set before a command reads it
  namespace: string({char: 'n', description: 'Namespace to use.', helpValue: 'NAME', helpGroup}) as OptionFlag<string>, // likewise
  region: string({description: 'AWS region.', helpValue: 'REGION', helpGroup}),
  profile: string({description: 'AWS profile with credentials and region.', helpValue: 'NAME', helpGroup}),
  'endpoint-url': string({
    description: 'Send DynamoDB requests to this URL instead of AWS.',
    helpValue: 'URL',
    helpGroup,
  }),
}

export interface StackFlagValues {
  readonly stack: string
  readonly namespace: string
  readonly region?: string | undefined
  readonly profile?: string | undefined
  readonly 'endpoint-url'?: string | undefined
}

/** Connects on the first request. */
export interface StackContext extends AsyncDisposable {
  readonly stack: string
  readonly table: Table
  readonly repository: Repository
  /** The author of audit events: ZAEL_PRINCIPAL, the caller's ARN, or the user and host. */
  readonly principal: Principal
  /** Throws when the selected namespace does not exist. */
  namespace(): Promise<NamespaceRepository>
  /** `undefined`: AWS, or the endpoint that the environment selects. */
  readonly endpoint: string | undefined
  /** `undefined` on a local engine. The caller disposes of the clients; so does the signal, even during opening. */
  awsServices(signal?: AbortSignal): Promise<Aws | undefined>
  /** The caller closes it. */
  openStream(): Promise<StreamTransport>
}

/** The local stack needs neither credentials nor a region. */
export async function openStack(flags: StackFlagValues, env: NodeJS.ProcessEnv = process.env): Promise<StackContext> {
  const [{openTable}, {Repository}, {ServerClock}, {LOCAL_STACK}] = await Promise.all([
    import('../../repository/table/open-table.js'),
    import('../../repository/repository.js'),
    import('../../dynamo/server-clock.js'),
    import('../../local/state-dir/state.js'),
  ])
  const serverClock = new ServerClock(Date.now)
  const {stack, region, profile, 'endpoint-url': endpointUrl} = flags
  const isLocalStack = stack === LOCAL_STACK && !endpointUrl
  const input = {region, profile, endpointUrl}
  const local = isLocalStack ? await findLocalStack(env) : undefined
  const transport = local ? local.transport : await transportTo(input, env, serverClock)
  const seams = {stack, transport, clock: () => serverClock.now()}
  const principal = env.ZAEL_PRINCIPAL || lazyPrincipal(isLocalStack ? undefined : input, env)
  const repository = new Repository({...seams, principal})
  return {
    stack,
    table: openTable(seams).table,
    repository,
    principal,
    namespace: async () => {
      const namespace = await repository.namespace(flags.namespace)
      namespace.configs.keepUnits()
      return namespace
    },
    endpoint: local?.endpoint ?? endpointUrl,
    awsServices: async signal => (isLocalStack ? undefined : openAwsServices(input, env, signal)),
    openStream: async () => {
      const [{resolveConnection}, {openStream}] = await Promise.all([
        import('../../dynamo/connection.js'),
        import('../../dynamo/transports/open-stream.js'),
      ])
      return openStream(resolveConnection(local ? {endpointUrl: local.endpoint} : input, env), () => serverClock.now())
    },
    [Symbol.asyncDispose]: () => transport.close(),
  }
}

async function findLocalStack(env: NodeJS.ProcessEnv): Promise<{transport: ClosableTransport; endpoint: string}> {
  const [{requireStack}, {findStateDir}, {localTransport}] = await Promise.all([
    import('../../local/find.js'),
    import('../../local/state-dir/state.js'),
    import('../../local/engines/transport.js'),
  ])
  const {endpoint} = (await requireStack(findStateDir(env))).state
  return {transport: localTransport(endpoint), endpoint}
}

async function transportTo(
  input: ConnectionInput,
  env: NodeJS.ProcessEnv,
  serverClock: ServerClock,
): Promise<ClosableTransport> {
  const {resolveConnection} = await import('../../dynamo/connection.js')
  const {createTransport} = await import('../../dynamo/transports/create.js')
  const connection = resolveConnection(input, env)
  return createTransport({connection, clock: Date.now, onResponse: serverClock.observe})
}

/** `undefined` for an endpoint without CloudFormation. */
export async function openAwsServices(
  input: ConnectionInput,
  env: NodeJS.ProcessEnv,
  signal?: AbortSignal,
): Promise<Aws | undefined> {
  const [{openAws}, {hasCloudFormation}] = await Promise.all([
    import('../../infra/aws/clients.js'),
    import('../../infra/stack/reader.js'),
  ])
  // The signal may have aborted during the imports; the listener below would never fire.
  signal?.throwIfAborted()
  const aws = openAws(input, env)
  signal?.addEventListener('abort', () => aws[Symbol.dispose](), {once: true})
  if (!aws.isLocal || (await hasCloudFormation(aws))) return aws
  aws[Symbol.dispose]()
  return undefined
}

/** Read at most once, and only when an audit event is written. */
function lazyPrincipal(input: ConnectionInput | undefined, env: NodeJS.ProcessEnv): () => Promise<string> {
  let principal: Promise<string> | undefined
  return () => {
    principal ??= readCaller(input, env).then(arn => arn ?? userAtHost(env))
    return principal
  }
}

/** `undefined` on a local engine, or if STS does not respond. */
async function readCaller(input: ConnectionInput | undefined, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  if (!input) return undefined
  const {openAws, readPrincipal} = await import('../../infra/aws/clients.js')
  using aws = openAws(input, env)
  return aws.isLocal ? undefined : await readPrincipal(aws)
}

/** Who runs this process. Unlike an ARN, nobody checks it. */
function userAtHost(env: NodeJS.ProcessEnv): string {
  return `${userName(env)}@${hostname()}`
    .replaceAll(/[^ -~]/g, '?')
    .trim()
    .slice(0, 256)
}

function userName(env: NodeJS.ProcessEnv): string {
  try {
    return userInfo().username
  } catch {
    // A container may run as a user id without a name.
    return env.USER || `user-${process.getuid?.() ?? 'unknown'}`
  }
}
