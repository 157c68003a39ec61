import type {ConnectionInput} from '../../dynamo/connection.js'
import type {Aws} from '../../infra/aws/clients.js'

type Environment = Readonly<Record<string, string | undefined>>

/** The services around a stack's table; `undefined` for a local engine, which has none. */
export async function openSurroundings(
  input: ConnectionInput,
  env: Environment,
  signal?: AbortSignal,
): Promise<Aws | undefined> {
  const [{openAws}, {hasCloudFormation}] = await Promise.all([
    import('../../infra/aws/clients.js'),
    import('../../infra/stacks/cloudformation-probe.js'),
  ])
  // An event that has been is not told again, and loading takes its time.
  signal?.throwIfAborted()
  const aws = openAws(input, env)
  signal?.addEventListener('abort', () => aws[Symbol.dispose](), {once: true})
  if (!aws.isLocal || (await hasCloudFormation(aws))) return aws
  aws[Symbol.dispose]()
  return undefined
}

/** Who is named in the audit trail, asked for once and not before an event is to be written; nobody on a local engine. */
export function lazyPrincipal(input: ConnectionInput, env: Environment): () => Promise<string | undefined> {
  let answer: Promise<string | undefined> | undefined
  return () => {
    answer ??= askPrincipal(input, env)
    return answer
  }
}

async function askPrincipal(input: ConnectionInput, env: Environment): Promise<string | undefined> {
  const {openAws} = await import('../../infra/aws/clients.js')
  using aws = openAws(input, env)
  if (aws.isLocal) return undefined
  const {readPrincipal} = await import('../../infra/aws/caller-identity.js')
  return await readPrincipal(aws)
}
