import {paginateListStacks} from '@aws-sdk/client-cloudformation'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {readStack, readStackResources} from '../stacks/reader.js'
import {LOGICAL_ID} from '../stacks/template.js'

/**
 * The bucket of audit events that the last stack of this name left; `undefined` when there is none. CloudFormation tells
 * of a deleted stack, and of what stayed of it, for 90 days. Only stacks of zael count, by their tags.
 */
export async function findFormerArchive(aws: Aws, name: string): Promise<string | undefined> {
  for (const id of await deletedStackIds(aws, name)) {
    if ((await readStack(aws, id))?.owner !== 'zael') continue
    const left = await readStackResources(aws, id)
    // A plan that was never carried out had nothing to leave, and hides no earlier stack.
    if (left.length > 0) return left.find(({logicalId}) => logicalId === LOGICAL_ID.archive)?.physicalId ?? undefined
  }
  return undefined
}

/** The one that was deleted last comes first. */
async function deletedStackIds(aws: Aws, name: string): Promise<string[]> {
  return callAws(`look for deleted stacks "${name}"`, async () => {
    const found: {readonly id: string; readonly at: number}[] = []
    const client = await aws.cloudFormation()
    for await (const page of paginateListStacks({client}, {StackStatusFilter: ['DELETE_COMPLETE']})) {
      for (const {StackName, StackId: id = '', DeletionTime: at} of page.StackSummaries ?? []) {
        if (StackName === name) found.push({id, at: at?.getTime() ?? 0})
      }
    }
    return found.toSorted((a, b) => b.at - a.at).map(({id}) => id)
  })
}
