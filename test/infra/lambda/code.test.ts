import {describe, expect, it} from 'vitest'
import {waitForEventSource} from '../../../src/lib/infra/deploy/event-source.js'
import {updateFunctionCode} from '../../../src/lib/infra/lambda/code.js'
import {fakeAws, inTurn, noWaiting} from '../fake-aws.js'

const CODE = {zip: Buffer.from('zip'), sha256Base64: 'new', bytes: 3}
const ACTIVE = {State: 'Active', LastUpdateStatus: 'Successful', Architectures: ['arm64']}

describe('updateFunctionCode', () => {
  it('uploads nothing when the function runs that code already', async () => {
    const {aws, calls} = fakeAws({getFunctionConfiguration: () => ({...ACTIVE, CodeSha256: 'new'})})
    expect(await updateFunctionCode(aws, 'f', CODE, noWaiting())).toEqual({updated: false, sha256Base64: 'new'})
    expect(calls.map(({name}) => name)).toEqual(['getFunctionConfiguration'])
  })

  it('uploads other code for the processor it has, publishes nothing, and waits until it runs', async () => {
    const states = inTurn(
      {...ACTIVE, CodeSha256: 'old', State: 'Pending'},
      {...ACTIVE, CodeSha256: 'old'},
      {...ACTIVE, CodeSha256: 'new', LastUpdateStatus: 'InProgress'},
      {...ACTIVE, CodeSha256: 'new'},
    )
    const {aws, calls} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    const waiting = noWaiting()
    expect(await updateFunctionCode(aws, 'f', CODE, waiting)).toEqual({updated: true, sha256Base64: 'new'})
    expect(calls.map(({name}) => name)).toEqual([
      'getFunctionConfiguration',
      'getFunctionConfiguration',
      'updateFunctionCode',
      'getFunctionConfiguration',
      'getFunctionConfiguration',
    ])
    expect(calls[2]?.input).toEqual({FunctionName: 'f', ZipFile: CODE.zip, Architectures: ['arm64'], Publish: false})
    expect(waiting.pauses).toHaveLength(2)
  })

  it('tells why an update failed', async () => {
    const states = inTurn(
      {...ACTIVE, CodeSha256: 'old'},
      {...ACTIVE, LastUpdateStatus: 'Failed', LastUpdateStatusReason: 'The role cannot be assumed'},
    )
    const {aws} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    await expect(updateFunctionCode(aws, 'f', CODE, noWaiting())).rejects.toMatchObject({
      code: 'lambda.failed',
      message: 'Function "f" could not be updated: The role cannot be assumed',
    })
  })

  it('does not claim code that somebody else replaced meanwhile', async () => {
    const states = inTurn({...ACTIVE, CodeSha256: 'old'}, {...ACTIVE, CodeSha256: 'theirs'})
    const {aws} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    await expect(updateFunctionCode(aws, 'f', CODE, noWaiting())).rejects.toMatchObject({code: 'lambda.raced'})
  })
})

describe('awaitEventSource', () => {
  it('waits while the mapping is on its way, and no longer (C-10)', async () => {
    const states = inTurn({State: 'Creating'}, {State: 'Enabling'}, {State: 'Enabled'})
    const {aws} = fakeAws({getEventSourceMapping: states})
    const waiting = noWaiting()
    expect(await waitForEventSource(aws, 'id', waiting)).toBe('Enabled')
    expect(waiting.pauses).toEqual([250, 375])
  })

  it('does not wait for one that somebody has disabled', async () => {
    const {aws} = fakeAws({getEventSourceMapping: () => ({State: 'Disabled'})})
    const waiting = noWaiting()
    expect(await waitForEventSource(aws, 'id', waiting)).toBe('Disabled')
    expect(waiting.pauses).toEqual([])
  })
})
