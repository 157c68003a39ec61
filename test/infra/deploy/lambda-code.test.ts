import {describe, expect, it} from 'vitest'
import {waitForEventSource} from '../../../src/lib/infra/deploy/deploy.js'
import {updateFunctionCode} from '../../../src/lib/infra/deploy/planned-change.js'
import {fakeAws, instantWait, inTurn} from '../fake-aws.js'

const CODE = {zip: Buffer.from('zip'), sha256Base64: 'new', bytes: 3}
const ACTIVE = {State: 'Active', LastUpdateStatus: 'Successful', Architectures: ['arm64']}

describe('updateFunctionCode', () => {
  it('uploads nothing when the function has that code already', async () => {
    const {aws, calls} = fakeAws({getFunctionConfiguration: () => ({...ACTIVE, CodeSha256: 'new'})})
    expect(await updateFunctionCode(aws, 'f', CODE, instantWait())).toEqual({updated: false, sha256Base64: 'new'})
    expect(calls.map(({name}) => name)).toEqual(['getFunctionConfiguration'])
  })

  it('uploads other code for the current architecture, publishes no version, and waits until it is active', async () => {
    const states = inTurn(
      {...ACTIVE, CodeSha256: 'old', State: 'Pending'},
      {...ACTIVE, CodeSha256: 'old'},
      {...ACTIVE, CodeSha256: 'new', LastUpdateStatus: 'InProgress'},
      {...ACTIVE, CodeSha256: 'new'},
    )
    const {aws, calls} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    const wait = instantWait()
    expect(await updateFunctionCode(aws, 'f', CODE, wait)).toEqual({updated: true, sha256Base64: 'new'})
    expect(calls.map(({name}) => name)).toEqual([
      'getFunctionConfiguration',
      'getFunctionConfiguration',
      'updateFunctionCode',
      'getFunctionConfiguration',
      'getFunctionConfiguration',
    ])
    expect(calls[2]?.input).toEqual({FunctionName: 'f', ZipFile: CODE.zip, Architectures: ['arm64'], Publish: false})
    expect(wait.pauses).toHaveLength(2)
  })

  it('reports why an update failed', async () => {
    const states = inTurn(
      {...ACTIVE, CodeSha256: 'old'},
      {...ACTIVE, LastUpdateStatus: 'Failed', LastUpdateStatusReason: 'The role cannot be assumed'},
    )
    const {aws} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    await expect(updateFunctionCode(aws, 'f', CODE, instantWait())).rejects.toMatchObject({
      code: 'lambda.failed',
      message: 'Function "f" could not be updated: The role cannot be assumed',
    })
  })

  it('fails when another deployment has replaced the code meanwhile', async () => {
    const states = inTurn({...ACTIVE, CodeSha256: 'old'}, {...ACTIVE, CodeSha256: 'theirs'})
    const {aws} = fakeAws({getFunctionConfiguration: states, updateFunctionCode: () => ({})})
    await expect(updateFunctionCode(aws, 'f', CODE, instantWait())).rejects.toMatchObject({code: 'lambda.raced'})
  })
})

describe('waitForEventSource', () => {
  it('C-10 waits while the mapping is changing, and no longer', async () => {
    const states = inTurn({State: 'Creating'}, {State: 'Enabling'}, {State: 'Enabled'})
    const {aws} = fakeAws({getEventSourceMapping: states})
    const wait = instantWait()
    expect(await waitForEventSource(aws, 'id', wait)).toBe('Enabled')
    expect(wait.pauses).toEqual([250, 375])
  })

  it('does not wait for a mapping that was disabled by hand', async () => {
    const {aws} = fakeAws({getEventSourceMapping: () => ({State: 'Disabled'})})
    const wait = instantWait()
    expect(await waitForEventSource(aws, 'id', wait)).toBe('Disabled')
    expect(wait.pauses).toEqual([])
  })
})
