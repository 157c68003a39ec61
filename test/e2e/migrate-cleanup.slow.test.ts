import {expect, it} from 'vitest'
import {type Item, n, s} from '../../src/lib/schema/attribute-value.js'
import {connectToEngine, describeOnEngine} from '../helpers/table.js'
import {useOldTable} from '../migrate/old-table-scene.js'
import {schemaProblems} from './schemas.js'
import {tableCli} from './table-cli.js'

const entity = (id: string, name: string): Item => ({
  PK: s(`ENTITY#${id}`),
  SK: s('#META'),
  entity_id: s(id),
  name: s(name),
  parent_id: {NULL: true},
  metadata: {M: {}},
  created_at: s('2026-01-01T00:00:00Z'),
})

const IDS = [...Array(22).keys()].map(at => `user-${at}`)

/** Entities, and a limit that is larger than any number of today's layout. */
const items: Item[] = [
  ...IDS.map(id => entity(id, 'Old')),
  {
    PK: s('RESOURCE#huge'),
    SK: s('#CONFIG'),
    config_version: n(1),
    l_rpm_cp: {N: '1e21'},
    l_rpm_ra: n(1),
    l_rpm_rp: n(60),
  },
]

describeOnEngine('zael migrate, with many conflicts', () => {
  const scene = useOldTable(4, () => items, undefined, connectToEngine)
  const cli = tableCli(scene)
  const named = (text: string) => text.replaceAll(scene.name, 'STACK')
  const json = async (command: string, code: number) => {
    const outcome = await cli.run(`${command} --json`)
    expect({code: outcome.code, stderr: outcome.stderr}).toEqual({code, stderr: ''})
    const result = JSON.parse(outcome.stdout)
    expect(schemaProblems(command.split(' ').slice(0, 2).join(' '), result)).toEqual([])
    return result
  }

  it('run names records that cannot be moved', async () => {
    const {result} = await json('migrate run --yes', 6)
    expect(result).toMatchObject({
      finished: true,
      conflicts: {count: 1, shown: [{key: 'RESOURCE#huge #CONFIG', state: 'unmovable'}]},
    })
    const {stdout} = await cli.run('migrate run --yes')
    expect(stdout).toContain(
      '1 record not migrated:\n  RESOURCE#huge #CONFIG: cannot be moved: not an exact integer: 1e+21',
    )
  })

  it('verify --all lists every conflict, and resolve --all resolves them', async () => {
    for (const id of IDS) {
      const old = entity(id, 'Older')
      const [copy = {}] = (await scene.items()).filter(({PK}) => PK && 'S' in PK && PK.S.endsWith(`/ENTITY#${id}`))
      await scene.own.send('PutItem', {TableName: scene.name, Item: old})
      await scene.own.send('PutItem', {TableName: scene.name, Item: {...copy, name: s('New')}})
    }
    const {stdout} = await cli.run('migrate verify')
    expect(named(stdout)).toContain('  and 3 more\n')
    expect(named(stdout)).toContain('zael migrate verify --all -s STACK')
    expect((await json('migrate verify', 6)).differences.shown).toHaveLength(20)
    const verification = await json('migrate verify --all', 6)
    expect(verification).toMatchObject({unmovable: 1, differences: {count: 23}})
    expect(verification.differences.shown).toHaveLength(23)

    const before = await scene.items()
    expect(await cli.fail('migrate resolve --keep new')).toMatchObject({code: 2, error: {code: 'migrate.key'}})
    expect(await cli.fail(`migrate resolve 'ENTITY#user-1 #META' --all --keep new`)).toMatchObject({code: 2})
    expect(await cli.fail('migrate resolve --all --keep new --confirm other')).toMatchObject({
      code: 2,
      error: {code: 'confirm.name'},
    })
    const {code, stderr} = await cli.run('migrate resolve --all --keep new')
    expect(code).toBe(2)
    expect(stderr).toContain('22 records changed in both layouts:')
    expect(await scene.items()).toEqual(before)
    expect(
      named(await cli.show(`migrate resolve --all --keep new --confirm ${scene.name}`, 80)),
    ).toMatchInlineSnapshot(`
      "Resolved 22 conflicts of stack "STACK": the new records are kept

      Next:
        zael migrate verify -s STACK  compare every old item with its new one
      "
    `)
    expect(await cli.tell('migrate resolve --all --keep old')).toMatchObject({key: null, settled: 0, left: {count: 0}})
  })

  it('cleanup --dry-run shows what it would delete, and deletes nothing', async () => {
    const before = await scene.items()
    expect(named(await cli.show('migrate cleanup --dry-run', 80))).toMatchInlineSnapshot(`
      "Stack "STACK": cleanup would delete 23 old items, except the items of 1 record that cannot be migrated

      RECORDS  ITEMS
      entity      22
      limits       1

      1 record would be kept:
        RESOURCE#huge #CONFIG: cannot be moved: not an exact integer: 1e+21

      Next:
        zael migrate cleanup -s STACK  delete the old items
      "
    `)
    expect(await cli.tell('migrate cleanup --dry-run')).toMatchObject({
      dryRun: true,
      old: {entity: 22, limits: 1},
      deleted: {entity: 0, limits: 0},
      left: {count: 1},
    })
    expect(await scene.items()).toEqual(before)
  })

  it('cleanup keeps records that cannot be moved, and does not ask when nothing old is left', async () => {
    expect(await json(`migrate cleanup --confirm ${scene.name}`, 6)).toMatchObject({
      dryRun: false,
      deleted: {entity: 22, limits: 0},
      left: {count: 1, shown: [{key: 'RESOURCE#huge #CONFIG', state: 'unmovable'}]},
    })
    const Key = {PK: s('RESOURCE#huge'), SK: s('#CONFIG')}
    await scene.own.send('DeleteItem', {TableName: scene.name, Key})
    expect(named(await cli.show('migrate cleanup', 80))).toBe('Stack "STACK" has no old items\n')
  })
})
