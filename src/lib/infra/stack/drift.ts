import {
  DescribeStackDriftDetectionStatusCommand,
  type DescribeStackDriftDetectionStatusOutput,
  DetectStackDriftCommand,
  paginateDescribeStackResourceDrifts,
  type StackResourceDrift,
} from '@aws-sdk/client-cloudformation'
import type {DeepReadonly} from '../../core/deep-readonly.js'
import {valueIf, ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws, collected} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/send-change.js'

export type DriftedResource = DeepReadonly<ReturnType<typeof toDriftedResource>>

// About three minutes; CloudFormation normally takes some seconds.
const MAX_READS = 60

/** Changes only CloudFormation's record of the comparison. Throws when that takes too long, or is not possible. */
export async function detectDrift(aws: Aws, stack: string, wait: WaitOptions): Promise<DriftedResource[]> {
  return callAws(`detect drift of stack "${stack}"`, async () => {
    const reads = {left: MAX_READS}
    const id = await bounded(stack, reads, wait, () => start(aws, stack))
    const {DetectionStatus: status, DetectionStatusReason: reason} = await bounded(stack, reads, wait, () =>
      read(aws, id),
    )
    if (status === 'DETECTION_FAILED') throw failed(stack, reason)
    const input = {StackName: stack, StackResourceDriftStatusFilters: ['MODIFIED' as const, 'DELETED' as const]}
    const pages = paginateDescribeStackResourceDrifts({client: await aws.cloudFormation()}, input)
    return collected(pages, page => page.StackResourceDrifts?.map(toDriftedResource))
  })
}

async function start(aws: Aws, StackName: string): Promise<string | undefined> {
  const client = await aws.cloudFormation()
  const isRunning = (error: unknown) => error instanceof Error && /already in progress/.test(error.message)
  const started = await client.send(new DetectStackDriftCommand({StackName})).catch(valueIf(isRunning, undefined))
  return started?.StackDriftDetectionId
}

async function read(aws: Aws, id: string): Promise<DescribeStackDriftDetectionStatusOutput | undefined> {
  const client = await aws.cloudFormation()
  const status = await client.send(new DescribeStackDriftDetectionStatusCommand({StackDriftDetectionId: id}))
  return status.DetectionStatus === 'DETECTION_IN_PROGRESS' ? undefined : status
}

function bounded<T>(
  stack: string,
  reads: {left: number},
  wait: WaitOptions,
  attempt: () => Promise<T | undefined>,
): Promise<T> {
  return poll(wait, () => {
    if (reads.left-- === 0) throw tooSlow(stack)
    return attempt()
  })
}

/** A value is `null` if CloudFormation does not report it. */
function toDriftedResource(drift: StackResourceDrift) {
  return {
    logicalId: drift.LogicalResourceId ?? '',
    physicalId: drift.PhysicalResourceId || null,
    type: drift.ResourceType ?? '',
    change: drift.StackResourceDriftStatus === 'DELETED' ? ('deleted' as const) : ('modified' as const),
    properties: (drift.PropertyDifferences ?? []).map(({PropertyPath, ExpectedValue, ActualValue}) => ({
      path: PropertyPath ?? '',
      expected: ExpectedValue ?? null,
      actual: ActualValue ?? null,
    })),
  }
}

function failed(stack: string, reason = 'no reason given'): ZaelError {
  const message = `CloudFormation could not detect drift of stack "${stack}": ${reason}`
  return new ZaelError('failed', 'stack.drift-failed', message, {
    hint: 'CloudFormation reads every resource with your permissions. `zael deploy --export-policy DIR` writes the policies that it needs.',
    details: {stack, reason},
  })
}

function tooSlow(stack: string): ZaelError {
  const message = `CloudFormation is still detecting drift of stack "${stack}".`
  return new ZaelError('failed', 'stack.drift-slow', message, {
    hint: `Run the same command again in a minute: zael status --stack ${stack} --drift`,
    details: {stack},
  })
}
