import {expect, it} from 'vitest'
import {LATEST_ULID_MS, ulidTimeMs} from '../../../src/lib/core/ulid.js'
import {RequestFailed, Unavailable} from '../../../src/lib/dynamo/errors.js'
import {Configs} from '../../../src/lib/repository/limits/configs.js'
import {Audit, type AuditSelection, storedAuditRetention} from '../../../src/lib/repository/table/audit.js'
import {transact} from '../../../src/lib/repository/table/transact.js'
import type {AuditRecord} from '../../../src/lib/schema/audit-record.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {entityItem, scanNamespace} from '../namespace-items.js'
import {newTenant, put, stored, type TestTenant} from '../namespace-table.js'

const START = 1_800_000_000_000

/** One event per second: `count` of them, every third one of action `rare`, spread over the entities. */
async function history(tenant: TestTenant, count: number, entities: string[]): Promise<AuditRecord[]> {
  const audit = new Audit(tenant)
  const records: AuditRecord[] = []
  for (let i = 0; i < count; i++) {
    tenant.nowMs = START + i * 1000
    const entity = entities[i % entities.length] as string
    records.push(await audit.record({entity, action: i % 3 === 0 ? 'rare' : 'common', details: {i}}))
  }
  return records.reverse()
}

describeOnBoth('audit', {}, table => {
  /** Follows the cursors; returns the pages. */
  async function pages(
    read: (cursor: string | undefined) => Promise<{records: readonly AuditRecord[]; next?: string | undefined}>,
  ) {
    const found: AuditRecord[][] = []
    let cursor: string | undefined
    do {
      const page = await read(cursor)
      found.push([...page.records])
      cursor = page.next
    } while (cursor !== undefined)
    return found
  }

  it('writes an event as other clients do', async () => {
    const tenant = newTenant(table)
    const audit = new Audit(tenant, {principal: 'arn:aws:iam::1:user/x', retentionDays: async () => 10})
    const event = {entity: 'user-1', action: 'limits_set', resource: 'gpt-4', details: {limits: [], n: 1}}
    const record = await audit.record(event)
    expect(ulidTimeMs(record.eventId)).toBe(START)
    expect(await stored(tenant, keys.audit(tenant.namespace, 'user-1', record.eventId))).toEqual({
      PK: {S: `${tenant.namespace}/AUDIT#user-1`},
      SK: {S: `#AUDIT#${record.eventId}`},
      entity_id: {S: 'user-1'},
      event_id: {S: record.eventId},
      timestamp: {S: '2027-01-15T08:00:00Z'},
      action: {S: 'limits_set'},
      principal: {S: 'arn:aws:iam::1:user/x'},
      resource: {S: 'gpt-4'},
      details: {M: {limits: {L: []}, n: {N: '1'}}},
      ttl: {N: String(START / 1000 + 10 * 86_400)},
      GSI4PK: {S: tenant.namespace},
      GSI4SK: {S: `${tenant.namespace}/AUDIT#user-1`},
    })
    expect(await audit.get('user-1', record.eventId)).toEqual(record)
    expect(await audit.get('user-2', record.eventId)).toBeUndefined()
  })

  it('keeps events for 90 days by default', async () => {
    const record = await new Audit(newTenant(table)).record({entity: '$SYSTEM', action: 'x', details: {}})
    expect(record.ttlSeconds).toBe(START / 1000 + 90 * 86_400)
    expect(record.principal).toBeUndefined()
  })

  it('accepts an author of up to 256 printable characters, or an ARN', () => {
    const by = (principal: string) => () => new Audit(newTenant(table), {principal})
    const accepted = ['dependabot[bot]', 'Ada Lovelace <ada@example.com>', 'x'.repeat(256), `arn:${'x'.repeat(500)}`]
    for (const principal of accepted) expect(by(principal)).not.toThrow()
    const refused = ['', ' x', 'two\nlines', '\u202egnp', 'x'.repeat(257), `arn:${'x'.repeat(2048)}`]
    for (const principal of refused) expect(by(principal)).toThrow(/printable characters/)
  })

  it('reads the stored retention once a minute, and again after a failure or when the clock was set back', async () => {
    const tenant = newTenant(table)
    const days = storedAuditRetention(tenant)
    const set = (auditRetentionDays: number) =>
      new Configs(tenant, {audit: new Audit(tenant)}).set({level: 'system'}, [], {auditRetentionDays})
    expect(await days()).toBeUndefined()
    await set(30)
    tenant.nowMs += 59_999
    expect(await days()).toBeUndefined()
    tenant.nowMs += 1
    expect(await days()).toBe(30)
    await set(60)
    tenant.nowMs -= 1
    expect(await days()).toBe(60)
    tenant.nowMs += 60_000
    tenant.transport.before = async () => {
      throw new RequestFailed('GetItem')
    }
    await expect(days()).rejects.toBeInstanceOf(RequestFailed)
    tenant.transport.before = () => {}
    expect(await days()).toBe(60)
  })

  it('S6 writes an event once when the response is lost', async () => {
    const tenant = newTenant(table)
    let losses = 1
    tenant.transport.after = operation => {
      if (operation === 'PutItem' && losses-- > 0) throw new Unavailable(operation, true)
    }
    const record = await new Audit(tenant).record({entity: 'e', action: 'x', details: {}})
    expect(tenant.transport.calls).toEqual(['PutItem', 'PutItem'])
    expect((await new Audit(tenant).list({entity: 'e'})).records).toEqual([record])
  })

  it('looks up the principal when an event is written, and not before', async () => {
    const tenant = newTenant(table)
    let asked = 0
    const audit = new Audit(tenant, {
      principal: async () => {
        asked++
        return 'arn:aws:sts::1:assumed-role/ops/me'
      },
    })
    await audit.list({entity: 'e'})
    await audit.listAll()
    expect(asked).toBe(0)
    const {Put} = await audit.put({entity: 'e', action: 'x', details: {}})
    expect(Put).toMatchObject({Item: {principal: {S: 'arn:aws:sts::1:assumed-role/ops/me'}}})
    expect(await audit.record({entity: 'e', action: 'x', details: {}})).toMatchObject({
      principal: 'arn:aws:sts::1:assumed-role/ops/me',
    })
    expect(asked).toBe(2)
    const anonymous = new Audit(tenant, {principal: async () => undefined})
    expect((await anonymous.record({entity: 'e', action: 'x', details: {}})).principal).toBeUndefined()
    const odd = new Audit(tenant, {principal: async () => 'two\nlines'})
    await expect(odd.record({entity: 'e', action: 'x', details: {}})).rejects.toThrow(/printable characters/)
  })

  it('joins the transaction of the change: both or neither', async () => {
    const tenant = newTenant(table)
    const audit = new Audit(tenant)
    const change = (entity: string) => ({
      Put: {
        TableName: tenant.name,
        Item: entityItem(tenant.namespace, entity),
        ConditionExpression: 'attribute_not_exists(PK)',
      },
    })
    await put(tenant, entityItem(tenant.namespace, 'taken'))
    const event = {action: 'x', details: {}}
    await transact(tenant, [change('free'), await audit.put({entity: 'free', ...event})])
    await expect(transact(tenant, [change('taken'), await audit.put({entity: 'taken', ...event})])).rejects.toThrow()
    expect((await audit.list({entity: 'free'})).records).toHaveLength(1)
    expect((await audit.list({entity: 'taken'})).records).toEqual([])
  })

  it('lists one entity newest first, page by page, with any page size', async () => {
    const tenant = newTenant(table)
    const audit = new Audit(tenant)
    const expected = await history(tenant, 12, ['e'])
    await history(tenant, 3, ['f'])
    for (const limit of [1, 3, 5, 12, 13, undefined]) {
      const found = await pages(cursor => audit.list({entity: 'e', limit, cursor}))
      expect(found.flat()).toEqual(expected)
      expect(found.map(page => page.length)).toEqual(
        Array.from({length: Math.ceil(12 / (limit ?? 12))}, (_, i) => Math.min(limit ?? 12, 12 - i * (limit ?? 12))),
      )
    }
  })

  it('finds by action and by time, both ends included, in the query itself', async () => {
    const tenant = newTenant(table)
    const audit = new Audit(tenant)
    const all = await history(tenant, 30, ['e', 'f'])
    const select = (entity: string | undefined, {sinceMs = 0, untilMs = LATEST_ULID_MS, action}: AuditSelection) =>
      all.filter(record => {
        const atMs = ulidTimeMs(record.eventId) as number
        return (
          (entity === undefined || record.entity === entity) &&
          atMs >= sinceMs &&
          atMs <= untilMs &&
          (action === undefined || record.action === action)
        )
      })
    const ranges = [
      {},
      {sinceMs: START + 5000},
      {untilMs: START + 9000},
      {sinceMs: START + 3000, untilMs: START + 20_000},
    ]
    for (const range of ranges) {
      for (const action of [undefined, 'rare', 'never']) {
        const selection = {...range, action}
        const ofOne = await pages(cursor => audit.list({entity: 'e', ...selection, limit: 2, cursor}))
        expect(ofOne.flat()).toEqual(select('e', selection))
        expect(ofOne.slice(0, -1).every(page => page.length === 2)).toBe(true)
        const ofAll = await pages(cursor => audit.listAll({...selection, limit: 4, cursor}))
        expect(ofAll.flat()).toEqual(select(undefined, selection))
        expect(ofAll.slice(0, -1).every(page => page.length === 4)).toBe(true)
      }
    }
    tenant.transport.calls.length = 0
    let read = 0
    tenant.transport.after = (_, output) => {
      read += (output as {ScannedCount?: number}).ScannedCount ?? 0
    }
    await audit.list({entity: 'e', sinceMs: START + 20_000})
    expect(read).toBe(5)
    expect(tenant.transport.calls).toEqual(['Query'])
  })

  it('finds rare actions without a request per event', async () => {
    const tenant = newTenant(table)
    await history(tenant, 30, ['e'])
    tenant.transport.calls.length = 0
    const {records} = await new Audit(tenant).list({entity: 'e', action: 'rare', limit: 9})
    expect(records).toHaveLength(9)
    expect(tenant.transport.calls).toEqual(['Query'])
  })

  it('S11 shows only events of its namespace', async () => {
    const tenant = newTenant(table)
    const longer = {...tenant, namespace: `${tenant.namespace}x`}
    const record = await new Audit(tenant).record({entity: 'e', action: 'x', details: {}})
    await new Audit(longer).record({entity: 'e', action: 'x', details: {}})
    expect((await new Audit(tenant).listAll()).records).toEqual([record])
    expect(await scanNamespace(tenant, tenant.namespace)).toHaveLength(1)
  })

  it('refuses invalid selections', async () => {
    const tenant = newTenant(table)
    const audit = new Audit(tenant)
    await history(tenant, 3, ['e', 'f'])
    const foreign = (await audit.list({entity: 'e', limit: 1})).next as string
    const list = (selection: AuditSelection) => audit.list({entity: 'f', ...selection})
    for (const read of [list, (selection: AuditSelection) => audit.listAll(selection)]) {
      await expect(read({limit: 0})).rejects.toMatchObject({code: 'page.limit', kind: 'usage'})
      await expect(read({limit: 1.5})).rejects.toMatchObject({code: 'page.limit'})
      await expect(read({cursor: '{nonsense}'})).rejects.toMatchObject({code: 'page.cursor', kind: 'usage'})
      await expect(read({sinceMs: 2, untilMs: 1})).rejects.toMatchObject({code: 'audit.range'})
    }
    await expect(list({cursor: foreign})).rejects.toMatchObject({code: 'page.cursor'})
  })
})
