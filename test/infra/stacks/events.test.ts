import {describe, expect, it} from 'vitest'
import {firstFailure, followEvents, latestEventId, type StackEvent} from '../../../src/lib/infra/stacks/events.js'
import {fakeAws, inTurn, noWaiting} from '../fake-aws.js'

const STACK = 'arn:aws:cloudformation:eu-west-1:1:stack/prod/1'

/** As the SDK tells it. */
function told(id: string, status: string, PhysicalResourceId = STACK) {
  const LogicalResourceId = PhysicalResourceId === STACK ? 'prod' : PhysicalResourceId
  return {EventId: id, StackId: STACK, PhysicalResourceId, LogicalResourceId, ResourceStatus: status}
}

/** A look that fails with an error of this name or code. */
function failing(name: string): () => never {
  return () => {
    throw Object.assign(new Error(`${name} happened`), {name, code: name})
  }
}

async function follow(pages: () => object, since?: string, more = {}) {
  const {aws, calls} = fakeAws({describeStackEvents: pages, ...more})
  const waiting = noWaiting()
  const statuses: string[] = []
  for await (const {id, status} of followEvents(aws, STACK, since, waiting)) statuses.push(`${id} ${status}`)
  return {statuses, calls, pauses: waiting.pauses}
}

describe('followEvents', () => {
  it('tells events oldest first, each once, and ends when the stack rests', async () => {
    const old = told('0', 'CREATE_COMPLETE')
    const begun = [told('2', 'UPDATE_IN_PROGRESS', 'AggregatorFunction'), told('1', 'UPDATE_IN_PROGRESS'), old]
    const ended = [told('5', 'UPDATE_COMPLETE'), told('4', 'UPDATE_COMPLETE_CLEANUP_IN_PROGRESS'), ...begun]
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

  it('reads on to the next page until it meets the event it knows', async () => {
    const {aws, calls} = fakeAws({
      describeStackEvents: ({NextToken}) =>
        NextToken === undefined
          ? {StackEvents: [told('3', 'CREATE_COMPLETE')], NextToken: 'more'}
          : {StackEvents: [told('2', 'CREATE_IN_PROGRESS'), told('1', 'REVIEW_IN_PROGRESS')]},
    })
    const ids: string[] = []
    for await (const {id} of followEvents(aws, STACK, '1', noWaiting())) ids.push(id)
    expect(ids).toEqual(['2', '3'])
    expect(calls.map(({input}) => input.NextToken)).toEqual([undefined, 'more'])
  })

  it('asks the stack itself when nothing is heard for long', async () => {
    const {statuses} = await follow(() => ({StackEvents: [told('1', 'REVIEW_IN_PROGRESS')]}), '1', {
      describeStacks: () => ({Stacks: [{StackName: 'prod', StackStatus: 'DELETE_COMPLETE'}]}),
    })
    expect(statuses).toEqual([' DELETE_COMPLETE'])
  })

  it('looks on while AWS is out of reach, and tells everything that happened meanwhile', async () => {
    const pages = inTurn<() => object>(
      () => ({StackEvents: [told('1', 'UPDATE_IN_PROGRESS')]}),
      ...Array.from({length: 19}, (_, i) => failing(i % 2 === 0 ? 'ECONNRESET' : 'Throttling')),
      () => ({StackEvents: [told('2', 'UPDATE_COMPLETE'), told('1', 'UPDATE_IN_PROGRESS')]}),
    )
    const {statuses, pauses} = await follow(() => pages()())
    expect(statuses).toEqual(['1 UPDATE_IN_PROGRESS', '2 UPDATE_COMPLETE'])
    expect(pauses).toHaveLength(19)
    expect(pauses.at(-1)).toBe(3_000)
  })

  it('gives up after twenty looks in a row without an answer, and does not hide what goes on', async () => {
    const looks = inTurn<() => object>(
      ...Array.from({length: 19}, () => failing('ECONNRESET')),
      () => ({StackEvents: [told('1', 'UPDATE_IN_PROGRESS')]}),
      failing('ECONNRESET'),
    )
    const {aws, calls} = fakeAws({describeStackEvents: () => looks()()})
    const following = followEvents(aws, STACK, undefined, noWaiting())
    expect((await following.next()).value).toMatchObject({id: '1'})
    await expect(following.next()).rejects.toMatchObject({
      code: 'stack.out-of-sight',
      kind: 'failed',
      message: expect.stringContaining('AWS gives no answer'),
    })
    expect(calls).toHaveLength(40)
  })

  it('gives up at once when waiting cannot help, with the exit code of the reason', async () => {
    const {aws, calls} = fakeAws({describeStackEvents: failing('ExpiredToken')})
    const following = followEvents(aws, STACK, undefined, noWaiting())
    await expect(following.next()).rejects.toMatchObject({code: 'stack.out-of-sight', kind: 'access'})
    expect(calls).toHaveLength(1)
  })

  it('stops when the signal says so', async () => {
    const stop = new AbortController()
    const {aws} = fakeAws({describeStackEvents: () => ({StackEvents: []})})
    const waiting = {sleep: async () => stop.abort(), signal: stop.signal}
    await expect(followEvents(aws, STACK, undefined, waiting).next()).rejects.toMatchObject({code: 'dynamo.aborted'})
  })

  it('begins after the newest event there is', async () => {
    const {aws} = fakeAws({describeStackEvents: () => ({StackEvents: [told('7', 'CREATE_COMPLETE'), told('6', 'X')]})})
    expect(await latestEventId(aws, STACK)).toBe('7')
  })
})

describe('firstFailure', () => {
  const event = (logicalId: string, status: string, reason: string | null, isOfStack = false): StackEvent => {
    return {id: logicalId, at: new Date(0), logicalId, physicalId: null, type: 'X', status, reason, isOfStack}
  }

  it('is the cause and not what was cancelled for it', () => {
    const events = [
      event('Queue', 'CREATE_FAILED', 'Resource creation cancelled'),
      event('Role', 'CREATE_FAILED', 'A role of that name already exists'),
      event('Function', 'CREATE_FAILED', 'Something later'),
      event('prod', 'UPDATE_FAILED', 'The following resource(s) failed', true),
    ]
    expect(firstFailure(events)?.logicalId).toBe('Role')
  })

  it('is a cancelled one when there is no other, and none when nothing failed', () => {
    expect(firstFailure([event('Queue', 'CREATE_FAILED', 'Resource creation cancelled')])?.logicalId).toBe('Queue')
    expect(firstFailure([event('Queue', 'CREATE_COMPLETE', null)])).toBeUndefined()
  })
})
