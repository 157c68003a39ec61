import {describe, expect, it} from 'vitest'
import type {Aws} from '../../../src/lib/infra/aws/clients.js'
import {listStacks, listStacksEverywhere, partitionRegions} from '../../../src/lib/infra/stack/list-stacks.js'
import {fakeAws} from '../fake-aws.js'

const ZAEL = [
  {Key: 'ManagedBy', Value: 'zael'},
  {Key: 'zael:type', Value: 'limiter'},
]

const inRegion = (region: string, describeStacks: () => object): Aws => {
  return {...fakeAws({describeStacks}).aws, region: async () => region}
}

const failing = (name: string) => () => {
  throw Object.assign(new Error(name), {name})
}

describe('the regions of a partition', () => {
  it('are the regions where the credentials are valid, including the configured region', () => {
    expect(partitionRegions('cn-north-1')).toEqual(['cn-north-1', 'cn-northwest-1'])
    expect(partitionRegions('us-gov-west-1')).toEqual(['us-gov-east-1', 'us-gov-west-1'])
    expect(partitionRegions('eu-west-1').length).toBeGreaterThan(30)
    expect(partitionRegions('mars-north-1')).toContain('mars-north-1')
  })
})

describe('a list of stacks', () => {
  it('has the limiters of both tools by name, including untagged ones of early versions, and no other stacks', async () => {
    const Stacks = [
      {StackName: 'b', Tags: ZAEL},
      {StackName: 'billing', Tags: [{Key: 'team', Value: 'x'}]},
      {StackName: 'ZAEL-old'},
      {StackName: 'a', Tags: ZAEL},
    ]
    const listed = await listStacks(inRegion('eu-west-1', () => ({Stacks})))
    expect(listed.map(({name, tool}) => [name, tool])).toEqual([
      ['ZAEL-old', 'zae-limiter'],
      ['a', 'zael'],
      ['b', 'zael'],
    ])
  })

  it('distinguishes regions that refuse from opt-in regions that are not enabled', async () => {
    const open = (region: string) => {
      const isRefused = region === 'af-south-1' || region === 'eu-west-1'
      const Stacks = [{StackName: region, Tags: ZAEL}]
      return inRegion(region, isRefused ? failing('UnrecognizedClientException') : () => ({Stacks}))
    }
    const {stacks, refused, notEnabled} = await listStacksEverywhere(open('eu-west-1'), open)
    expect(notEnabled).toEqual(['af-south-1'])
    expect(refused).toMatchObject([{region: 'eu-west-1', code: 'aws.credentials'}])
    expect(stacks).toHaveLength(partitionRegions('eu-west-1').length - 2)
  })

  it('fails when every region refuses', async () => {
    const open = (region: string) => inRegion(region, failing('AccessDenied'))
    await expect(listStacksEverywhere(open('cn-north-1'), open)).rejects.toMatchObject({code: 'aws.denied'})
  })
})
