import {paginateListStacks} from '@aws-sdk/client-cloudformation'
import {HeadBucketCommand} from '@aws-sdk/client-s3'
import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'
import {LOGICAL_ID} from './artifacts.js'
import {readStack, readStackResources, type StackResource} from './reader.js'

/** Without `retained`: the bucket of the last deleted stack of this name. `undefined`: none, or it no longer exists. */
export async function findArchive(
  aws: Aws,
  name: string,
  retained: readonly StackResource[] | undefined,
  {isRequired}: {readonly isRequired: boolean},
): Promise<string | undefined> {
  let bucket: string | undefined
  try {
    const resources = retained ?? (await readFormerStack(aws, name))?.resources
    bucket = resources?.find(({logicalId}) => logicalId === LOGICAL_ID.archive)?.physicalId ?? undefined
    return bucket !== undefined && (await bucketExists(aws, bucket)) ? bucket : undefined
  } catch (error) {
    // An archive that is kept need not be readable.
    if (!isRequired && error instanceof ZaelError && !(error instanceof Aborted)) return bucket
    throw error
  }
}

/** The last one of zael. CloudFormation lists deleted stacks and their retained resources for 90 days. */
export async function readFormerStack(aws: Aws, name: string) {
  for (const {id, at: deletedAtMs} of await listDeletedStacks(aws, name)) {
    const stack = await readStack(aws, id)
    if (stack?.owner !== 'zael') continue
    const resources = await readStackResources(aws, id)
    // A plan that was never executed has no resources; an earlier stack may have some.
    if (resources.length > 0) return {createdAt: stack.createdAt, deletedAtMs, resources}
  }
  return undefined
}

async function listDeletedStacks(aws: Aws, name: string) {
  return callAws(`look for deleted stacks "${name}"`, async () => {
    const deleted = {StackStatusFilter: ['DELETE_COMPLETE' as const]}
    const pages = paginateListStacks({client: await aws.cloudFormation()}, deleted)
    const found = (await collected(pages, page => page.StackSummaries)).filter(({StackName}) => StackName === name)
    return found
      .map(({StackId: id = '', DeletionTime: at}) => ({id, at: at?.getTime() ?? 0}))
      .sort((a, b) => b.at - a.at)
  })
}

/** Also true when the caller may not read the bucket. */
async function bucketExists(aws: Aws, Bucket: string): Promise<boolean> {
  return callAws(`look for the bucket "${Bucket}"`, async () => {
    const client = await aws.s3()
    return client.send(new HeadBucketCommand({Bucket})).then(
      () => true,
      error => {
        const status: number = error?.$metadata?.httpStatusCode ?? 0
        if (status === 404) return false
        if (status >= 300 && status < 500) return true
        throw error
      },
    )
  })
}
