import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {parseEntityFile} from '../../src/lib/manifest/entity-file.js'
import {planImport, runImport} from '../../src/lib/manifest/import.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {newTenant} from '../repository/namespace-table.js'

const list = (...lines: string[]) => parseEntityFile(lines.join('\n'), 'csv', {file: 'list.csv'})

describeOnBoth('an import of entities', {}, table => {
  const setUp = () => {
    const tenant = newTenant(table)
    return {tenant, own: new NamespaceRepository(tenant, 'ops')}
  }

  it('creates parents before children, updates differences, and then finds no changes', async () => {
    const {own} = setUp()
    await own.entities.create({id: 'old', name: 'Old', metadata: {plan: 'free', note: 'stays'}})
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=10', 'tpm=1k']))
    const listed = list(
      'id,parent,cascade,metadata.plan,limits.gpt-4',
      'child,mid,yes,,',
      'mid,team,yes,,rpm=50',
      'team,,,,',
      'old,,,gold,',
    )
    const plan = await planImport(own, listed)
    expect(plan).toMatchObject({listed: 4, unchanged: 0})
    expect(plan.entities.map(({action, entity}) => `${action} ${entity}`)).toEqual([
      'update old',
      'create team',
      'create mid',
      'create child',
    ])
    expect(await runImport(own, plan)).toEqual({kept: [], created: 3, updated: 1, limitsSet: 1, failures: [], left: 0})
    expect(await own.entities.need('old')).toMatchObject({name: 'Old', metadata: {plan: 'gold', note: 'stays'}})
    expect(await own.entities.parents('child')).toMatchObject([{entity: 'mid'}, {entity: 'team'}])
    // Limits that the list does not name are kept.
    const {limits} = (await own.configs.get({level: 'entity', entity: 'mid', resource: 'gpt-4'})) ?? {}
    expect(limits?.map(({name, capacity}) => `${name} ${capacity}`)).toEqual(['rpm 50', 'tpm 1000'])
    expect(await planImport(own, listed)).toEqual({listed: 4, entities: [], limits: [], unchanged: 4})
  })

  it('sets limits for all resources before those for one, which start from them', async () => {
    const {own} = setUp()
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=600', 'tpm=1k']))
    const ids = Array.from({length: 12}, (_, at) => `e${at}`)
    const listed = list('id,limits.gpt-4,limits', ...ids.map(id => `${id},tpm=9k,rpm=5`))
    await runImport(own, await planImport(own, listed))
    for (const entity of ids) {
      const {limits} = (await own.configs.get({level: 'entity', entity, resource: 'gpt-4'})) ?? {}
      expect(limits?.map(({name, capacity}) => `${name} ${capacity}`)).toEqual(['rpm 5', 'tpm 9000'])
    }
  })

  it('is resumed by the next run after an interruption', async () => {
    const {own} = setUp()
    const ids = Array.from({length: 30}, (_, at) => `e${at}`)
    const listed = list('id,limits', ...ids.map(id => `${id},rpm=5`))
    const stop = new AbortController()
    const first = await runImport(own, await planImport(own, listed), {
      signal: stop.signal,
      onProgress: done => done === 20 && stop.abort(),
    })
    const done = first.created + first.limitsSet
    expect(done).toBeGreaterThanOrEqual(20)
    expect(done).toBeLessThan(60)
    expect(first).toMatchObject({failures: [], left: 60 - done})
    const rest = await runImport(own, await planImport(own, listed))
    expect(rest.created + rest.limitsSet).toBe(60 - done)
    expect((await own.entities.list()).records).toHaveLength(30)
  })

  it('keeps boosts: a list states the limits after them', async () => {
    const {tenant, own} = setUp()
    tenant.nowMs = Date.parse('2026-11-16T14:36:12Z')
    const until = new Date(tenant.nowMs + 3_600_000)
    const scope = (entity: string) => ({level: 'entity', entity, resource: 'gpt-4'}) as const
    await own.configs.set({level: 'resource', resource: 'gpt-4'}, parseLimits(['rpm=10', 'tpm=1k']))
    for (const entity of ['same', 'other']) await own.configs.set(scope(entity), parseLimits(['rpm=50']))
    // The limits of the third are a copy for the time of the boost: it has none of its own.
    for (const entity of ['same', 'other', 'copy'])
      await own.configs.set(scope(entity), parseLimits(['rpm=100']), {until})
    const listed = list('id,limits.gpt-4', 'same,rpm=50', 'other,rpm=60', 'copy,rpm=10')
    const plan = await planImport(own, listed)
    expect(plan.limits.map(({entity, before}) => `${entity} ${before.map(({capacity}) => capacity)}`)).toEqual([
      'other 50,1000',
      'copy ',
    ])
    // Listed limits make the rest of the copy permanent; plan and result say so.
    const kept = [{limits: parseLimits(['tpm=1k'])}]
    expect(plan.limits.map(each => each.kept.map(({name}) => name))).toEqual([[], ['tpm']])
    expect((await runImport(own, plan)).kept).toMatchObject(kept.map(each => ({...each, scope: scope('copy')})))
    expect(await planImport(own, listed)).toMatchObject({limits: []})
    const capacities = async (entity: string) => {
      const {limits = [], copiedUntilMs} = (await own.configs.get(scope(entity))) ?? {}
      const [rpm] = limits
      const [window] = rpm?.schedule ?? []
      return [rpm?.capacity, rpm?.boost?.isEnded, window && 'capacity' in window && window.capacity, copiedUntilMs]
    }
    expect(await capacities('same')).toEqual([50, false, 100, undefined])
    expect(await capacities('other')).toEqual([60, false, 100, undefined])
    expect(await capacities('copy')).toEqual([10, false, 100, undefined])
  })

  it('names a missing parent of many entities once', async () => {
    const rows = Array.from({length: 50}, (_, at) => `c${String(at).padStart(2, '0')},nobody`)
    await expect(planImport(setUp().own, list('id,parent', ...rows))).rejects.toThrow(
      'in the file: nobody (of c00, c01, c02, c03, c04 and 45 more).',
    )
  })

  it('writes nothing when a parent is missing', async () => {
    const {tenant, own} = setUp()
    await expect(planImport(own, list('id,parent', 'a,nobody'))).rejects.toMatchObject({
      code: 'import.parent-missing',
      message: expect.stringMatching(/nor are in the file: nobody \(of a\)\.$/),
      hint: expect.not.stringContaining('manifest'),
    })
    expect(tenant.transport.calls.every(operation => ['BatchGetItem', 'GetItem', 'Query'].includes(operation))).toBe(
      true,
    )
  })

  it('names failures, and continues with the rest', async () => {
    const {own} = setUp()
    const plan = await planImport(own, list('id,parent', 'a,', 'b,a', 'c,'))
    await own.entities.create({id: 'x'})
    await own.entities.create({id: 'a', parent: 'x'})
    const broken = {...plan, entities: plan.entities.map(each => ({...each, after: each.entity === 'c' ? {...each.after, parent: 'gone'} : each.after}))} // biome-ignore format: short
    const result = await runImport(own, broken)
    expect(result).toMatchObject({created: 2, left: 0, failures: [{entity: 'c', error: {kind: 'notFound'}}]})
  })
})
