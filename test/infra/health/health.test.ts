import {expect, it} from 'vitest'
import {Denied, TableMissing, ValidationFailed} from '../../../src/lib/dynamo/errors.js'
import {gatherHealth} from '../../../src/lib/infra/health/health.js'
import type {Table} from '../../../src/lib/repository/table/table.js'
import {fakeAws, type Responses} from '../fake-aws.js'

// All parts of a stack on an emulated AWS: test/aws/status.slow.test.ts. This file covers unreadable parts.

const STACK = {
  StackName: 'prod',
  StackStatus: 'CREATE_COMPLETE',
  Tags: [
    {Key: 'ManagedBy', Value: 'zael'},
    {Key: 'zael:type', Value: 'limiter'},
  ],
  Outputs: [{OutputKey: 'AggregatorDLQArn', OutputValue: 'arn:aws:sqs:eu-west-1:1:prod-dlq'}],
}

const RESPONSES: Responses = {
  describeStacks: () => ({Stacks: [STACK]}),
  getFunction: () => ({Configuration: {State: 'Active'}}),
  getMetricData: () => ({MetricDataResults: []}),
  describeAlarms: () => ({MetricAlarms: []}),
  getQueueUrl: () => ({QueueUrl: 'http://queue'}),
  getQueueAttributes: () => ({Attributes: {ApproximateNumberOfMessages: '2'}}),
}

function denied(): never {
  throw Object.assign(new Error('no'), {name: 'AccessDenied'})
}

/** A table of which every request fails with this error. */
function failingTable(error: Error): Table {
  const transport = {send: () => Promise.reject(error)}
  const backoff = {random: Math.random, sleep: async () => {}}
  return {name: 'prod', transport, backoff, clock: () => 0} as unknown as Table
}

const read = (error: Error, responses: Responses = {}) =>
  gatherHealth({table: failingTable(error), aws: fakeAws({...RESPONSES, ...responses}).aws, ourVersion: '0.1.0'})

it('reports that a table with another key does not belong to a rate limiter', async () => {
  const transport = {
    async send(operation: string) {
      if (operation === 'BatchGetItem')
        throw new ValidationFailed(operation, new Error('The provided key element does not match'))
      return {}
    },
  }
  const table = {...failingTable(new Error()), transport} as Table
  await expect(gatherHealth({table, aws: undefined, ourVersion: '0.1.0'})).rejects.toMatchObject({
    ...{code: 'table.foreign', kind: 'conflict'},
    message: 'The table "prod" is not a rate limiter table.',
  })
})

it('reports the mapping as unknown when the table is, because the table names the stream', async () => {
  const {unknown, mapping, deadLetters, isHealthy} = await read(new Denied('DescribeTable'))
  expect(unknown.map(({part, code}) => [part, code])).toEqual([
    ['table', 'dynamo.denied'],
    ['mapping', 'dynamo.denied'],
  ])
  expect({mapping, deadLetters}).toEqual({mapping: null, deadLetters: {queue: 'prod-dlq', messages: 2}})
  expect(isHealthy).toBe(false)
})

it('reports dead letters as unknown when neither stack nor mapping names their queue', async () => {
  const Stacks = [{...STACK, Outputs: []}]
  const {unknown} = await read(new Denied('DescribeTable'), {describeStacks: () => ({Stacks})})
  expect(unknown.map(({part}) => part)).toEqual(['table', 'mapping', 'deadLetters'])
})

it('reports a stack without its table as degraded, and another stack of that name as no limiter', async () => {
  const missing = new TableMissing('DescribeTable')
  expect(await read(missing)).toMatchObject({table: null, isHealthy: false, unknown: []})
  const foreign = {describeStacks: () => ({Stacks: [{...STACK, Tags: []}]})}
  await expect(read(missing, foreign)).rejects.toBe(missing)
})

it('fails when neither stack nor table can be read', async () => {
  const error = new Denied('DescribeTable')
  await expect(read(error, {describeStacks: denied})).rejects.toBe(error)
})
