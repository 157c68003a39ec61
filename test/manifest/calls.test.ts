import {expect, it} from 'vitest'
import type {Operation} from '../../src/lib/dynamo/transport.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {putBucket} from '../repository/namespace-table.js'
import {apply, newNamespace, type TestNamespace} from './support.js'

const ENTITIES = 10
const RESOURCES = 10
const BUCKETS = ENTITIES * RESOURCES

/** Limits of the same rate for every entity; with `raised`, the first has another one. */
const manifest = (rate: string, raised = rate) =>
  ['entities:', ...range(ENTITIES).map(at => `  user-${at}: {limits: {rpm: ${at === 0 ? raised : rate}}}`)].join('\n')

const range = (count: number) => Array.from({length: count}, (_, at) => at)

async function withBuckets({tenant}: TestNamespace, capacity: number): Promise<void> {
  const limits = [{name: 'rpm', capacity, refillAmount: capacity, refillPeriodSeconds: 60}]
  const ttlSeconds = tenant.nowMs / 1000 + 86_400
  for (const at of range(BUCKETS)) {
    const [entity, resource] = [`user-${at % ENTITIES}`, `r${Math.floor(at / ENTITIES)}`]
    await putBucket(tenant, {entity, resource, limits, ttlSeconds})
  }
}

describeOnBoth('the requests of an apply', {timeout: 60_000}, table => {
  async function counted(namespace: TestNamespace, text: string) {
    const {tenant, repository} = namespace
    tenant.transport.calls.length = 0
    const {outcome, buckets} = await apply(repository, text)
    expect(outcome).toBe('complete')
    const all: readonly Operation[] = [...tenant.transport.calls]
    return {count: (operation: Operation) => all.filter(each => each === operation).length, all, buckets}
  }

  it('are five for each entity and one for each live bucket that changes', async () => {
    const namespace = newNamespace(table)
    await withBuckets(namespace, 5)
    const {count, all, buckets} = await counted(namespace, manifest('6/min'))
    expect(buckets).toEqual({checked: BUCKETS, updated: BUCKETS, failed: 0})
    // One transaction, the addresses of the buckets, and three batch reads: stored limits, buckets, and limits that apply to them.
    expect([count('TransactWriteItems'), count('Query')]).toEqual([ENTITIES, ENTITIES])
    // One more for the plan, and one to compare at the end.
    expect(count('BatchGetItem')).toBe(3 * ENTITIES + 2)
    // The record of managed scopes is read for the plan and at the end, and written before and after.
    expect(count('UpdateItem')).toBe(BUCKETS + 2)
    expect(count('GetItem')).toBeLessThanOrEqual(5)
    expect(all.length).toBeLessThanOrEqual(5 * ENTITIES + BUCKETS + 9)
  })

  it('skip buckets that already have the limits', async () => {
    const namespace = newNamespace(table)
    await withBuckets(namespace, 6)
    const {count, buckets} = await counted(namespace, manifest('6/min'))
    expect(buckets).toEqual({checked: BUCKETS, updated: 0, failed: 0})
    expect(count('UpdateItem')).toBe(2)
  })

  it('cover only changes: one entity of ten, and nothing the second time', async () => {
    const namespace = newNamespace(table)
    await withBuckets(namespace, 5)
    await counted(namespace, manifest('5/min'))
    const one = await counted(namespace, manifest('5/min', '9/min'))
    expect(one.buckets).toEqual({checked: RESOURCES, updated: RESOURCES, failed: 0})
    expect(one.all.length).toBeLessThanOrEqual(5 + RESOURCES + 8)
    const none = await counted(namespace, manifest('5/min', '9/min'))
    // The managed scopes, the units of the namespace, and the limits.
    expect([...none.all].sort()).toEqual(['BatchGetItem', 'GetItem', 'GetItem'])
  })
})
