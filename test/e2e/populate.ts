import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import type {Transport} from '../../src/lib/dynamo/transport.js'
import {Repository} from '../../src/lib/repository/repository.js'
import type {Item} from '../../src/lib/schema/attribute-value.js'
import {encodeAudit} from '../../src/lib/schema/audit-record.js'
import {encodeUsage} from '../../src/lib/schema/usage-record.js'
import type {TestTable} from '../helpers/table.js'
import {newTenant, putBucket} from '../repository/namespace-table.js'

/** Refill times lie ahead, by less than zael reports as wrong, so levels stay fixed. */
const AHEAD_MS = 43_200_000

/** Id of the audit event that is put with a fixed time. */
export const EVENT_ID = '01KA0000000000000000000000'

/** A namespace "default" with something of every kind in it, at fixed times. */
export async function populate(table: TestTable): Promise<string> {
  // No two events in one millisecond: there the order of their ids is chance.
  let lastMs = 0
  const clock = () => {
    lastMs = Math.max(Date.now(), lastMs + 1)
    return lastMs
  }
  const repository = new Repository({stack: table.name, transport: table.transport, principal: 'ops', clock})
  const {namespace} = await repository.namespaces.register('default')
  const tenant = repository.namespaceById(namespace.id)
  await tenant.entities.create({id: 'team-1'})
  await tenant.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
  await tenant.entities.create({id: 'idle'})
  await tenant.setLimits({level: 'system'}, parseLimits(['rpm=60']))
  await tenant.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100', 'tpm=10k']))
  await putBuckets(table, namespace.id)
  await putItems(table.transport, table.name, [...usageItems(namespace.id), ...auditItems(namespace.id)])
  return namespace.id
}

async function putBuckets(table: TestTable, namespace: string): Promise<void> {
  const tenant = {...newTenant(table), namespace, nowMs: Date.now() + AHEAD_MS}
  const limits = parseLimits(['rpm=100', 'tpm=10k'])
  await putBucket(tenant, {entity: 'user-1', resource: 'gpt-4', limits, shardCount: 2, consumed: 60})
  await putBucket(tenant, {entity: 'user-2', resource: 'gpt-4', limits, consumed: 40})
  await putBucket(tenant, {entity: 'user-2', resource: 'search', limits: parseLimits(['rpm=60'])})
}

function usageItems(namespace: string): Item[] {
  const item = (entity: string, resource: string, start: string, tokens: Record<string, number>, totalEvents: number) =>
    encodeUsage({
      namespace,
      entity,
      resource,
      window: 'hourly',
      start,
      tokens: new Map(Object.entries(tokens)),
      totalEvents,
      ttlSeconds: undefined,
    })
  return [
    item('user-1', 'gpt-4', '2026-11-01T08:00:00Z', {rpm: 30, tpm: 300_000}, 30),
    item('user-1', 'gpt-4', '2026-11-01T10:00:00Z', {rpm: 60, tpm: 612_345}, 60),
    item('user-1', 'search', '2026-11-01T10:00:00Z', {rpm: 5}, 5),
    item('user-2', 'gpt-4', '2026-11-01T10:00:00Z', {rpm: 10, tpm: 1000}, 10),
  ]
}

function auditItems(namespace: string): Item[] {
  const event = {
    namespace,
    entity: 'user-1',
    eventId: EVENT_ID,
    timestamp: '2025-11-14T01:34:35Z',
    action: 'bucket_reset',
    principal: 'ops',
    resource: 'gpt-4',
    details: {shards: 2},
    ttlSeconds: 4_000_000_000,
  }
  return [encodeAudit(event)]
}

async function putItems(transport: Transport, TableName: string, items: readonly Item[]): Promise<void> {
  for (const Item of items) await transport.send('PutItem', {TableName, Item})
}
