import {describe, expect, it} from 'vitest'
import {firstFailure, followEvents, latestEventId, type StackEvent} from '../../../src/lib/infra/stack/events.js'
import {fakeAws, instantWait, inTurn} from '../fake-aws.js'

const STACK = 'arn:aws:cloudformation:eu-west-1:1:stack/prod/1'

/** An event as the SDK returns it. */
function sdkEvent(id: string, status: string, PhysicalResourceId = STACK) {
  const LogicalResourceId = PhysicalResourceId === STACK ? 'prod' : PhysicalResourceId
  return {EventId: id, StackId: STACK, PhysicalResourceId, LogicalResourceId, ResourceStatus: status}
}

/** A request that fails with an error of this name or code. */
function failing(name: string): () => never {
  return () => {
    throw Object.assign(new Error(`${name} happened`), {name, code: name})
  }
}

async function follow(pages: () => object, since?: string, more = {}) {
  const {aws, calls} = fakeAws({describeStackEvents: pages, ...more})
  const wait = instantWait()
  const statuses: string[] = []
  for await (const {id, status} of followEvents(aws, STACK, since, wait)) statuses.push(`${id} ${status}`)
  return {statuses, calls, pauses: wait.pauses}
}

describe('followEvents', () => {
  it('yields events oldest first, each once, and ends when the change of the stack is done', async () => {
    const old = sdkEvent('0', 'CREATE_COMPLETE')
    const begun = [sdkEvent('2', 'UPDATE_IN_PROGRESS', 'AggregatorFunction'), sdkEvent('1', 'UPDATE_IN_PROGRESS'), old]
    const ended = [sdkEvent('5', 'UPDATE_COMPLETE'), sdkEvent('4', 'UPDATE_COMPLETE_CLEANUP_IN_PROGRESS'), ...begun]
    const pages = inTurn({StackEvents: [old]}, {StackEvents: begun}, {StackEvents: begun}, {StackEvents: ended})
    const {statuses, pauses} = await follow(pages, '0')
    expect(statuses).toEqual([
      '1 UPDATE_IN_PROGRESS',
      '2 UPDATE_IN_PROGRESS',
      '4 UPDATE_COMPLETE_CLEANUP_IN_PROGRESS',
      '5 UPDATE_COMPLETE',
    ])
    expect(pauses).toEqual([250, 250])
  })

  it('reads further pages until it finds the last known event', async () => {
    const {aws, calls} = fakeAws({
      describeStackEvents: ({NextToken}) =>
        NextToken === undefined
          ? {StackEvents: [sdkEvent('3', 'CREATE_COMPLETE')], NextToken: 'more'}
          : {StackEvents: [sdkEvent('2', 'CREATE_IN_PROGRESS'), sdkEvent('1', 'REVIEW_IN_PROGRESS')]},
    })
    const ids: string[] = []
    for await (const {id} of followEvents(aws, STACK, '1', instantWait())) ids.push(id)
    expect(ids).toEqual(['2', '3'])
    expect(calls.map(({input}) => input.NextToken)).toEqual([undefined, 'more'])
  })

  it('reads the status of the stack when there are no events for long', async () => {
    const {statuses} = await follow(() => ({StackEvents: [sdkEvent('1', 'REVIEW_IN_PROGRESS')]}), '1', {
      describeStacks: () => ({Stacks: [{StackName: 'prod', StackStatus: 'DELETE_COMPLETE'}]}),
    })
    expect(statuses).toEqual([' DELETE_COMPLETE'])
  })

  it('continues after failed reads, and then yields all events that happened meanwhile', async () => {
    const pages = inTurn<() => object>(
      () => ({StackEvents: [sdkEvent('1', 'UPDATE_IN_PROGRESS')]}),
      ...Array.from({length: 19}, (_, i) => failing(i % 2 === 0 ? 'ECONNRESET' : 'Throttling')),
      () => ({StackEvents: [sdkEvent('2', 'UPDATE_COMPLETE'), sdkEvent('1', 'UPDATE_IN_PROGRESS')]}),
    )
    const {statuses, pauses} = await follow(() => pages()())
    expect(statuses).toEqual(['1 UPDATE_IN_PROGRESS', '2 UPDATE_COMPLETE'])
    expect(pauses).toHaveLength(19)
    expect(pauses.at(-1)).toBe(3_000)
  })

  it('gives up after twenty failed reads in a row', async () => {
    const looks = inTurn<() => object>(
      ...Array.from({length: 19}, () => failing('ECONNRESET')),
      () => ({StackEvents: [sdkEvent('1', 'UPDATE_IN_PROGRESS')]}),
      failing('ECONNRESET'),
    )
    const {aws, calls} = fakeAws({describeStackEvents: () => looks()()})
    const following = followEvents(aws, STACK, undefined, instantWait())
    expect((await following.next()).value).toMatchObject({id: '1'})
    await expect(following.next()).rejects.toMatchObject({
      code: 'stack.out-of-sight',
      kind: 'failed',
      message: expect.stringContaining('AWS did not respond'),
    })
    expect(calls).toHaveLength(40)
  })

  it('gives up at once on a permanent error, with the exit code of the cause', async () => {
    const {aws, calls} = fakeAws({describeStackEvents: failing('ExpiredToken')})
    const following = followEvents(aws, STACK, undefined, instantWait())
    await expect(following.next()).rejects.toMatchObject({code: 'stack.out-of-sight', kind: 'access'})
    expect(calls).toHaveLength(1)
  })

  it('stops when the signal is aborted', async () => {
    const stop = new AbortController()
    const {aws} = fakeAws({describeStackEvents: () => ({StackEvents: []})})
    const wait = {sleep: async () => stop.abort(), signal: stop.signal}
    await expect(followEvents(aws, STACK, undefined, wait).next()).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('starts after the newest event', async () => {
    const {aws} = fakeAws({
      describeStackEvents: () => ({StackEvents: [sdkEvent('7', 'CREATE_COMPLETE'), sdkEvent('6', 'X')]}),
    })
    expect(await latestEventId(aws, STACK)).toBe('7')
  })
})

describe('firstFailure', () => {
  const event = (logicalId: string, status: string, reason: string | null, isOfStack = false): StackEvent => {
    return {id: logicalId, at: new Date(0), logicalId, physicalId: null, type: 'X', status, reason, isOfStack}
  }

  it('is the cause, not a resource that was cancelled because of it', () => {
    const events = [
      event('Queue', 'CREATE_FAILED', 'Resource creation cancelled'),
      event('Role', 'CREATE_FAILED', 'A role of that name already exists'),
      event('Function', 'CREATE_FAILED', 'Something later'),
      event('prod', 'UPDATE_FAILED', 'The following resource(s) failed', true),
    ]
    expect(firstFailure(events)?.logicalId).toBe('Role')
  })

  it('is a cancelled resource when there is no other failure, and undefined without failures', () => {
    expect(firstFailure([event('Queue', 'CREATE_FAILED', 'Resource creation cancelled')])?.logicalId).toBe('Queue')
    expect(firstFailure([event('Queue', 'CREATE_COMPLETE', null)])).toBeUndefined()
  })
})
