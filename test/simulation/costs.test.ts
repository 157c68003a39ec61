import {describe, expect, it} from 'vitest'
import {Costs, type QuietDecision} from './oracles/costs.js'
import {Verdicts} from './oracles/verdicts.js'
import {withTable} from './page.js'
import type {ShardChange, StoredShard, TableRequest} from './world/table-writes.js'

const BUCKET = 'ns/u0/gpt-4'
const DECISION = {what: 'acquire u0', process: 0, fromMs: 10, untilMs: 20, buckets: [BUCKET]} as const

function shard(shardCount = 1): ShardChange {
  const stored: StoredShard = {
    refilledAt: 1n,
    shardCount,
    refused: new Map(),
    requests: 1,
    bypass: undefined,
    limits: new Map(),
    marks: new Map(),
    feedback: new Map(),
  }
  return {namespace: 'ns', entity: 'u0', resource: 'gpt-4', shard: 0, bucket: BUCKET, before: stored, after: stored}
}

function request(kind: TableRequest['kind'], fields: Partial<TableRequest> = {}): TableRequest {
  const units = {tableUnits: kind === 'applied' ? 1 : 0, indexUnits: 0}
  return {atMs: 15, process: 0, operation: 'UpdateItem', kind, ...units, shards: [shard()], ...fields}
}

function judge(as: QuietDecision['as'], requests: readonly TableRequest[], disturb?: (costs: Costs) => void): string[] {
  const verdicts = new Verdicts(() => 0)
  const costs = new Costs(verdicts)
  for (const each of requests) costs.observeRequest(each)
  disturb?.(costs)
  costs.judge({...DECISION, as})
  return verdicts.violations.map(({oracle}) => oracle)
}

describe('L7, L8, S4: costs of decisions', () => {
  it('allows an admission one write, and one refused write before it', () => {
    const [read, refused, applied] = [request('read'), request('refused'), request('applied')]
    expect(judge('admitted', [read, refused, applied])).toEqual([])
    expect(judge('admitted', [applied, applied])).toEqual(['L7-calls'])
    expect(judge('admitted', [refused, refused, applied])).toEqual(['L7-calls'])
    expect(judge('admitted', [...Array.from({length: 8}, () => read), applied])).toEqual(['L7-calls'])
  })

  it('allows a refusal no write, and a read-only operation only reads', () => {
    expect(judge('refused', [request('read'), request('refused')])).toEqual([])
    expect(judge('refused', [request('applied')])).toEqual(['S4-refusal'])
    // A request that only updates the limits is judged differently.
    const [change] = [shard()]
    const limit = {capacity: 1n, amount: 1n, period: 1n, tokens: 0n, consumed: 0n}
    const after = {...(change.after as StoredShard), limits: new Map([['rpm', limit as never]])}
    const aligned = request('applied', {shards: [{...change, after}]})
    expect(judge('refused', [aligned])).toEqual([])
    expect(judge('refused', [aligned, request('applied')])).toEqual(['S4-refusal'])
    expect(judge('looked', [request('read')])).toEqual([])
    expect(judge('looked', [request('refused')])).toEqual(['L8-wrote'])
  })

  it('skips calls that other processes or other times may have caused', () => {
    const twice = [request('applied'), request('applied')]
    const other = {atMs: 1015, writer: {kind: 'limiter', process: 1}, changes: []} as const
    expect(judge('admitted', twice, costs => costs.observe({...other, shards: [shard()]}, 1000))).toEqual([])
    const own = {...other, writer: {kind: 'limiter', process: 0}} as const
    expect(judge('admitted', twice, costs => costs.observe({...own, shards: [shard()]}, 1000))).toEqual(['L7-calls'])
    expect(judge('admitted', twice, costs => costs.observe({...own, shards: [shard(2)]}, 1000))).toEqual([])
    expect(judge('admitted', [request('applied'), request('applied', {atMs: 21})])).toEqual([])
  })

  it('allows one unit per write of an existing bucket, and none in an index', () => {
    expect(judge('admitted', [request('applied', {tableUnits: 2})])).toEqual(['L7-units'])
    expect(judge('admitted', [request('applied', {indexUnits: 1})])).toEqual(['L7-units'])
    const created = {...shard(), before: undefined}
    expect(judge('admitted', [request('applied', {indexUnits: 3, shards: [created]})])).toEqual([])
  })
})

describe('the page about testing', () => {
  const page = [
    '<!-- seeds, written by: npm run simulate -- --seeds N --write -->',
    'old seeds',
    '<!-- end of seeds -->',
    '<!-- orders, written by: npm run simulate -- --orders N --write -->',
    'old orders',
    '<!-- end of orders -->',
  ].join('\n')

  it('replaces the table that a run has figures for, and keeps the others', () => {
    const after = withTable(page, 'seeds', 'new seeds')
    expect(after).toContain('new seeds')
    expect(after).not.toContain('old seeds')
    expect(after).toContain('old orders')
    expect(() => withTable(page, 'faults', 'x')).toThrow('no place for the table of faults')
  })
})
