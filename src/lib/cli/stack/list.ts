import type {ConnectionInput} from '../../dynamo/connection.js'
import type {StackList} from '../../infra/stacks/list.js'
import {openAwsServices} from '../base/context.js'

type Environment = Readonly<Record<string, string | undefined>>

/** The stacks of a region or of all, or the tables of a local engine. */
export async function findStacks(
  input: ConnectionInput,
  {allRegions}: {readonly allRegions: boolean},
  env: Environment = process.env,
): Promise<StackList> {
  using aws = await openAwsServices(input, env)
  if (!aws) return {stacks: await tablesOf(input, env), refused: [], notEnabled: []}
  const [{listStacks, listStacksEverywhere}, {openAws}] = await Promise.all([
    import('../../infra/stacks/list.js'),
    import('../../infra/aws/clients.js'),
  ])
  if (!allRegions) return {stacks: await listStacks(aws), refused: [], notEnabled: []}
  return await listStacksEverywhere(aws, region => openAws({...input, region}, env))
}

async function tablesOf(input: ConnectionInput, env: Environment) {
  const [{createTransport}, {resolveConnection}, {listTables}] = await Promise.all([
    import('../../dynamo/transports/create.js'),
    import('../../dynamo/connection.js'),
    import('../../infra/stacks/list-tables.js'),
  ])
  const transport = createTransport({connection: resolveConnection(input, env), clock: Date.now})
  try {
    return await listTables(transport)
  } finally {
    await transport.close()
  }
}
