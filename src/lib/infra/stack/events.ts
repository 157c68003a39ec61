import {
  DescribeStackEventsCommand,
  paginateDescribeStackEvents,
  type StackEvent as SdkStackEvent,
} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import {Aborted} from '../../dynamo/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/send-change.js'
import {readStack} from './reader.js'

export type StackEvent = Readonly<ReturnType<typeof toStackEvent>>

// About 20 seconds. Events can be late, and a stack needs a moment to begin a change.
const READS_BEFORE_STATUS_CHECK = 10

// About 45 seconds, in addition to the SDK's own attempts for each read.
const MAX_FAILED_READS = 20

const TRANSIENT = new Set(['aws.unavailable', 'aws.throttled'])

/** The events of a changing stack can no longer be read; CloudFormation continues the change. */
class OutOfSight extends ZaelError {
  constructor(reason: ZaelError) {
    const {kind, message, hint, code} = reason
    super(kind, 'stack.out-of-sight', message, {...(hint && {hint}), details: {reason: code}, cause: reason})
  }
}

export async function latestEventId(aws: Aws, stackId: string): Promise<string | undefined> {
  return callAws('read the events of the stack', async () => {
    const client = await aws.cloudFormation()
    const {StackEvents: [newest] = []} = await client.send(new DescribeStackEventsCommand({StackName: stackId}))
    return newest?.EventId
  })
}

/** Yields new events, oldest first, until the stack is complete, failed or rolled back. Throws `OutOfSight`. */
export async function* followEvents(
  aws: Aws,
  stackId: string,
  since: string | undefined,
  wait: WaitOptions,
): AsyncGenerator<StackEvent, StackEvent> {
  let last = since
  let emptyReads = 0
  let failedReads = 0
  const readNew = async () => {
    const events = await readEventsAfter(aws, stackId, last)
    if (events.length > 0) return events
    emptyReads++
    return emptyReads % READS_BEFORE_STATUS_CHECK === 0 ? await readFinalEvent(aws, stackId) : undefined
  }
  for (;;) {
    const newEvents = await poll(wait, async () => {
      try {
        const events = await readNew()
        failedReads = 0
        return events
      } catch (error) {
        if (!(error instanceof ZaelError) || error instanceof Aborted) throw error
        failedReads++
        if (!TRANSIENT.has(error.code) || failedReads === MAX_FAILED_READS) throw new OutOfSight(error)
        return undefined
      }
    })
    for (const event of newEvents) {
      last = event.id
      yield event
      if (event.isOfStack && !event.status.endsWith('_IN_PROGRESS')) return event
    }
  }
}

/** Synthesizes the event of a change that ended without one, as for an empty stack; `undefined`: still changing. */
async function readFinalEvent(aws: Aws, stackId: string): Promise<StackEvent[] | undefined> {
  const {status = 'DELETE_COMPLETE', name = '', statusReason: reason = null} = (await readStack(aws, stackId)) ?? {}
  if (status.endsWith('_IN_PROGRESS')) return undefined
  const type = 'AWS::CloudFormation::Stack'
  return [{id: '', at: new Date(0), logicalId: name, physicalId: stackId, type, status, reason, isOfStack: true}]
}

const CANCELLED = /cancell?ed/i

/** Resources cancelled because of the first failure also report one, without the cause. */
export function firstFailure(events: readonly StackEvent[]): StackEvent | undefined {
  const failed = events.filter(({status}) => status.endsWith('_FAILED'))
  const isCause = ({isOfStack, reason}: StackEvent) => !isOfStack && !CANCELLED.test(reason ?? '')
  return failed.find(isCause) ?? failed[0]
}

/** CloudFormation returns events newest first. */
async function readEventsAfter(aws: Aws, stackId: string, since: string | undefined): Promise<StackEvent[]> {
  return callAws('read the events of the stack', async () => {
    const events: StackEvent[] = []
    const pages = paginateDescribeStackEvents({client: await aws.cloudFormation()}, {StackName: stackId})
    for await (const {StackEvents = []} of pages) {
      for (const event of StackEvents) {
        if (event.EventId === since) return events.reverse()
        events.push(toStackEvent(event))
      }
    }
    return events.reverse()
  })
}

function toStackEvent(event: SdkStackEvent) {
  return {
    id: event.EventId ?? '',
    at: event.Timestamp ?? new Date(0),
    logicalId: event.LogicalResourceId ?? '',
    physicalId: event.PhysicalResourceId || null,
    type: event.ResourceType ?? '',
    status: event.ResourceStatus ?? '',
    reason: event.ResourceStatusReason ?? null,
    isOfStack: event.PhysicalResourceId === event.StackId,
  }
}
