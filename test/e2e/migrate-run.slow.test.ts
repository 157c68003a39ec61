import {spawn} from 'node:child_process'
import {once} from 'node:events'
import {text} from 'node:stream/consumers'
import {expect, inject, it} from 'vitest'
import {readMigration} from '../../src/lib/migrate/walk/lease.js'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {encodeVersion} from '../../src/lib/schema/version-record.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {oldBucketItem} from '../migrate/old-clients.js'
import {useOldTable} from '../migrate/old-table-scene.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'
import {BIN} from './zael.js'

const entity = (id: string, name: string): Item => ({
  PK: s(`ENTITY#${id}`),
  SK: s('#META'),
  entity_id: s(id),
  name: s(name),
  parent_id: {NULL: true},
  metadata: {M: {}},
  created_at: s('2026-01-01T00:00:00Z'),
})

/** A small table of 0.8, with an unknown item. */
const items: Item[] = [
  {PK: s('SYSTEM#'), SK: s('#VERSION'), schema_version: s('0.8.0'), lambda_version: s('0.8.0')},
  {
    PK: s('SYSTEM#'),
    SK: s('#CONFIG'),
    config_version: n(1),
    l_rpm_cp: n(100),
    l_rpm_bx: n(150),
    l_rpm_ra: n(100),
    l_rpm_rp: n(60),
  },
  ...['user-1', 'user-2'].flatMap(id => [
    entity(id, id),
    oldBucketItem(`ENTITY#${id}`, 60, 1_700_000_000_000, 'composite'),
  ]),
  {PK: s('LOCK#deploy'), SK: s('#META'), owner: s('somebody')},
]

describeOnEngine('zael migrate', () => {
  const scene = useOldTable(4, () => items)
  const cli = tableCli(scene)
  const named = (text: string) => text.replaceAll(scene.name, 'STACK')
  const json = async (command: string, code: number) => {
    const outcome = await cli.run(`${command} --json`)
    expect({code: outcome.code, stderr: outcome.stderr}).toEqual({code, stderr: ''})
    const result = JSON.parse(outcome.stdout)
    expect(schemaProblems(command.split(' ').slice(0, 2).join(' '), result)).toEqual([])
    return result
  }

  it('run --dry-run, verify and an early cleanup write nothing', async () => {
    const before = await scene.items()
    expect(await json('migrate run --dry-run', 0)).toMatchObject({dryRun: true, plan: {pending: true}, result: null})
    expect(await json('migrate verify', 6)).toMatchObject({clean: false, checked: {entity: 2, bucket: 2}})
    expect(await cli.fail(`migrate cleanup --confirm ${scene.name}`)).toMatchObject({
      code: 6,
      error: {code: 'migrate.not-clean'},
    })
    expect(await scene.items()).toEqual(before)
  })

  it('run asks for confirmation, and refuses an unknown step', async () => {
    const before = await scene.items()
    expect(await cli.fail('migrate run')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect((await cli.run('migrate run --yes --until nonsense')).code).toBe(2)
    expect((await cli.run('migrate run --yes --rate-limit 0')).code).toBe(2)
    expect((await cli.run('migrate run --dry-run --follow 1m')).code).toBe(2)
    expect(await cli.fail('migrate run --yes --follow soon')).toMatchObject({code: 2, error: {code: 'duration.syntax'}})
    const early = await cli.fail('migrate run --yes --follow 1m --until data')
    expect(early).toMatchObject({code: 2, error: {code: 'migrate.follow'}})
    expect(await scene.items()).toEqual(before)
  })

  it('run migrates the table, and prints its progress', async () => {
    const {result} = await json('migrate run --yes --until configuration --rate-limit 500', 0)
    expect(result).toMatchObject({
      finished: false,
      steps: expect.arrayContaining([expect.objectContaining({id: 'data', state: 'pending'})]),
    })
    expect(named(await cli.show('migrate run --yes', 80))).toMatchInlineSnapshot(`
      "Stack "STACK" has the current layout; this run resumed an interrupted run

      STEP           STATE  CHECKED  WRITTEN  EXPIRED  CONFLICTS
      indexes        done         0        3        0          0
      namespaces     done         0        1        0          0
      configuration  done         3        3        0          0
      limits         done         0        0        0          0
      data           done         2        2        0          0
      catch-up       done         5        0        0          0
      version        done         0        1        0          0

      1 item of unknown format (unchanged):
        LOCK#deploy #META

      Next:
        zael migrate verify -s STACK  compare every old item with its new one
      "
    `)
    // Follows for one pass, and finds nothing new.
    expect(await json('migrate run --yes --follow 1ms', 0)).toMatchObject({result: {finished: true, settled: true}})
    expect(named(await cli.show('migrate run --yes', 120))).toMatchInlineSnapshot(`
      "Stack "STACK": nothing to do

      STEP           STATE  CHECKED  WRITTEN  EXPIRED  CONFLICTS
      indexes        done         0        0        0          0
      namespaces     done         0        0        0          0
      configuration  done         3        0        0          0
      limits         done         0        0        0          0
      data           done         2        0        0          0
      catch-up       done         0        0        0          0
      version        done         0        0        0          0

      1 item of unknown format (unchanged):
        LOCK#deploy #META

      Next:
        zael migrate verify -s STACK  compare every old item with its new one
      "
    `)
  })

  it('verify shows differences, and resolve resolves a conflict', async () => {
    await cli.tell('entity update user-1 --name One')
    await scene.own.send('PutItem', {TableName: scene.name, Item: entity('user-1', 'Uno')})
    await scene.own.send('PutItem', {TableName: scene.name, Item: entity('user-2', 'Due')})
    const {code, stdout} = await cli.run('migrate verify', {COLUMNS: '80'})
    expect({code, stdout: named(stdout)}).toMatchInlineSnapshot(`
      {
        "code": 6,
        "stdout": "Stack "STACK": 6 old items compared, 2 differences

      Differences:
        ENTITY#user-1 #META: changed in both layouts
        ENTITY#user-2 #META: changed in the old layout

      1 item of unknown format (unchanged):
        LOCK#deploy #META

      Next:
        zael migrate run -s STACK                                       migrate the differences
        zael migrate resolve 'ENTITY#user-1 #META' --keep new -s STACK  resolve a conflict
      ",
      }
    `)
    expect((await json('migrate run --yes', 6)).result.conflicts).toEqual({
      count: 1,
      shown: [{type: 'entity', key: 'ENTITY#user-1 #META', state: 'conflict', reason: expect.any(String)}],
    })
    expect(await cli.fail(`migrate resolve 'ENTITY#user-9 #META' --keep old`)).toMatchObject({code: 3})
    expect(await cli.fail('migrate resolve nonsense --keep old')).toMatchObject({code: 2, error: {code: 'migrate.key'}})
    expect((await cli.run(`migrate resolve 'ENTITY#user-1 #META'`)).code).toBe(2)
    expect(await cli.tell(`migrate resolve 'ENTITY#user-1 #META' --keep new`)).toEqual({
      stack: scene.name,
      key: 'ENTITY#user-1 #META',
      kept: 'new',
      settled: 1,
      left: {count: 0, shown: []},
    })
    expect(named(await cli.show('migrate verify', 120))).toMatchInlineSnapshot(`
      "Stack "STACK": 6 old items compared, all migrated

      1 item of unknown format (unchanged):
        LOCK#deploy #META

      Next:
        zael migrate cleanup -s STACK  delete the old items
      "
    `)
  })

  it('cleanup requires the name, deletes old records and keeps unknown ones', async () => {
    expect(await cli.fail('migrate cleanup')).toMatchObject({code: 2, error: {code: 'confirm.needed'}})
    expect(await cli.fail('migrate cleanup --confirm other')).toMatchObject({code: 2, error: {code: 'confirm.name'}})
    expect(named(await cli.show(`migrate cleanup --confirm ${scene.name}`, 80))).toMatchInlineSnapshot(`
      "Deleted 6 old items of stack "STACK"

      1 item of unknown format (unchanged):
        LOCK#deploy #META
      "
    `)
    expect(await json(`migrate cleanup --confirm ${scene.name}`, 0)).toMatchObject({
      deleted: {entity: 0},
      unknown: {count: 1},
    })
    expect((await scene.census()).old).toEqual({})
    expect((await cli.tell('entity show user-2')).name).toBe('Due')
  })
})

describeOnEngine('zael migrate run that is interrupted', () => {
  const scene = useOldTable(4, () => items)
  const flags = ['--stack', scene.name, '--endpoint-url', inject('engineEndpoint')]

  it('exits with 130, says how to resume, and the next run does', async () => {
    // So slow that it is certainly still at it.
    const args = [BIN, 'migrate', 'run', '--yes', '--rate-limit', '1', '--json', ...flags]
    const child = spawn(process.execPath, args, {stdio: ['ignore', 'pipe', 'inherit']})
    try {
      const ended = once(child, 'exit')
      const said = text(child.stdout)
      await expect
        .poll(() => readMigration(scene.table))
        .toMatchObject({step: expect.stringMatching(/configuration|data/)})
      child.kill('SIGINT')
      expect(await ended).toEqual([130, null])
      expect(JSON.parse(await said).error).toMatchObject({
        code: 'migrate.interrupted',
        hint: expect.stringContaining('zael migrate run'),
      })
    } finally {
      child.kill('SIGKILL')
    }
    expect(await readMigration(scene.table)).toMatchObject({leaseUntilMs: 0, finishedAt: undefined})
    expect((await tableCli(scene).tell('migrate run --yes')).result).toMatchObject({resumed: true, finished: true})
  })
})

describeOnEngine('zael migrate on a newer or missing table', () => {
  const table = useTable()
  const cli = tableCli(table)

  it('run, verify, cleanup and resolve refuse', async () => {
    const record = {lambdaVersion: undefined, clientMinVersion: '0.0.0', updatedAt: '', updatedBy: undefined}
    await table.transport.send('PutItem', {
      TableName: table.name,
      Item: encodeVersion({...record, schemaVersion: '0.11.0'}),
    })
    const resolve = ["resolve 'ENTITY#a #META' --keep old", `resolve --all --keep old --confirm ${table.name}`]
    for (const command of ['run --yes', 'verify', `cleanup --confirm ${table.name}`, 'cleanup --dry-run', ...resolve]) {
      expect(await cli.fail(`migrate ${command}`)).toMatchObject({code: 5, error: {code: 'schema.too-new'}})
    }
    const nowhere = tableCli({...table, name: 'no-such-table'})
    for (const command of ['run --yes', 'verify', `resolve 'a b' --keep old`]) {
      expect(await nowhere.fail(`migrate ${command}`)).toMatchObject({
        code: 3,
        error: {code: expect.stringMatching(/missing$/)},
      })
    }
  })
})
