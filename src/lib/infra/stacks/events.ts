import {DescribeStackEventsCommand, type StackEvent as SdkStackEvent} from '@aws-sdk/client-cloudformation'
import {ZaelError} from '../../core/errors.js'
import type {Aws} from '../aws/clients.js'
import {callAws} from '../aws/errors.js'
import {poll, type WaitOptions} from '../aws/poll.js'
import {readStack} from './reader.js'

/** Something that happened to a resource of a stack, or to the stack itself. */
export interface StackEvent {
  readonly id: string
  readonly at: Date
  readonly logicalId: string
  readonly physicalId: string | null
  readonly type: string
  /** Such as CREATE_IN_PROGRESS. */
  readonly status: string
  readonly reason: string | null
  /** The event is about the stack as a whole. */
  readonly isOfStack: boolean
}

// About 20 seconds. Events come late at times, and a stack that was told to change needs a moment to begin.
const QUIET_LOOKS = 10

// About three quarters of a minute, besides the attempts that the SDK makes for each look.
const BLIND_LOOKS = 20

/** Failures that pass by themselves. */
const PASSING = new Set(['aws.unavailable', 'aws.throttled'])

/** A stack that changes cannot be watched any more; CloudFormation goes on by itself. */
export class OutOfSight extends ZaelError {
  constructor(reason: ZaelError) {
    const {kind, message, hint, code} = reason
    super(kind, 'stack.out-of-sight', message, {...(hint && {hint}), details: {reason: code}, cause: reason})
  }
}

/** The newest event so far, from which to follow; `undefined` for a stack without any. */
export async function latestEventId(aws: Aws, stackId: string): Promise<string | undefined> {
  return callAws('read the events of the stack', async () => {
    const client = await aws.cloudFormation()
    const {StackEvents: [newest] = []} = await client.send(new DescribeStackEventsCommand({StackName: stackId}))
    return newest?.EventId
  })
}

/**
 * Events after the given one, oldest first and as they come, until the stack rests: complete, failed or rolled back.
 * Throws `OutOfSight` when they cannot be read any more.
 */
export async function* followEvents(
  aws: Aws,
  stackId: string,
  since: string | undefined,
  waiting: WaitOptions,
): AsyncGenerator<StackEvent, StackEvent> {
  let last = since
  let quietLooks = 0
  let blindLooks = 0
  const look = async () => {
    const events = await eventsAfter(aws, stackId, last)
    if (events.length > 0) return events
    quietLooks++
    return quietLooks % QUIET_LOOKS === 0 ? await restOf(aws, stackId) : undefined
  }
  for (;;) {
    const fresh = await poll(waiting, async () => {
      try {
        const events = await look()
        blindLooks = 0
        return events
      } catch (error) {
        if (!(error instanceof ZaelError)) throw error
        blindLooks++
        if (!PASSING.has(error.code) || blindLooks === BLIND_LOOKS) throw new OutOfSight(error)
        return undefined
      }
    })
    for (const event of fresh) {
      last = event.id
      yield event
      if (event.isOfStack && !event.status.endsWith('_IN_PROGRESS')) return event
    }
  }
}

/** The end of a stack that rests without an event that says so, such as that of an empty one; else `undefined`. */
async function restOf(aws: Aws, stackId: string): Promise<StackEvent[] | undefined> {
  const {status = 'DELETE_COMPLETE', name = '', statusReason: reason = null} = (await readStack(aws, stackId)) ?? {}
  if (status.endsWith('_IN_PROGRESS')) return undefined
  const type = 'AWS::CloudFormation::Stack'
  return [{id: '', at: new Date(0), logicalId: name, physicalId: stackId, type, status, reason, isOfStack: true}]
}

const CANCELLED = /cancell?ed/i

/** The failure that began it: what was cancelled because of it comes later and says nothing. */
export function firstFailure(events: readonly StackEvent[]): StackEvent | undefined {
  const failed = events.filter(({status}) => status.endsWith('_FAILED'))
  const isCause = ({isOfStack, reason}: StackEvent) => !isOfStack && !CANCELLED.test(reason ?? '')
  return failed.find(isCause) ?? failed[0]
}

/** Newest first is how CloudFormation tells them, page by page. */
async function eventsAfter(aws: Aws, stackId: string, since: string | undefined): Promise<StackEvent[]> {
  return callAws('read the events of the stack', async () => {
    const client = await aws.cloudFormation()
    const fresh: StackEvent[] = []
    let token: string | undefined
    do {
      const page = await client.send(
        new DescribeStackEventsCommand({StackName: stackId, ...(token === undefined ? {} : {NextToken: token})}),
      )
      for (const event of page.StackEvents ?? []) {
        if (event.EventId === since) return fresh.reverse()
        fresh.push(toStackEvent(event))
      }
      token = page.NextToken
    } while (token !== undefined)
    return fresh.reverse()
  })
}

function toStackEvent(event: SdkStackEvent): StackEvent {
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
