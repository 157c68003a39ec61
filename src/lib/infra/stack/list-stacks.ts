import {paginateDescribeStacks} from '@aws-sdk/client-cloudformation'
import {valueFor, ZaelError} from '../../core/errors.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import {TableMissing, ValidationFailed} from '../../dynamo/errors.js'
import type {Transport} from '../../dynamo/transport.js'
import {openTable} from '../../repository/table/open-table.js'
import {describeTable} from '../../repository/table/table.js'
import {readVersion} from '../../repository/table/version.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import {indexes} from '../../schema/attributes.js'
import type {Aws} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'
import {type DeployedStack, deploymentOf, type StackOwner, toDeployedStack} from './reader.js'

export interface ListedStack {
  readonly name: string
  /** `null`: a table of a local engine. */
  readonly region: string | null
  readonly tool: Exclude<StackOwner, 'other'> | null
  readonly status: string
  readonly version: string | null
  readonly schemaVersion: string | null
  /** ISO 8601, UTC. */
  readonly createdAt: string | null
  readonly updatedAt: string | null
}

export interface RefusedRegion {
  readonly region: string
  readonly code: string
  readonly reason: string
}

export interface StackList {
  readonly stacks: readonly ListedStack[]
  readonly refused: readonly RefusedRegion[]
  readonly notEnabled: readonly string[]
}

const REGIONS_AT_ONCE = 8

/** Early versions of the Python tool did not tag their stacks, but used this prefix. */
const UNTAGGED_PREFIX = 'ZAEL-'

const DEFAULT_REGIONS = {
  aws: `us-east-1 us-east-2 us-west-1 us-west-2 ca-central-1 sa-east-1 eu-central-1 eu-north-1 eu-west-1 eu-west-2 eu-west-3
    ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-southeast-1 ap-southeast-2`,
  'aws-cn': 'cn-north-1 cn-northwest-1',
  'aws-us-gov': 'us-gov-east-1 us-gov-west-1',
}

const OPT_IN_REGIONS =
  `af-south-1 ap-east-1 ap-east-2 ap-south-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6
  ap-southeast-7 ca-west-1 eu-central-2 eu-south-1 eu-south-2 il-central-1 me-central-1 me-south-1 mx-central-1`.split(
    /\s+/,
  )

export async function listStacks(aws: Aws): Promise<ListedStack[]> {
  const region = await regionOf(aws)
  return callAws(`list the stacks of ${region}`, async () => {
    const pages = paginateDescribeStacks({client: await aws.cloudFormation()}, {})
    const found = await collected(pages, page =>
      page.Stacks?.flatMap(each => toListedStacks(toDeployedStack(each), region)),
    )
    return found.sort((a, b) => (a.name < b.name ? -1 : 1))
  })
}

/** Fails only when every region refuses. */
export async function listStacksEverywhere(configured: Aws, open: (region: string) => Aws): Promise<StackList> {
  const stacks: ListedStack[] = []
  const refused: RefusedRegion[] = []
  const notEnabled: string[] = []
  const regions = partitionRegions(await regionOf(configured))
  let lastError: unknown
  await forEachConcurrently(regions, REGIONS_AT_ONCE, async region => {
    using aws = open(region)
    try {
      stacks.push(...(await listStacks(aws)))
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      lastError = error
      // A region that is not enabled rejects valid credentials.
      if (OPT_IN_REGIONS.includes(region) && error.code === 'aws.credentials') notEnabled.push(region)
      else refused.push({region, code: error.code, reason: error.message})
    }
  })
  if (refused.length + notEnabled.length === regions.length) throw lastError
  stacks.sort((a, b) => (a.name === b.name ? compare(a.region ?? '', b.region ?? '') : compare(a.name, b.name)))
  return {stacks, refused: refused.sort((a, b) => compare(a.region, b.region)), notEnabled: notEnabled.sort()}
}

export function partitionRegions(region: string): string[] {
  const partition = region.startsWith('cn-') ? 'aws-cn' : region.startsWith('us-gov-') ? 'aws-us-gov' : 'aws'
  const names = [...DEFAULT_REGIONS[partition].split(/\s+/), ...(partition === 'aws' ? OPT_IN_REGIONS : [])]
  return [...new Set([...names, region])].sort()
}

function toListedStacks(stack: DeployedStack, region: string): ListedStack[] {
  const {name, owner} = stack
  const tool = owner === 'other' && name.startsWith(UNTAGGED_PREFIX) ? 'zae-limiter' : owner
  if (tool === 'other') return []
  return [{name, region, tool, ...deploymentOf(stack)}]
}

function regionOf(aws: Aws): Promise<string> {
  return callAws('list stacks', () => aws.region())
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}

export async function listTables(transport: Transport): Promise<ListedStack[]> {
  const found: ListedStack[] = []
  let after: string | undefined
  do {
    const page = await transport.send('ListTables', after === undefined ? {} : {ExclusiveStartTableName: after})
    for (const name of page.TableNames ?? []) found.push(...(await readTable(transport, name)))
    after = page.LastEvaluatedTableName
  } while (after !== undefined)
  return found
}

async function readTable(transport: Transport, name: string): Promise<ListedStack[]> {
  // `undefined`: deleted after it was listed.
  const table = await describeTable({transport, name})
  if (!table?.GlobalSecondaryIndexes?.some(({IndexName}) => IndexName === indexes.namespace)) return []
  const createdAt = table.CreationDateTime ? isoSeconds(table.CreationDateTime.getTime()) : null
  const common = {name, status: table.TableStatus ?? '', createdAt, region: null, updatedAt: null}
  return [{...common, ...(await readCreator(transport, name))}]
}

type Creator = Pick<ListedStack, 'tool' | 'version' | 'schemaVersion'>

async function readCreator(transport: Transport, stack: string): Promise<Creator> {
  // The table may have another key schema, or may have been deleted meanwhile.
  const unreadable = valueFor([ValidationFailed, TableMissing], {record: undefined})
  const {record} = await readVersion(openTable({stack, transport}).table).catch(unreadable)
  const [, writer, version = null] = /^(zael|cli|client):(.+)$/.exec(record?.updatedBy ?? '') ?? []
  const tool = writer === undefined ? null : writer === 'zael' ? 'zael' : 'zae-limiter'
  return {tool, version, schemaVersion: record?.schemaVersion ?? null}
}
