import {expect, it} from 'vitest'
import {Unavailable} from '../../src/lib/dynamo/errors.js'
import {planManifest} from '../../src/lib/manifest/plan.js'
import {managedBy, ScopeSet, scopeName} from '../../src/lib/manifest/scopes.js'
import type {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {isSameManaged} from '../../src/lib/schema/provisioner-record.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {apply, manifestOf, newNamespace} from './support.js'

const BEFORE = `
system: {limits: {rpm: 9/min}}
resources: {old: {limits: {rpm: 1/min}}, both: {limits: {rpm: 1/min}}}
entities: {u: {limits: {rpm: 1/min}}}
`
const AFTER = `
resources: {both: {limits: {rpm: 2/min}}, new: {limits: {rpm: 3/min}}}
entities: {org: {limits: {rpm: 5/min}}, v: {parent: org, resources: {both: {limits: {rpm: 1/min}}}}}
`

async function existing({configs}: NamespaceRepository): Promise<string[]> {
  const found = [...(await configs.resources()), ...(await configs.ofEntity('u')), ...(await configs.ofEntity('v'))]
  found.push(...(await configs.ofEntity('org')))
  const system = await configs.get({level: 'system'})
  if (system && system.limits.length > 0) found.push(system)
  return found.map(({scope}) => scopeName(scope))
}

describeOnBoth('a run that loses its connection to the table', {timeout: 600_000}, (table, extent) => {
  /** Applies AFTER to a namespace; from call number `at` on, every response is lost. */
  async function interrupted(at: number, isApplied: boolean) {
    const namespace = newNamespace(table, {attempts: 1})
    const {transport} = namespace.tenant
    await apply(namespace.repository, BEFORE)
    const plan = manifestOf(AFTER)
    let calls = 0
    const isLost = () => calls >= at
    transport.before = operation => {
      calls++
      // The first lost call may still be applied; those after it are not.
      if (calls > at || (isLost() && !isApplied)) throw new Unavailable(operation, false)
    }
    transport.after = operation => {
      if (isLost()) throw new Unavailable(operation, true)
    }
    const outcome = await apply(namespace.repository, plan).then(
      result => result.outcome,
      () => 'failed',
    )
    transport.before = () => {}
    transport.after = () => {}
    return {...namespace, outcome}
  }

  it('has recorded everything that exists, whichever call fails, and is completed by the next run', async () => {
    let lostCalls = 0
    for (let at = 1, outcome = 'failed'; outcome === 'failed'; at += extent === 'all' ? 1 : 9) {
      for (const isApplied of [true, false]) {
        const run = await interrupted(at, isApplied)
        outcome = run.outcome
        const {repository} = run
        const managed = ScopeSet.of((await repository.provisioner.get()).record)
        const names = new Set([...managed].map(scopeName))
        expect((await existing(repository)).filter(name => !names.has(name))).toEqual([])

        if (at % 2 === 0) {
          // Everything that any of the runs has created is found again and deleted.
          expect(await apply(repository, '')).toMatchObject({outcome: 'complete'})
          expect(await existing(repository)).toEqual([])
          continue
        }
        const manifest = manifestOf(AFTER)
        expect(await apply(repository, manifest)).toMatchObject({outcome: 'complete'})
        expect(await planManifest(repository, manifest)).toMatchObject({changes: [], counts: {adopt: 0}})
        const {record} = await repository.provisioner.get()
        expect(isSameManaged(record, managedBy(manifest))).toBe(true)
        expect((await existing(repository)).sort()).toEqual([...ScopeSet.of(record)].map(scopeName).sort())
      }
      lostCalls = at
    }
    expect(lostCalls).toBeGreaterThan(30)
  })
})
