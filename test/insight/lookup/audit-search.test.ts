import {describe, expect, it} from 'vitest'
import {Unavailable} from '../../../src/lib/dynamo/errors.js'
import {findEvent, findEvents, followAudit} from '../../../src/lib/insight/lookup/audit-search.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import type {AuditRecord} from '../../../src/lib/schema/audit-record.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {newTenant} from '../../repository/namespace-table.js'

const event = (eventId: string) => ({eventId}) as AuditRecord

/** Events that a follower yields for these successive reads. */
async function follow(looks: (string[] | Error)[], shown: string[], outages: unknown[] = []): Promise<string[]> {
  const seen: string[] = []
  const since: number[] = []
  let at = 0
  const read = async (sinceMs: number) => {
    since.push(sinceMs)
    const look = looks[at++]
    if (!look) throw new Error('over')
    if (look instanceof Error) throw look
    return look.map(event)
  }
  const following = followAudit({
    read,
    shown: shown.map(event),
    clock: () => 100_000,
    sleep: async () => {},
    onOutage: error => outages.push(error),
  })
  await expect(async () => {
    for await (const {eventId} of following) seen.push(eventId)
  }).rejects.toThrow('over')
  expect(new Set(since)).toEqual(new Set([40_000]))
  return seen
}

describe('following', () => {
  it('yields every event once, oldest first', async () => {
    expect(
      await follow(
        [
          ['b', 'a'],
          ['d', 'c', 'b', 'a'],
          ['d', 'c'],
        ],
        ['b', 'a'],
      ),
    ).toEqual(['c', 'd'])
  })

  it('includes events between the list and the first read', async () => {
    expect(await follow([['c', 'b', 'a']], ['a'])).toEqual(['b', 'c'])
    expect(await follow([['a']], [])).toEqual(['a'])
  })

  it('skips events that the list left out, and includes events that an index shows late', async () => {
    expect(
      await follow(
        [
          ['c', 'b', 'a'],
          ['c', 'b', 'a'],
        ],
        ['c'],
      ),
    ).toEqual([])
    expect(await follow([['c'], ['c', 'b']], ['c'])).toEqual(['b'])
  })
})

describe('a follower that loses the table', () => {
  const lost = new Unavailable('Query', false, new Error('connect ECONNREFUSED'))

  it('resumes when the table answers, includes the events since, and reports both once', async () => {
    const outages: unknown[] = []
    expect(await follow([['a'], lost, lost, ['c', 'b', 'a'], ['d', 'c']], ['a'], outages)).toEqual(['b', 'c', 'd'])
    expect(outages).toEqual([lost, undefined])
  })

  it('resumes from its last successful read', async () => {
    const since: number[] = []
    let nowMs = 1_000_000
    const answers = [[], lost, lost, []]
    const read = async (sinceMs: number) => {
      since.push(sinceMs)
      const answer = answers.shift()
      if (!answer) throw new Error('over')
      if (answer instanceof Error) throw answer
      return answer
    }
    const sleep = async () => {
      nowMs += 3_600_000
    }
    const following = followAudit({read, shown: [], clock: () => nowMs, sleep, onOutage: () => {}})
    await expect(following.next()).rejects.toThrow('over')
    expect(since.slice(1, 4)).toEqual([since[0], since[0], since[0]])
    expect(since[4]).toBe((since[0] ?? 0) + 3 * 3_600_000)
  })
})

describeOnBoth('searching', {}, table => {
  it('finds one event among those of all entities, and none of another namespace', async () => {
    const [tenant, other] = [newTenant(table), newTenant(table)]
    const [own, foreign] = [new NamespaceRepository(tenant, 'ops'), new NamespaceRepository(other, 'ops')]
    for (const entity of ['a', 'b', 'c']) await own.audit.record({entity, action: 'x', details: {}})
    const wanted = await own.audit.record({entity: 'b', action: 'y', details: {n: 1}})
    expect(await findEvent(own, wanted.eventId, undefined)).toEqual(wanted)
    expect(await findEvent(own, wanted.eventId, 'b')).toEqual(wanted)
    const missing = {code: 'audit.missing', kind: 'notFound', details: {complete: true}}
    await expect(findEvent(own, wanted.eventId, 'a')).rejects.toMatchObject(missing)
    await expect(findEvent(foreign, wanted.eventId, undefined)).rejects.toMatchObject(missing)
    await expect(findEvent(own, 'nonsense', undefined)).rejects.toMatchObject({code: 'audit.id', kind: 'usage'})
  })

  it('stops a search after many pages and names the next command', async () => {
    const tenant = newTenant(table)
    const own = new NamespaceRepository(tenant, 'ops')
    await own.audit.record({entity: 'a', action: 'x', details: {}})
    // As if every page ended before its first match.
    tenant.transport.after = (operation, output) => {
      if (operation !== 'Query') return
      const key = {PK: {S: `${tenant.namespace}/AUDIT#a`}, SK: {S: '#AUDIT#0'}}
      const LastEvaluatedKey = {...key, GSI4PK: {S: tenant.namespace}, GSI4SK: key.PK}
      Object.assign(output as object, {Items: [], LastEvaluatedKey})
    }
    await expect(findEvent(own, '01KA0000000000000000000000', undefined)).rejects.toMatchObject({
      kind: 'notFound',
      details: {complete: false},
      hint: expect.stringContaining('--entity'),
    })
    expect(tenant.transport.count('Query')).toBe(100)
  })

  it('finds a deleted entity by its events, and rejects one that never existed', async () => {
    const own = new NamespaceRepository(newTenant(table), 'ops')
    await own.audit.record({entity: 'gone', action: 'x', details: {}})
    expect(await findEvents(own, {entity: 'gone', action: 'none'})).toEqual({records: [], next: undefined})
    expect(await findEvents(own, {entity: '$SYSTEM'})).toEqual({records: [], next: undefined})
    await expect(findEvents(own, {entity: 'never'})).rejects.toMatchObject({code: 'entity.missing'})
  })
})
