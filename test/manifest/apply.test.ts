import {expect, it} from 'vitest'
import {ZaelError} from '../../src/lib/core/errors.js'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {Denied, Throttled, TransactionCancelled, Unavailable, ValidationFailed} from '../../src/lib/dynamo/errors.js'
import {isRead} from '../../src/lib/dynamo/transport.js'
import {type ApplyProgress, applyPlan} from '../../src/lib/manifest/apply.js'
import {fingerprint} from '../../src/lib/manifest/fingerprint.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {scopeName} from '../../src/lib/manifest/scopes.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {keys} from '../../src/lib/schema/keys.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {put, stored} from '../repository/namespace-table.js'
import {apply, lineOf, manifestOf, newNamespace, planLines, type TestNamespace} from './support.js'

const resources = (...names: string[]) =>
  `resources: {${names.map(name => `${name}: {limits: {rpm: 5/min}}`).join(', ')}}`

const A = {level: 'resource', resource: 'a'} as const
const NEW = {level: 'resource', resource: 'new'} as const
const GONE = {level: 'resource', resource: 'gone'} as const

const recordOf = ({tenant}: TestNamespace) => stored(tenant, keys.provisioner(tenant.namespace))

const managedResources = async (namespace: TestNamespace) =>
  (await namespace.repository.provisioner.get()).record.resources

/** Fails each write whose input contains the text. */
function failWrites({tenant}: TestNamespace, on: string, failure: (operation: string) => unknown): void {
  tenant.transport.before = (operation, input) => {
    if (!isRead(operation) && JSON.stringify(input).includes(on)) throw failure(operation)
  }
}

function stopFailures({tenant}: TestNamespace): void {
  tenant.transport.before = () => {}
  tenant.transport.after = () => {}
}

const conflict = (operation: string) =>
  new TransactionCancelled(operation, [{code: 'TransactionConflict', message: undefined, oldItem: undefined}])

describeOnBoth('applying a manifest', {}, table => {
  /** Another client, whose requests no fault hits. */
  const newNamespaceOf = ({transport: _, ...tenant}: TestNamespace['tenant']) =>
    new NamespaceRepository({...tenant, transport: table.transport}, 'other')

  it('records managed scopes like the Python system, and keeps unknown attributes of the record', async () => {
    const namespace = newNamespace(table)
    const {tenant, repository} = namespace
    tenant.nowMs = Date.UTC(2026, 0, 2, 3, 4, 5, 678)
    const {PK, SK} = keys.provisioner(tenant.namespace)
    await put(tenant, {PK: {S: PK}, SK: {S: SK}, GSI4PK: {S: tenant.namespace}, pending: {L: []}})
    const text = `
system: {limits: {rpm: 9/min}}
${resources('b', 'a')}
entities: {u: {limits: {rpm: 1/min}, resources: {z: {limits: {rpm: 1/min}}, a: {limits: {rpm: 1/min}}}}, v: {name: v}}`
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', created: 7, failures: [], left: 0})
    expect(await recordOf(namespace)).toEqual({
      PK: {S: PK},
      SK: {S: SK},
      GSI4PK: {S: tenant.namespace},
      GSI4SK: {S: PK},
      managed_system: {BOOL: true},
      managed_resources: {L: [{S: 'a'}, {S: 'b'}]},
      managed_entities: {M: {u: {L: [{S: '_default_'}, {S: 'a'}, {S: 'z'}]}}},
      last_applied: {S: '2026-01-02T03:04:05.678000+00:00'},
      applied_hash: {S: fingerprint(manifestOf(text))},
      rev: {S: expect.any(String)},
      pending: {L: []},
    })
  })

  it('writes nothing when the table already matches', async () => {
    const {tenant, repository} = newNamespace(table)
    await apply(repository, resources('a'))
    tenant.transport.calls.length = 0
    expect(await apply(repository, resources('a'))).toMatchObject({outcome: 'complete', created: 0, updated: 0})
    expect(tenant.transport.calls.every(isRead)).toBe(true)
  })

  it('records an adoption although nothing else changes', async () => {
    const namespace = newNamespace(table)
    const {tenant, repository} = namespace
    await repository.setLimits({level: 'resource', resource: 'a'}, parseLimits(['rpm=5/min']))
    tenant.transport.calls.length = 0
    expect(await apply(repository, resources('a'))).toMatchObject({outcome: 'complete', adopted: 1})
    expect(tenant.transport.calls.filter(call => !isRead(call))).toEqual(['UpdateItem'])
    expect(await managedResources(namespace)).toEqual(['a'])
  })

  it('continues after a failure without deleting, records only completed changes, and is completed by the next run', async () => {
    const namespace = newNamespace(table)
    const {repository} = namespace
    await apply(repository, resources('old'))
    const before = await recordOf(namespace)
    failWrites(namespace, 'RESOURCE#bad"', operation => new ValidationFailed(operation))
    const progress: ApplyProgress[] = []
    const text = resources('a', 'bad', 'c')
    const result = await apply(repository, text, {onProgress: each => progress.push(each)})
    expect(result).toMatchObject({outcome: 'failed', created: 2, deleted: 0, left: 1, recordFailure: undefined})
    expect(result.failures).toMatchObject([{change: {scope: {resource: 'bad'}}, error: {code: 'dynamo.validation'}}])
    expect(progress.at(-1)).toEqual({done: 2, failed: 1, total: 4})
    expect(await managedResources(namespace)).toEqual(['a', 'c', 'old'])
    const {applied_hash, last_applied} = (await recordOf(namespace)) ?? {}
    expect({applied_hash, last_applied}).toEqual({
      applied_hash: before?.applied_hash,
      last_applied: before?.last_applied,
    })

    stopFailures(namespace)
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', created: 1, deleted: 1})
    expect(await managedResources(namespace)).toEqual(['a', 'bad', 'c'])
  })

  it('loses nothing when the process dies midway: the record is written before the first change', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    let writes = 0
    tenant.transport.before = operation => {
      // The record and one change, then the process dies.
      if (!isRead(operation) && ++writes > 2) throw new Unavailable(operation, false)
    }
    const result = await apply(repository, resources('a', 'b', 'c', 'd'))
    expect(result).toMatchObject({outcome: 'failed', created: 1, recordFailure: {code: 'dynamo.unavailable'}})
    stopFailures(namespace)
    expect(await managedResources(namespace)).toEqual(['a', 'b', 'c', 'd'])
    // Removed from the file before the first complete run: the resource that exists is still deleted.
    expect(await apply(repository, '')).toMatchObject({outcome: 'complete', deleted: 1})
    expect(await repository.configs.resources()).toEqual([])
    expect(await managedResources(namespace)).toEqual([])
  })

  it('records a change whose response was lost, because it may have been applied', async () => {
    const namespace = newNamespace(table, {attempts: 2})
    const {repository, tenant} = namespace
    tenant.transport.after = (operation, _, input) => {
      if (operation === 'TransactWriteItems' && JSON.stringify(input).includes('RESOURCE#lost"')) {
        throw new Unavailable(operation, true)
      }
    }
    expect(await apply(repository, resources('lost'))).toMatchObject({outcome: 'failed', created: 0})
    stopFailures(namespace)
    expect(await managedResources(namespace)).toEqual(['lost'])
    expect(await apply(repository, '')).toMatchObject({outcome: 'complete', deleted: 1})
  })

  it('recognises its own record when the response was lost', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    let lost = 0
    tenant.transport.after = operation => {
      if (operation === 'UpdateItem' && lost++ === 0) throw new Unavailable(operation, true)
    }
    expect(await apply(repository, resources('a'))).toMatchObject({outcome: 'complete', recordFailure: undefined})
    expect(lost).toBeGreaterThan(1)
  })

  it('retries contended changes one at a time', async () => {
    const namespace = newNamespace(table, {attempts: 2})
    const {repository, tenant} = namespace
    let left = 2
    tenant.transport.before = (operation, input) => {
      const isBusy = operation === 'TransactWriteItems' && JSON.stringify(input).includes('ENTITY#busy"')
      if (isBusy && left-- > 0) throw conflict(operation)
    }
    const text = 'entities: {busy: {limits: {rpm: 1/min}}, calm: {limits: {rpm: 1/min}}}'
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', created: 2})
    expect(left).toBeLessThan(0)
  })

  it.each([
    ['an outage', (operation: string) => new Unavailable(operation, false)],
    ['an access denial', (operation: string) => new Denied(operation)],
  ])('starts no further change after %s', async (_, failure) => {
    const namespace = newNamespace(table, {attempts: 1})
    const {repository, tenant} = namespace
    const names = Array.from({length: 40}, (_, at) => `e${at}`)
    const text = `entities: {${names.map(name => `${name}: {limits: {rpm: 1/min}}`).join(', ')}}`
    failWrites(namespace, 'ENTITY#', failure)
    const {outcome, failures, left} = await apply(repository, text)
    expect(outcome).toBe('failed')
    expect(failures.length).toBeLessThanOrEqual(8)
    expect(left).toBe(40 - failures.length)
    expect(tenant.transport.count('TransactWriteItems')).toBe(failures.length)
    stopFailures(namespace)
    expect((await repository.provisioner.get()).record.entities).toEqual(new Map())
  })

  it('stops with the first failed retry while the table is throttled', async () => {
    const namespace = newNamespace(table, {attempts: 1})
    const names = Array.from({length: 12}, (_, at) => `e${at}`)
    const text = `entities: {${names.map(name => `${name}: {limits: {rpm: 1/min}}`).join(', ')}}`
    failWrites(namespace, 'ENTITY#', operation => new Throttled(operation))
    const {outcome, failures, left} = await apply(namespace.repository, text)
    expect({outcome, failed: failures.length, left}).toEqual({outcome: 'failed', failed: 1, left: 11})
    expect(namespace.tenant.transport.count('TransactWriteItems')).toBe(12 + 1)
  })

  it('rethrows an unexpected error after recording completed changes', async () => {
    const namespace = newNamespace(table)
    const {repository} = namespace
    failWrites(namespace, 'RESOURCE#b"', () => new TypeError('a bug'))
    await expect(apply(repository, `${resources('b')}\nsystem: {limits: {rpm: 1/min}}`)).rejects.toThrow('a bug')
    stopFailures(namespace)
    const {record} = await repository.provisioner.get()
    expect(record).toMatchObject({managesSystem: true, resources: ['b'], appliedHash: undefined})
  })

  it('changes nothing when it is aborted before it starts', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    const plan = await planManifest(repository, manifestOf(resources('a')))
    tenant.transport.calls.length = 0
    const result = await applyPlan(repository, plan, {signal: AbortSignal.abort()})
    expect(result).toMatchObject({outcome: 'interrupted', created: 0, left: 1})
    expect(tenant.transport.calls).toEqual([])
  })

  it('adopts nothing when it is aborted before it starts', async () => {
    const {repository, tenant} = newNamespace(table)
    await repository.setLimits({level: 'resource', resource: 'a'}, parseLimits(['rpm=5/min']))
    const plan = await planManifest(repository, manifestOf(resources('a')))
    tenant.transport.calls.length = 0
    const result = await applyPlan(repository, plan, {signal: AbortSignal.abort()})
    expect(result).toMatchObject({outcome: 'interrupted', adopted: 0})
    expect(tenant.transport.calls).toEqual([])
  })

  it('rejects a plan that another run has made stale, and changes nothing', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    const stale = await planManifest(repository, manifestOf(resources('mine')))
    await apply(repository, resources('theirs'))
    tenant.transport.calls.length = 0
    await expect(applyPlan(repository, stale)).rejects.toMatchObject({code: 'manifest.changed', kind: 'conflict'})
    expect(tenant.transport.calls).toEqual(['UpdateItem'])
    expect(await managedResources(namespace)).toEqual(['theirs'])
  })

  it('rejects a plan that the Python system has made stale', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    await apply(repository, resources('a'))
    const stale = await planManifest(repository, manifestOf(resources('a', 'b')))
    const {rev: _, ...item} = (await recordOf(namespace)) ?? {}
    await put(tenant, {...item, last_applied: {S: '2026-01-01T00:00:00.000001+00:00'}})
    await expect(applyPlan(repository, stale)).rejects.toMatchObject({code: 'manifest.changed'})
  })

  it('accepts that other writers have just made the same change', async () => {
    const {repository} = newNamespace(table)
    await apply(repository, resources('gone'))
    const plan = await planManifest(repository, manifestOf('entities: {e: {name: E, metadata: {a: 1}}}'))
    await repository.deleteLimits({level: 'resource', resource: 'gone'})
    await repository.entities.create({id: 'e', name: 'E', metadata: {a: 1}, cascade: true})
    expect(await applyPlan(repository, plan)).toMatchObject({outcome: 'complete', created: 1, deleted: 1})
    expect(await repository.entities.get('e')).toMatchObject({name: 'E', cascade: true, metadata: {a: 1}})
  })

  it.each([
    ['resource a', (r: NamespaceRepository) => r.setLimits(A, ['rpm=7/min']), 'rpm=7/min'],
    ['resource a', (r: NamespaceRepository) => r.setAccess(A, 'disabled'), 'rpm=5/min, access disabled'],
    ['resource gone', (r: NamespaceRepository) => r.setLimits(GONE, ['rpm=7/min']), 'rpm=7/min'],
    ['resource gone', (r: NamespaceRepository) => r.setAccess(GONE, 'disabled'), 'rpm=5/min, access disabled'],
    ['resource new', (r: NamespaceRepository) => r.setLimits(NEW, ['rpm=7/min']), 'rpm=7/min'],
    ['system', (r: NamespaceRepository) => r.setLimits({level: 'system'}, ['rpm=7/min']), 'rpm=7/min'],
    ['e', (r: NamespaceRepository) => r.entities.update('e', {name: 'Other'}), 'name "Other"'],
    ['e', (r: NamespaceRepository) => r.entities.delete('e'), 'no record'],
    ['f', (r: NamespaceRepository) => r.entities.create({id: 'f'}), 'name "f"'],
  ] as const)(
    'keeps a change that another client made to %s since the plan, and reports a conflict',
    async (subject, change, now) => {
      const {repository} = newNamespace(table)
      await apply(
        repository,
        `system: {limits: {rpm: 5/min}}\n${resources('a', 'gone').replace('a: {', 'a: {disabled: false, ')}\nentities: {e: {name: E}}`,
      )
      const text = `
system: {limits: {rpm: 6/min}}
resources: {a: {disabled: false, limits: {rpm: 6/min}}, new: {limits: {rpm: 6/min}}}
entities: {e: {name: E2}, f: {name: F}}`
      const plan = await planManifest(repository, manifestOf(text))
      await change(repository)
      const before = await repository.configs.getMany([A, GONE, NEW, {level: 'system'}])
      const {outcome, failures} = await applyPlan(repository, plan)
      expect({
        outcome,
        failed: failures.map(({change}) => (change.kind === 'entity' ? change.entity : scopeName(change.scope))),
      }).toEqual({outcome: 'failed', failed: [subject]})
      expect(failures[0]?.error).toMatchObject({
        kind: 'conflict',
        code: 'manifest.outdated',
        message: expect.stringContaining(now),
      })
      const at = ['resource a', 'resource gone', 'resource new', 'system'].indexOf(subject)
      if (at >= 0) expect((await repository.configs.getMany([A, GONE, NEW, {level: 'system'}]))[at]).toEqual(before[at])
      else expect((await repository.entities.get(subject))?.name ?? '').not.toMatch(/^(E2|F)$/)
      expect((await repository.provisioner.get()).record.appliedHash).not.toBe(fingerprint(manifestOf(text)))
    },
  )

  it('reports records that another client changed after it had set or compared them', async () => {
    const {repository, tenant} = newNamespace(table)
    await apply(repository, resources('a', 'b'))
    let isDone = false
    tenant.transport.after = async (operation, _, input) => {
      if (isDone || operation !== 'TransactWriteItems' || !JSON.stringify(input).includes('RESOURCE#new"')) return
      isDone = true
      const other = newNamespaceOf(tenant)
      await other.setLimits(A, ['rpm=7/min'])
      await other.setLimits(NEW, ['rpm=7/min'])
    }
    const text = resources('a', 'b', 'new')
    const {outcome, created, failures, mismatches} = await apply(repository, text)
    expect({outcome, created, failures}).toEqual({outcome: 'failed', created: 1, failures: []})
    expect(mismatches.map(lineOf)).toEqual([
      'update resource a: rpm=7/60:7 → rpm=5/60:5',
      'update resource new: rpm=7/60:7 → rpm=5/60:5',
    ])
    const {record} = await repository.provisioner.get()
    expect([record.resources, record.appliedHash]).toEqual([
      ['a', 'b', 'new'],
      fingerprint(manifestOf(resources('a', 'b'))),
    ])
    expect(await apply(repository, text)).toMatchObject({outcome: 'complete', updated: 2, mismatches: []})
  })

  it('stops before its next change when its lock is lost, and leaves the record to the other run', async () => {
    const namespace = newNamespace(table)
    const {repository, tenant} = namespace
    const lost = new ZaelError('conflict', 'manifest.lock-lost', 'This run lost its lock: bob took it.')
    let holds = 0
    const lock = {
      hold: async () => {
        if (++holds > 3) throw lost
      },
    }
    const {outcome, created, left, stopped, recordFailure} = await apply(
      repository,
      resources('a', 'b', 'c', 'd', 'e'),
      {lock},
    )
    expect({outcome, created, left, stopped, recordFailure}).toEqual({
      outcome: 'failed',
      created: 2,
      left: 3,
      stopped: lost,
      recordFailure: undefined,
    })
    expect(tenant.transport.count('TransactWriteItems')).toBe(2)
    expect(await repository.configs.resources()).toHaveLength(2)
    expect(await managedResources(namespace)).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  it('is not complete when the table cannot be compared with the manifest', async () => {
    const namespace = newNamespace(table, {attempts: 1})
    const {repository, tenant} = namespace
    tenant.transport.before = (operation, input) => {
      if (operation === 'GetItem' && writes > 0 && JSON.stringify(input).includes('#PROVISIONER'))
        throw new Unavailable(operation, false)
      if (operation === 'TransactWriteItems') writes++
    }
    let writes = 0
    const result = await apply(repository, resources('a'))
    expect(result).toMatchObject({outcome: 'failed', created: 1, left: 0, stopped: {code: 'dynamo.unavailable'}})
    stopFailures(namespace)
    expect((await repository.provisioner.get()).record.appliedHash).toBeUndefined()
  })

  it('writes the limits of a parent before its children can be charged to it', async () => {
    const {repository, tenant} = newNamespace(table)
    const order: string[] = []
    tenant.transport.before = (operation, input) => {
      if (operation === 'TransactWriteItems') order.push(JSON.stringify(input).includes('#META') ? 'record' : 'limits')
    }
    await apply(repository, 'entities: {org: {limits: {rpm: 1/min}}, user: {parent: org, cascade: true}}')
    expect(order).toEqual(['limits', 'record', 'record'])
    expect(await planLines(repository, '')).toEqual(['delete entity org _default_: rpm=1/60:1 → '])
  })
})
