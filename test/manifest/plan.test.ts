import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {isRead} from '../../src/lib/dynamo/transport.js'
import {adoptedScopes, diffManifest, planManifest} from '../../src/lib/manifest/plan.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {apply, lineOf, manifestOf, newNamespace, planLines} from './support.js'

const TEXT = `
system: {on_unavailable: block, limits: {rpm: 1000/min}}
resources:
  gpt-4: {limits: {rpm: 100/min, tpm: 10k/min:20k}}
entities:
  org: {limits: {rpm: 500/min}}
  user: {name: A user, parent: org, cascade: true, metadata: {tier: gold}, resources: {gpt-4: {limits: {rpm: 5/min}}}}
`

describeOnBoth('a plan', {}, table => {
  it('lists old and new values of created, updated and deleted limits, in the order of application', async () => {
    const {repository} = newNamespace(table)
    expect(await planLines(repository, TEXT)).toEqual([
      'create system:  → rpm=1000/60:1000 (undefined → block)',
      'create resource gpt-4:  → rpm=100/60:100 tpm=10000/60:20000',
      'create entity org _default_:  → rpm=500/60:500',
      'create entity user gpt-4:  → rpm=5/60:5',
      'create org {} → {}',
      'create user {} → {"name":"A user","parent":"org","cascade":true,"metadata":{"tier":"gold"}}',
    ])
    await apply(repository, TEXT)
    expect(await planLines(repository, TEXT)).toEqual([])
    const changed = `
system: {on_unavailable: allow, limits: {rpm: 1000/min}}
resources:
  gpt-4: {limits: {rpm: 70/min}}
entities:
  user: {name: A user, parent: null, metadata: {tier: silver}}
`
    const plan = await planManifest(repository, manifestOf(changed))
    expect(plan.changes.map(lineOf)).toEqual([
      'update system: rpm=1000/60:1000 → rpm=1000/60:1000 (block → allow)',
      'update resource gpt-4: rpm=100/60:100 tpm=10000/60:20000 → rpm=70/60:70',
      'update user {"parent":"org","metadata":{"tier":"gold"}} → {"parent":null,"metadata":{"tier":"silver"}}',
      'delete entity org _default_: rpm=500/60:500 → ',
      'delete entity user gpt-4: rpm=5/60:5 → ',
    ])
    expect(plan.counts).toEqual({create: 0, update: 3, delete: 2, adopt: 0, unchanged: 0})
  })

  it('keeps values that the file does not state', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, TEXT)
    const less = TEXT.replace('on_unavailable: block, ', '').replace('name: A user, parent: org, cascade: true, ', '')
    expect(await planLines(repository, less)).toEqual([])
    await apply(repository, `${less.replace('rpm: 1000/min', 'rpm: 2000/min')}`)
    expect(await repository.configs.get({level: 'system'})).toMatchObject({onUnavailable: 'block'})
    expect(await repository.entities.get('user')).toMatchObject({name: 'A user', parent: 'org', cascade: true})
  })

  it('removes the system limits when the section states only a policy', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, 'system: {on_unavailable: block, limits: {rpm: 10/min}}')
    expect(await apply(repository, 'system: {on_unavailable: block}')).toMatchObject({outcome: 'complete', updated: 1})
    const record = await repository.configs.get({level: 'system'})
    expect(record).toMatchObject({limits: [], onUnavailable: 'block'})
    expect(await planLines(repository, 'system: {on_unavailable: block}')).toEqual([])
  })

  it('deletes only managed scopes, and adopts those that the file states', async () => {
    const {repository} = newNamespace(table)
    const limits = parseLimits(['rpm=5/min'])
    for (const resource of ['mine', 'same', 'other']) await repository.setLimits({level: 'resource', resource}, limits)
    await repository.setLimits({level: 'system'}, limits)
    const text = 'resources: {same: {limits: {rpm: 5/min}}, other: {limits: {rpm: 6/min}}}'
    const plan = await planManifest(repository, manifestOf(text))
    expect(plan.changes.map(lineOf)).toEqual(['update adopts resource other: rpm=5/60:5 → rpm=6/60:6'])
    expect([...adoptedScopes(plan)]).toEqual([{level: 'resource', resource: 'same'}])
    expect(plan.counts).toEqual({create: 0, update: 1, delete: 0, adopt: 2, unchanged: 1})
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', updated: 1, adopted: 2})
    expect(await planLines(repository, '')).toEqual([
      'delete resource other: rpm=6/60:6 → ',
      'delete resource same: rpm=5/60:5 → ',
    ])
    await apply(repository, '')
    const left = await repository.configs.resources()
    expect(left.map(({scope}) => scope)).toEqual([{level: 'resource', resource: 'mine'}])
    expect(await repository.configs.get({level: 'system'})).toMatchObject({limits})
  })

  it('deletes nothing that another writer already deleted, whatever else the item contains', async () => {
    const {repository} = newNamespace(table)
    const system = {level: 'system'} as const
    await repository.setLimits(system, [], {auditRetentionDays: 30})
    expect(await planLines(repository, 'system: {limits: {rpm: 1/min}}')).toEqual(['create system:  → rpm=1/60:1'])
    await apply(repository, `system: {limits: {rpm: 1/min}}\nresources: {gone: {limits: {rpm: 1/min}}}`)
    await repository.deleteLimits(system)
    await repository.deleteLimits({level: 'resource', resource: 'gone'})
    expect(await planLines(repository, '')).toEqual([])
    expect(await apply(repository, '')).toMatchObject({outcome: 'complete', deleted: 0})
    expect((await repository.provisioner.get()).record).toMatchObject({managesSystem: false, resources: []})
    expect(await repository.configs.get(system)).toMatchObject({auditRetentionDays: 30})
  })

  it('never deletes entities, only their managed limits', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, TEXT)
    await apply(repository, '')
    expect(await repository.entities.get('user')).toMatchObject({parent: 'org'})
    expect(await repository.configs.ofEntity('user')).toEqual([])
  })

  it('creates no record for an entity that only has limits', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, 'entities: {a: {resources: {gpt-4: {limits: {rpm: 5/min}}}}}')
    expect(await repository.entities.get('a')).toBeUndefined()
    expect(await repository.configs.ofEntity('a')).toHaveLength(1)
  })

  it('orders parents before their children, also when a child becomes the parent', async () => {
    const {repository} = newNamespace(table)
    const down = 'entities: {c: {parent: b}, b: {parent: a}, a: {name: top}}'
    expect((await apply(repository, down)).outcome).toBe('complete')
    expect((await repository.entities.parents('c')).map(({entity}) => entity)).toEqual(['b', 'a'])
    const up = 'entities: {a: {parent: b}, b: {parent: c}, c: {parent: null}}'
    expect(await apply(repository, up)).toMatchObject({outcome: 'complete', updated: 3})
    expect((await repository.entities.parents('a')).map(({entity}) => entity)).toEqual(['b', 'c'])
  })

  it('is rejected with all missing parents in one error, and accepted when they exist', async () => {
    const {repository} = newNamespace(table)
    await repository.entities.create({id: 'here'})
    const text = 'entities: {a: {parent: gone}, b: {parent: here}, c: {parent: lost}}'
    await expect(planManifest(repository, manifestOf(text))).rejects.toMatchObject({
      code: 'manifest.parent-missing',
      kind: 'notFound',
      message: expect.stringContaining('gone (of a), lost (of c)'),
    })
    expect((await apply(repository, 'entities: {b: {parent: here}}')).outcome).toBe('complete')
  })

  it('reads in batches, reports progress, and writes nothing', async () => {
    const {tenant, repository} = newNamespace(table)
    const entities = Array.from({length: 1200}, (_, at) => `  e${at}: {name: x, limits: {rpm: 1/min}}`)
    const progress: Array<{done: number; total: number}> = []
    await planManifest(repository, manifestOf(`entities:\n${entities.join('\n')}`), {
      onProgress: each => progress.push(each),
    })
    expect(tenant.transport.calls.every(isRead)).toBe(true)
    expect(tenant.transport.calls).toHaveLength(1 + 12 + 12 + 2)
    expect(progress.map(({done}) => done)).toEqual([1000, 1200, 2200, 2400])
    expect(progress.every(({total}) => total === 2400)).toBe(true)
  })

  it('stops reading when it is aborted', async () => {
    // The counting transport does not forward signals.
    const {transport} = table
    const repository = new NamespaceRepository({...newNamespace(table).tenant, transport}, 'tester')
    const signal = AbortSignal.abort()
    await expect(planManifest(repository, manifestOf(TEXT), {signal})).rejects.toMatchObject({code: 'dynamo.aborted'})
  })
})

describeOnBoth('drift', {}, table => {
  it('lists everything missing, changed or extra, and nothing else', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, TEXT)
    const differences = async (text: string) =>
      (await diffManifest(repository, manifestOf(text))).differences.map(
        ({kind, change}) => `${kind}: ${lineOf(change)}`,
      )
    expect(await differences(TEXT)).toEqual([])

    await repository.setLimits({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpd=7/day']))
    await repository.setLimits({level: 'resource', resource: 'not-ours'}, parseLimits(['rpd=7/day']))
    await repository.deleteLimits({level: 'entity', entity: 'org', resource: '_default_'})
    await repository.entities.update('user', {cascade: false})
    expect(await differences(TEXT)).toEqual([
      'changed: update resource gpt-4: rpd=7/86400:7 rpm=100/60:100 tpm=10000/60:20000 → rpm=100/60:100 tpm=10000/60:20000',
      'missing: create entity org _default_:  → rpm=500/60:500',
      'changed: update user {"cascade":false} → {"cascade":true}',
    ])
    expect(await differences('system: {limits: {rpm: 1000/min}}')).toEqual([
      'extra: delete entity user gpt-4: rpm=5/60:5 → ',
      expect.stringContaining('extra: delete resource gpt-4'),
    ])
  })
})
