import {describe, expect, it} from 'vitest'
import {checkWarmThroughput, leftMaxima} from '../../../src/lib/infra/deploy/plan.js'
import {tableLike} from '../fake-aws.js'

const WARM = tableLike({WarmThroughput: {ReadUnitsPerSecond: 30_000, WriteUnitsPerSecond: 10_000}})

describe('warm throughput', () => {
  it.each([
    ['is raised', WARM, {WarmReadUnits: '30001', WarmWriteUnits: '10000'}],
    ['is not given', WARM, {}],
    ['belongs to a new table', tableLike(null), {WarmReadUnits: '12000'}],
    ['is not reported, as by an emulator', tableLike({}), {WarmWriteUnits: '4000'}],
  ])('is accepted where it %s', async (_, table, given) => {
    await expect(checkWarmThroughput(table, given)).resolves.toBeUndefined()
  })

  it('is refused before anything is planned where it would be lowered', async () => {
    await expect(checkWarmThroughput(WARM, {WarmWriteUnits: '9999'})).rejects.toMatchObject({
      kind: 'conflict',
      code: 'deploy.warm-throughput',
      message:
        '--warm-throughput-writes is 9,999, but the table can already serve 10,000 units a second, which cannot be lowered.',
      hint: 'Nothing was changed. Omit --warm-throughput-writes, or give 10000 or more.',
    })
  })
})

describe('a maximum that a deployment removes', () => {
  const removed = [{option: 'onDemandMaxWrites', before: '500', after: ''}]

  it('is reported when it is still there, with the command that removes it', async () => {
    const table = tableLike({OnDemandThroughput: {MaxReadRequestUnits: 7, MaxWriteRequestUnits: 500}})
    expect(await leftMaxima(table, removed)).toEqual([
      'CloudFormation kept the maximum of 500 write units a second. To remove it: ' +
        'aws dynamodb update-table --table-name prod --on-demand-throughput MaxWriteRequestUnits=-1',
    ])
    expect(await leftMaxima(table, [{option: 'onDemandMaxWrites', before: '', after: '500'}])).toEqual([])
  })

  it('is not mentioned when it is gone', async () => {
    expect(await leftMaxima(tableLike({OnDemandThroughput: {MaxWriteRequestUnits: -1}}), removed)).toEqual([])
    expect(await leftMaxima(tableLike({}), removed)).toEqual([])
  })
})
