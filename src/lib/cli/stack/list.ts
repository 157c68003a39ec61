import type {ConnectionInput} from '../../dynamo/connection.js'
import type {ListedStack, RefusedRegion, StackList} from '../../infra/stack/list-stacks.js'
import {openAwsServices} from '../base/context.js'
import type {Listing} from '../output/listing.js'

export async function findStacks(
  input: ConnectionInput,
  {allRegions}: {readonly allRegions: boolean},
  env: NodeJS.ProcessEnv = process.env,
): Promise<StackList> {
  using aws = await openAwsServices(input, env)
  if (!aws) return {stacks: await tablesOf(input, env), refused: [], notEnabled: []}
  const [{listStacks, listStacksEverywhere}, {openAws}] = await Promise.all([
    import('../../infra/stack/list-stacks.js'),
    import('../../infra/aws/clients.js'),
  ])
  if (!allRegions) return {stacks: await listStacks(aws), refused: [], notEnabled: []}
  return await listStacksEverywhere(aws, region => openAws({...input, region}, env))
}

async function tablesOf(input: ConnectionInput, env: NodeJS.ProcessEnv) {
  const [{createTransport}, {resolveConnection}, {listTables}] = await Promise.all([
    import('../../dynamo/transports/create.js'),
    import('../../dynamo/connection.js'),
    import('../../infra/stack/list-stacks.js'),
  ])
  const transport = createTransport({connection: resolveConnection(input, env), clock: Date.now})
  try {
    return await listTables(transport)
  } finally {
    await transport.close()
  }
}

export function stackListing(stacks: readonly ListedStack[], where: {allRegions: boolean}): Listing<ListedStack> {
  return {
    rows: stacks,
    columns: [
      {name: 'name', value: ({name}) => name},
      {name: 'region', value: ({region}) => region, isExtra: !where.allRegions},
      {name: 'tool', value: ({tool}) => tool},
      {name: 'status', value: ({status}) => status.toLowerCase().replaceAll('_', ' '), raw: ({status}) => status},
      {name: 'version', value: ({version}) => version},
      {name: 'layout', value: ({schemaVersion}) => schemaVersion, isExtra: true},
      {name: 'created', fit: 'spare', value: ({createdAt}) => createdAt},
      {name: 'updated', value: ({updatedAt}) => updatedAt, isExtra: true},
    ],
    empty: where.allRegions ? 'No stacks found' : 'No stacks found in this region. Create one: zael deploy',
  }
}

export function refusedLines(refused: readonly RefusedRegion[]): string[] {
  return refused.map(({region, reason}) => `Could not list ${region}: ${reason}`)
}
