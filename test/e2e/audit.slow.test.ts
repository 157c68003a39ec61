import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {hostname, userInfo} from 'node:os'
import {createInterface} from 'node:readline/promises'
import {beforeAll, expect, it, vi} from 'vitest'
import {Repository} from '../../src/lib/repository/repository.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {EVENT_ID, populate} from './populate.js'
import {tableCli} from './table-cli.js'
import {BIN} from './zael.js'

describeOnEngine('zael audit', () => {
  const table = useTable()
  const cli = tableCli(table)

  beforeAll(async () => {
    await populate(table)
  })

  it('list shows events with details', async () => {
    expect(await cli.show('audit list --until 2026-01-01', 80)).toMatchInlineSnapshot(`
      "TIME (UTC)            ACTION        ENTITY  RESOURCE  BY   DETAILS
      2026-01-01T00:00:00Z  bucket_reset  user-1  gpt-4     ops  shards: 2
      "
    `)
    expect(
      await cli.show('audit list user-1 --action bucket_reset --columns time,id,details', 120),
    ).toMatchInlineSnapshot(`
      "TIME (UTC)            ID                          DETAILS
      2026-01-01T00:00:00Z  01KA0000000000000000000000  shards: 2
      "
    `)
  })

  it('list --json matches its schema, pages, and filters by action and time', async () => {
    const first = await cli.tell('audit list --limit 4')
    const second = await cli.tell(`audit list --cursor ${first.next}`)
    const events = [...first.events, ...second.events]
    expect(events).toHaveLength(6)
    expect(events.map(({id}) => id)).toEqual(
      events
        .map(({id}) => id)
        .toSorted()
        .toReversed(),
    )
    expect(await cli.tell('audit list --action entity_created --since 1h')).toMatchObject({
      events: [{entity: 'idle'}, {entity: 'user-1'}, {entity: 'team-1', principal: 'ops'}],
      next: null,
    })
  })

  it('list and show name the author: the user and host on a local engine, or ZAEL_PRINCIPAL', async () => {
    const env = {ZAEL_PRINCIPAL: 'ci[bot]'}
    expect(await cli.run('entity create by-user')).toMatchObject({code: 0})
    expect(await cli.run('entity create by-name', env)).toMatchObject({code: 0})
    const authorOf = async (entity: string) => (await cli.tell(`audit list ${entity}`)).events[0].principal
    expect([await authorOf('by-user'), await authorOf('by-name')]).toEqual([
      `${userInfo().username}@${hostname()}`,
      'ci[bot]',
    ])
    const {events} = await cli.tell('audit list by-name')
    expect((await cli.run(`audit show ${events[0].id}`)).stdout).toMatch(/^ {2}by +ci\[bot\]$/m)
  })

  it('refuses an author that is not printable before it changes anything', async () => {
    const outcome = await cli.run('entity create never --json', {ZAEL_PRINCIPAL: 'two\nlines'})
    expect([outcome.code, JSON.parse(outcome.stdout).error.code]).toEqual([2, 'audit.principal'])
    expect(await cli.fail('entity show never')).toMatchObject({code: 3})
  })

  it('names the author of changes by the library: its option, or ZAEL_PRINCIPAL', async () => {
    vi.stubEnv('ZAEL_PRINCIPAL', 'billing-service')
    try {
      const options = {stack: table.name, transport: table.transport}
      await (await new Repository(options).namespace()).entities.create({id: 'by-service'})
      await (await new Repository({...options, principal: 'job-7'}).namespace()).entities.create({id: 'by-job'})
    } finally {
      vi.unstubAllEnvs()
    }
    expect((await cli.tell('audit list by-service')).events).toMatchObject([{principal: 'billing-service'}])
    expect((await cli.tell('audit list by-job')).events).toMatchObject([{principal: 'job-7'}])
  })

  it('list names a missing entity, and refuses bad input', async () => {
    expect(await cli.fail('audit list user-l')).toMatchObject({code: 3, error: {code: 'entity.missing'}})
    expect(await cli.fail('audit list --since 10:00')).toMatchObject({code: 2, error: {code: 'time.syntax'}})
    expect(await cli.tell(`audit list '$RESOURCE:none'`)).toEqual({events: [], next: null})
  })

  it('list --follow prints new events once, until it is interrupted', async () => {
    const repository = new Repository({stack: table.name, transport: table.transport})
    const {entities} = await repository.namespace()
    // First: an entity that is not there cannot be followed.
    await entities.create({id: 'fresh'})
    const child = spawn(process.execPath, [BIN, 'audit', 'list', 'fresh', '--follow', '--json', ...cli.flags], {
      env: {PATH: process.env.PATH, NO_COLOR: '1'},
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const closed = once(child, 'close')
    try {
      const seen: string[] = []
      for await (const line of createInterface({input: child.stdout})) {
        seen.push(JSON.parse(line).action)
        if (seen.length === 1) await entities.update('fresh', {name: 'Fresh'})
        else break
      }
      expect(seen).toEqual(['entity_created', 'entity_updated'])
    } finally {
      child.kill('SIGINT')
    }
    const [code, signal] = await closed
    // A shell reports death by this signal as 130.
    expect({code, signal}).toEqual({code: null, signal: 'SIGINT'})
  })

  it('show finds an event by its id alone, or with its entity', async () => {
    expect(await cli.run(`audit show ${EVENT_ID}`)).toMatchObject({code: 0, stdout: expect.any(String), stderr: ''})
    expect((await cli.run(`audit show ${EVENT_ID}`, {COLUMNS: '80'})).stdout).toMatchInlineSnapshot(`
      "Event 01KA0000000000000000000000
        time        2025-11-14T01:34:35Z
        action      bucket_reset
        entity      user-1
        resource    gpt-4
        by          ops
        kept until  2096-10-02T07:06:40.000Z
        details     shards: 2
      "
    `)
    const event = await cli.tell(`audit show ${EVENT_ID}`)
    expect(event).toMatchObject({id: EVENT_ID, entity: 'user-1', details: {shards: 2}})
    expect(await cli.tell(`audit show ${EVENT_ID} --entity user-1`)).toEqual(event)
    expect(await cli.fail(`audit show ${EVENT_ID} --entity user-2`)).toMatchObject({
      code: 3,
      error: {code: 'audit.missing'},
    })
    expect(await cli.fail(`audit show ${EVENT_ID.replace(/0$/, '1')}`)).toMatchObject({code: 3})
    expect(await cli.fail('audit show 17')).toMatchObject({code: 2, error: {code: 'audit.id'}})
  })
})
