import {paginateDescribeStacks} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import {forEachConcurrently} from '../../dynamo/concurrency.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {isOptional, regionsWith} from '../health/regions.js'
import {deploymentOf} from '../health/stack.js'
import {type DeployedStack, type StackOwner, toDeployedStack} from './reader.js'

/** One limiter that somebody has deployed. */
export interface ListedStack {
  readonly name: string
  /** `null`: a table of a local engine. */
  readonly region: string | null
  /** The tool that deployed it; `null`: nobody knows. */
  readonly tool: Exclude<StackOwner, 'other'> | null
  readonly status: string
  readonly version: string | null
  readonly schemaVersion: string | null
  /** ISO 8601, UTC. */
  readonly createdAt: string | null
  readonly updatedAt: string | null
}

/** A region that could not be asked. */
export interface RefusedRegion {
  readonly region: string
  readonly code: string
  readonly reason: string
}

export interface StackList {
  readonly stacks: readonly ListedStack[]
  readonly refused: readonly RefusedRegion[]
  /** Regions that the account has not asked for; nothing can be deployed there. */
  readonly notEnabled: readonly string[]
}

const REGIONS_AT_ONCE = 8

/** What early versions of the Python tool put before the name of a stack, at a time when it had no tags. */
const UNTAGGED_PREFIX = 'ZAEL-'

/** The limiters of one region by their tags, whichever tool deployed them; sorted by name. */
export async function listStacks(aws: Aws): Promise<ListedStack[]> {
  const region = await regionOf(aws)
  return callAws(`list the stacks of ${region}`, async () => {
    const found: ListedStack[] = []
    for await (const {Stacks = []} of paginateDescribeStacks({client: await aws.cloudFormation()}, {})) {
      for (const each of Stacks) found.push(...listed(toDeployedStack(each), region))
    }
    return found.sort((a, b) => (a.name < b.name ? -1 : 1))
  })
}

/** The limiters of all regions that the credentials are good for. Regions that refuse are named; if all do, it fails. */
export async function listStacksEverywhere(home: Aws, open: (region: string) => Aws): Promise<StackList> {
  const stacks: ListedStack[] = []
  const refused: RefusedRegion[] = []
  const notEnabled: string[] = []
  const regions = regionsWith(await regionOf(home))
  let lastError: unknown
  await forEachConcurrently(each(regions), REGIONS_AT_ONCE, async region => {
    using aws = open(region)
    try {
      stacks.push(...(await listStacks(aws)))
    } catch (error) {
      if (!(error instanceof ZaelError)) throw error
      lastError = error
      // Where a region is switched off, credentials are as good as none.
      if (isOptional(region) && error.code === 'aws.credentials') notEnabled.push(region)
      else refused.push({region, code: error.code, reason: error.message})
    }
  })
  if (refused.length + notEnabled.length === regions.length) throw lastError
  stacks.sort((a, b) => (a.name === b.name ? compare(a.region ?? '', b.region ?? '') : compare(a.name, b.name)))
  return {stacks, refused: refused.sort((a, b) => compare(a.region, b.region)), notEnabled: notEnabled.sort()}
}

function listed(stack: DeployedStack, region: string): ListedStack[] {
  const {name, owner} = stack
  const tool = owner === 'other' && name.startsWith(UNTAGGED_PREFIX) ? 'zae-limiter' : owner
  if (tool === 'other') return []
  return [{name, region, tool, ...deploymentOf(stack)}]
}

function regionOf(aws: Aws): Promise<string> {
  return callAws('list stacks', () => aws.region())
}

async function* each(regions: readonly string[]): AsyncGenerator<string, void> {
  yield* regions
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
