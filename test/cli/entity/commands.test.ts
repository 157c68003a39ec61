import {beforeAll, expect, it} from 'vitest'
import {parseLimits} from '../../../src/lib/core/limits/limit-text.js'
import {type NamespaceRepository, Repository} from '../../../src/lib/repository/repository.js'
import {keys} from '../../../src/lib/schema/keys.js'
import {tableCli} from '../../e2e/table-cli.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {bucketItem, entityItem, putAll} from '../../repository/namespace-items.js'
import {newTenant, stored} from '../../repository/namespace-table.js'

describeOnEngine('entities on the command line', () => {
  const table = useTable()
  const cli = tableCli(table)
  const tenant = newTenant(table)
  const repository = new Repository({stack: table.name, transport: table.transport})
  let namespaceId = ''
  let namespace: NamespaceRepository
  const ids = Array.from({length: 230}, (_, i) => `user-${String(i).padStart(3, '0')}`)

  beforeAll(async () => {
    namespaceId = (await repository.namespaces.register('default')).namespace.id
    namespace = repository.namespaceById(namespaceId)
    await putAll(
      tenant,
      ids.map(id => entityItem(namespaceId, id)),
    )
  })

  it('C-26 counts rows with --limit, and its pages are complete', async () => {
    const {stdout} = await cli.run('entity list --limit 7 --no-header --columns id')
    expect(stdout.trimEnd().split('\n')).toEqual(ids.slice(0, 7))
    const seen: string[] = []
    let cursor = ''
    do {
      const {entities, next} = await cli.tell(`entity list --limit 100 ${cursor && `--cursor ${cursor}`}`)
      seen.push(...entities.map(({id}: {id: string}) => id))
      cursor = next
    } while (cursor)
    expect(seen).toEqual(ids)
    const all = await cli.run('entity list --all --output csv --columns id')
    expect(all.stdout).toBe(`id\n${ids.join('\n')}\n`)
  })

  it('C-43 searches the whole namespace by id and by name, page by page', async () => {
    await namespace.entities.update('user-205', {name: 'Ann Lee'})
    await namespace.entities.update('user-017', {name: 'Joanna'})
    expect((await cli.tell('entity list --filter ANN')).entities).toMatchObject([{id: 'user-017'}, {id: 'user-205'}])
    const first = await cli.tell('entity list --filter ANN --limit 1')
    expect(first.entities).toMatchObject([{name: 'Joanna'}])
    const second = await cli.tell(`entity list --filter ANN --limit 1 --cursor ${first.next}`)
    expect(second).toMatchObject({entities: [{name: 'Ann Lee'}], next: null})
    const tens = ids.filter(id => id.includes('-00'))
    expect((await cli.tell('entity list --filter -00')).entities.map(({id}: {id: string}) => id)).toEqual(tens)
  })

  it('C-43 supports hierarchies of more than two levels', async () => {
    for (const [child, parent] of [
      ['org', undefined],
      ['team', 'org'],
      ['user-001', 'team'],
      ['key', 'user-001'],
    ] as const) {
      if (child.startsWith('user')) await namespace.entities.update(child, {parent: 'team'})
      else await namespace.entities.create({id: child, parent})
    }
    const {parents} = await cli.tell('entity show key')
    expect(parents.map(({id}: {id: string}) => id)).toEqual(['user-001', 'team', 'org'])
    expect((await cli.run('entity show key')).stdout).toContain('  parent   user-001 → team → org\n')
  })

  it('warns that requests charge only the direct parent', async () => {
    const sentence = (entity: string, parent: string, above: string) =>
      `Requests of "${entity}" charge "${parent}", but not "${above}": only the direct parent is charged. To charge all: zael namespace set default --levels all`
    await cli.tell('entity create company')
    expect(await cli.tell('entity create division --parent company --cascade')).not.toHaveProperty('warnings')
    const created = await cli.run('entity create desk --parent division --cascade --json')
    expect(JSON.parse(created.stdout).warnings).toEqual([sentence('desk', 'division', 'company')])
    const {stdout} = await cli.run('entity show desk')
    expect(stdout).toContain('cascade  yes, requests also charge the parent, but not company\n')
    await cli.tell('entity update division --no-cascade')
    expect((await cli.run('entity show desk')).stdout).toContain('cascade  yes, requests also charge the parent\n')
    const changed = await cli.run('entity update division --cascade --json')
    expect(JSON.parse(changed.stdout).warnings).toEqual([sentence('desk', 'division', 'company')])
  })

  it('shows which levels requests charge once the namespace charges all', async () => {
    await namespace.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=100']))
    await cli.tell('entity create top')
    await cli.tell('entity create middle --parent top --cascade')
    await cli.run('entity create low --parent middle --cascade')
    const before = await cli.run('limits resolve low gpt-4')
    expect(before.stdout).toContain('Requests of low do not charge top: the namespace charges only the direct parent.')
    expect(await cli.tell('namespace set default --levels all')).toMatchObject({name: 'default', levels: 'all'})
    expect(await cli.tell('namespace show default')).toMatchObject({levels: 'all'})
    expect(await cli.tell('entity create lowest --parent low --cascade')).not.toHaveProperty('warnings')
    const {stdout} = await cli.run('entity show lowest')
    expect(stdout).toContain('cascade  yes, requests also charge low, middle and top\n')
    const resolved = await cli.tell('limits resolve lowest gpt-4')
    expect(resolved).toMatchObject({parent: {entity: 'low'}})
    expect(resolved.parents.map(({entity}: {entity: string}) => entity)).toEqual(['low', 'middle', 'top'])
    const json = async (command: string) => JSON.parse((await cli.run(`${command} --json`)).stdout)
    expect(await json('acquire lowest gpt-4 rpm=1')).toMatchObject({parents: ['low', 'middle', 'top']})
    const charged = await cli.run('acquire lowest gpt-4 rpm=1')
    expect(charged.stdout).toContain(
      'lowest was charged 1 rpm of gpt-4; its parent low was charged 1 rpm; its parent middle was charged 1 rpm; its parent top',
    )
    const why = await cli.run('why lowest gpt-4 rpm=1')
    expect(why.stdout).toContain('Requests of lowest also charge low, middle and top.')
    expect((await json('why lowest gpt-4')).parents).toEqual(['low', 'middle', 'top'])
    await cli.tell('entity disable top')
    expect((await cli.run('entity show lowest')).stdout).toContain('Disabled: every request is refused')
    await cli.tell('entity enable top')
    expect(await cli.tell('namespace set default --levels parent')).toMatchObject({levels: 'parent'})
    expect((await cli.run('entity show lowest')).stdout).toContain('also charge the parent, but not middle\n')
  })

  it('C-30 entities can be described, changed, listed by parent and deleted', async () => {
    await cli.tell('entity create boss -m tier=gold')
    await cli.tell('entity create member --parent boss --cascade -m owner=ann')
    await putAll(tenant, [bucketItem(namespaceId, 'member', 'gpt-4')])
    await namespace.setLimits({level: 'entity', entity: 'member', resource: 'gpt-4'}, parseLimits(['rpm=5']))
    expect((await cli.tell('entity children boss')).entities).toMatchObject([{id: 'member', metadata: {owner: 'ann'}}])

    await cli.tell('entity update member --no-parent --no-cascade -m owner=bob -m seat=4')
    expect(await cli.tell('entity show member')).toMatchObject({metadata: {owner: 'bob', seat: '4'}, parent: null})
    const bucket = await stored(tenant, keys.bucket(namespaceId, 'member', 'gpt-4', 0))
    expect([bucket?.cascade, bucket?.parent_id]).toEqual([{BOOL: false}, undefined])

    expect((await cli.tell('entity delete member --yes')).counts).toMatchObject({
      entities: 1,
      entityLimits: 1,
      buckets: 1,
    })
    expect(await cli.fail('entity show member')).toMatchObject({code: 3})
    expect((await cli.tell('entity children boss')).entities).toEqual([])
  })
})
