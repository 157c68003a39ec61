import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {fingerprint} from '../../src/lib/manifest/fingerprint.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {bool, n, s} from '../../src/lib/schema/attribute-value.js'
import {keys} from '../../src/lib/schema/keys.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {putBucket, stored} from '../repository/namespace-table.js'
import {apply, exportForm, manifestOf, newNamespace} from './support.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const

describeOnBoth('switches and cascade policies in a manifest', {}, table => {
  it('are planned, applied and exported, with and without limits, at every level but the system', async () => {
    const {repository} = newNamespace(table)
    const text = `
resources:
  gpt-4: {limits: {rpm: 5/min}, disabled: true}
  search: {cascade: false}
entities:
  team-1: {name: team-1}
  user-1:
    parent: team-1
    cascade: true
    resources:
      _default_: {limits: {rpm: 1/min}, cascade: true}
      gpt-4: {disabled: false}`
    const {changes} = await planManifest(repository, manifestOf(text))
    expect(changes).toMatchObject([
      {action: 'create', scope: RESOURCE, access: {before: undefined, after: 'disabled'}},
      {action: 'create', scope: {resource: 'search'}, after: [], cascade: {before: undefined, after: false}},
      {action: 'create', scope: {level: 'entity', resource: '_default_'}, cascade: {after: true}},
      {action: 'create', scope: {level: 'entity', resource: 'gpt-4'}, access: {after: 'enabled'}},
      {kind: 'entity', entity: 'team-1'},
      {kind: 'entity', entity: 'user-1', after: {cascade: true}},
    ])
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', created: 6})
    expect(await planManifest(repository, manifestOf(text))).toMatchObject({changes: []})
    expect(await exportForm(repository, 'test')).toEqual({
      namespace: 'test',
      resources: {'gpt-4': {disabled: true, limits: {rpm: '5/min'}}, search: {cascade: false}},
      entities: {
        'team-1': {name: 'team-1'},
        'user-1': {
          ...{parent: 'team-1', cascade: true},
          resources: {_default_: {cascade: true, limits: {rpm: '1/min'}}, 'gpt-4': {disabled: false}},
        },
      },
    })
    // As each entity and resource has them now.
    expect(await repository.configs.resolve({entity: 'user-1', resource: 'gpt-4'})).toMatchObject({
      access: {access: 'enabled', level: 'entity'},
      cascade: {cascade: true, level: 'entity_default'},
    })
  })

  it('keep a deleted entity blocked when it is removed from the file, and when the file creates it again', async () => {
    const {repository} = newNamespace(table)
    const scope = {level: 'entity', entity: 'leaked', resource: '_default_'} as const
    const leaked = '  leaked: {resources: {_default_: {limits: {rpm: 1/min}}}}'
    const text = `entities:\n  user-1: {name: One}\n${leaked}`
    await apply(repository, text)
    await repository.setAccess(scope, 'disabled')
    await repository.entities.delete('leaked')
    const without = 'entities:\n  user-1: {name: One}'
    expect((await planManifest(repository, manifestOf(without))).changes).toEqual([])
    await apply(repository, without)
    expect((await repository.configs.get(scope))?.access).toBe('disabled')
    expect((await exportForm(repository, 'test')).entities).toMatchObject({
      leaked: {resources: {_default_: {disabled: true}}},
    })
    await apply(repository, text)
    expect(await repository.configs.get(scope)).toMatchObject({access: 'disabled', limits: [{name: 'rpm'}]})
  })

  it('apply to live buckets, together with the limits', async () => {
    const {tenant, repository} = newNamespace(table)
    await repository.entities.create({id: 'team-1'})
    await repository.entities.create({id: 'user-1', parent: 'team-1', cascade: true})
    await putBucket(tenant, {entity: 'user-1', resource: 'gpt-4', limits: parseLimits(['rpm=5/min']), shardCount: 2})
    const applied = await apply(
      repository,
      'resources: {gpt-4: {limits: {rpm: 6/min}, disabled: true, cascade: false}}',
    )
    expect(applied.buckets).toEqual({checked: 2, updated: 2, failed: 0})
    const item = () => stored(tenant, keys.bucket(tenant.namespace, 'user-1', 'gpt-4', 1))
    expect(await item()).toMatchObject({
      ...{disabled: bool(true), cascade: bool(false), parent_id: s('team-1'), b_rpm_cp: n(6000)},
    })
    await apply(repository, '')
    expect(await item()).toMatchObject({cascade: bool(true)})
    expect(await item()).not.toHaveProperty('disabled')
  })

  it('reach the buckets that a killed run did not update, also if nothing else is left to do', async () => {
    const {tenant, repository} = newNamespace(table)
    const text = 'resources: {gpt-4: {limits: {rpm: 6/min}, disabled: true}}'
    await apply(repository, text)
    // As stored by a run that was killed before it updated this bucket.
    await putBucket(tenant, {entity: 'user-1', resource: 'gpt-4', limits: parseLimits(['rpm=5/min'])})
    const killed = await repository.applyLock.take({owner: 'ada@one', leaseMs: 1000})
    await expect(repository.applyLock.take({owner: 'bob@two'})).rejects.toMatchObject({code: 'manifest.locked'})
    tenant.nowMs += 1001
    const lock = await repository.applyLock.take({owner: 'bob@two'})
    expect(await apply(repository, text, {lock})).toMatchObject({
      outcome: 'complete',
      updated: 0,
      buckets: {checked: 1, updated: 1, failed: 0},
    })
    expect(await stored(tenant, keys.bucket(tenant.namespace, 'user-1', 'gpt-4', 0))).toMatchObject({
      ...{disabled: bool(true), b_rpm_cp: n(6000)},
    })
    await lock.abandon()
    await killed.abandon()
    const again = await repository.applyLock.take({owner: 'bob@two'})
    expect((await apply(repository, text, {lock: again})).buckets.checked).toBe(0)
    await again.abandon()
  })

  it('stay when they are not stated, so that a switch set by hand is kept; null removes them', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, 'resources: {gpt-4: {limits: {rpm: 5/min}}}')
    await repository.setAccess(RESOURCE, 'disabled')
    await repository.setCascade(RESOURCE, false)
    const same = 'resources: {gpt-4: {limits: {rpm: 5/min}}}'
    expect(await planManifest(repository, manifestOf(same))).toMatchObject({changes: []})
    await apply(repository, 'resources: {gpt-4: {limits: {rpm: 6/min}}}')
    expect(await repository.configs.get(RESOURCE)).toMatchObject({access: 'disabled', cascade: false})
    await apply(repository, 'resources: {gpt-4: {limits: {rpm: 6/min}, disabled: null}}')
    const record = await repository.configs.get(RESOURCE)
    expect(record).toMatchObject({cascade: false})
    expect(record).not.toHaveProperty('access')
  })

  it('are removed with a scope that is no longer stated, and the plan says so', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, 'resources: {gpt-4: {limits: {rpm: 5/min}, disabled: true}, search: {cascade: true}}')
    const {changes} = await planManifest(repository, manifestOf(''))
    expect(changes).toMatchObject([
      {action: 'delete', scope: RESOURCE, access: {before: 'disabled', after: undefined}},
      {action: 'delete', scope: {resource: 'search'}, cascade: {before: true, after: undefined}},
    ])
    expect(await apply(repository, '')).toMatchObject({outcome: 'complete', deleted: 2})
    expect(await repository.configs.resources()).toEqual([])
    const {records} = await repository.audit.list({entity: '$RESOURCE:gpt-4'})
    expect(records.find(({action}) => action === 'limits_deleted')?.details).toMatchObject({disabled: null})
  })

  it('replace the limits of a scope that states none, as in the Python system', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, 'resources: {gpt-4: {limits: {rpm: 5/min}, cascade: true}}')
    expect(await apply(repository, 'resources: {gpt-4: {limits: {}, cascade: true}}')).toMatchObject({updated: 1})
    expect(await repository.configs.get(RESOURCE)).toMatchObject({limits: [], cascade: true})
  })

  it('are drift if another client changed them and the manifest states them', async () => {
    const {repository} = newNamespace(table)
    const text = 'resources: {gpt-4: {limits: {rpm: 5/min}, cascade: true}}'
    await apply(repository, text)
    await repository.setCascade(RESOURCE, false)
    const {changes} = await planManifest(repository, manifestOf(text))
    expect(changes).toMatchObject([{action: 'update', cascade: {before: false, after: true}}])
    expect(await apply(repository, text)).toMatchObject({updated: 1})
    expect(await planManifest(repository, manifestOf(text))).toMatchObject({changes: []})
  })

  it('are hashed with their values, and not at all if absent', () => {
    const hash = (flags: string) => fingerprint(manifestOf(`resources: {g: {limits: {rpm: 5/min}${flags}}}`))
    const [plain, ...others] = [
      '',
      ', disabled: true',
      ', disabled: false',
      ', disabled: bypass',
      ', cascade: true',
    ].map(hash)
    expect(new Set([plain, ...others]).size).toBe(5)
    expect(hash(', disabled: null, cascade: null')).toBe(plain)
  })
})
