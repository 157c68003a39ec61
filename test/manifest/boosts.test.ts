import {expect, it} from 'vitest'
import {applyQuestion} from '../../src/lib/cli/limits/manifest-presenter.js'
import {rateText} from '../../src/lib/core/limits/boost-text.js'
import {parseLimit} from '../../src/lib/core/limits/limit-text.js'
import {diffManifest, type PlannedBoost, planManifest} from '../../src/lib/manifest/plan.js'
import {tidyBoosts} from '../../src/lib/repository/limits/limit-sync.js'
import {NO_EFFECT} from '../helpers/lines.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {putBucket} from '../repository/namespace-table.js'
import {apply, exportForm, exportManifest, lineOf, manifestOf, newNamespace} from './support.js'

const TEXT = `
resources:
  gpt-4: {limits: {rpm: 100/min, tpm: 10k/min}}
`
const HOUR_MS = 3_600_000
const TPM_BOOST = 'tpm 40k/min until 2026-11-16 15:37 UTC, then 10k/min'
/** A boost as a plan shows it. */
const boostText = ({limit, isEnded}: PlannedBoost) => `${isEnded ? 'ends ' : ''}${limit.name} ${rateText(limit)}`
const resource = {level: 'resource', resource: 'gpt-4'} as const
const entity = {level: 'entity', entity: 'user', resource: 'gpt-4'} as const

describeOnBoth('a manifest and temporary limits', {}, table => {
  async function boosted() {
    const {repository, tenant} = newNamespace(table)
    tenant.nowMs = Date.parse('2026-11-16T14:36:12Z')
    await apply(repository, TEXT)
    const until = new Date(tenant.nowMs + HOUR_MS)
    await repository.setLimits(resource, [parseLimit('tpm=40k/min')], {until})
    return {repository, tenant, until}
  }

  it('do not differ: the file states the limits after expiry', async () => {
    const {repository} = await boosted()
    const {differences, boosts} = await diffManifest(repository, manifestOf(TEXT))
    expect(differences).toEqual([])
    expect(boosts).toMatchObject([{scope: resource, limit: {name: 'tpm', boost: {isEnded: false}}}])
  })

  it('can change without ending the boost', async () => {
    const {repository, tenant} = await boosted()
    const changed = TEXT.replace('10k', '20k')
    const plan = await planManifest(repository, manifestOf(changed))
    expect(plan.changes.map(lineOf)).toEqual([
      'update resource gpt-4: rpm=100/60:100 tpm=10000/60:10000 → rpm=100/60:100 tpm=20000/60:20000',
    ])
    await apply(repository, changed)
    const [, tpm] = (await repository.configs.get(resource))?.limits ?? []
    expect(tpm).toMatchObject({capacity: 20_000, schedule: [{capacity: 40_000}, {}], boost: {windows: 2}})
    tenant.nowMs += 2 * HOUR_MS
    expect((await diffManifest(repository, manifestOf(changed))).differences).toEqual([])
    await tidyBoosts(tenant)
    expect((await repository.configs.get(resource))?.limits[1]).toEqual(parseLimit('tpm=20k/min'))
    expect((await diffManifest(repository, manifestOf(changed))).differences).toEqual([])
  })

  it('are exported as the limits after expiry, with the boosts in a comment', async () => {
    const {repository, until} = await boosted()
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    const text = await exportManifest(repository, 'test')
    expect(text).toBe(
      [
        'namespace: test',
        'resources:',
        '  gpt-4:',
        '    limits:',
        '      rpm: 100/min',
        '      tpm: 10k/min',
        '# Temporary limits, not part of this manifest; `zael limits apply` keeps them.',
        '#   resource "gpt-4": tpm=40k/min until 2026-11-16 15:37 UTC',
        '#   entity "user" and resource "gpt-4": rpm=200/min until 2026-11-16 15:37 UTC',
        '#   entity "user" and resource "gpt-4": tpm=40k/min until 2026-11-16 15:37 UTC',
        '',
      ].join('\n'),
    )
    expect((await planManifest(repository, manifestOf(text.replace('namespace: test\n', '')))).changes).toEqual([])
    expect(await exportForm(repository, 'test')).toEqual({
      namespace: 'test',
      resources: {'gpt-4': {limits: {rpm: '100/min', tpm: '10k/min'}}},
    })
  })

  it('make limits copied for a boost permanent if the file states them', async () => {
    const {repository, tenant, until} = await boosted()
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    const stated = `${TEXT}entities:\n  user: {resources: {gpt-4: {limits: {rpm: 100/min, tpm: 10k/min}}}}\n`
    const plan = await planManifest(repository, manifestOf(stated))
    expect(plan.changes.map(lineOf)).toEqual(['create entity user gpt-4:  → rpm=100/60:100 tpm=10000/60:10000'])
    // The boost continues, and the stated limits follow it instead of the next level.
    const own = plan.boosts.filter(({scope}) => scope.level === 'entity')
    expect(own.map(boostText)).toEqual(['rpm 200/min until 2026-11-16 15:37 UTC, then 100/min', TPM_BOOST])
    await apply(repository, stated)
    expect((await repository.configs.get(entity))?.limits[0]?.boost).toMatchObject({
      untilMs: Math.ceil(until.getTime() / 60_000) * 60_000,
    })
    tenant.nowMs += 2 * HOUR_MS
    await tidyBoosts(tenant)
    expect((await repository.configs.get(entity))?.limits).toEqual(['rpm=100/min', 'tpm=10k/min'].map(parseLimit))
  })

  it('name the boosts that end: those of limits that the file does not state there', async () => {
    const {repository, until} = await boosted()
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    const stated = `${TEXT}entities:\n  user: {resources: {gpt-4: {limits: {tpm: 20k/min}}}}\n`
    const {boosts} = await planManifest(repository, manifestOf(stated))
    const own = boosts.filter(({scope}) => scope.level === 'entity')
    expect(own.map(boostText)).toEqual([
      'ends rpm 200/min until 2026-11-16 15:37 UTC, then the inherited limit',
      TPM_BOOST.replace('10k/min', '20k/min'),
    ])
    expect(applyQuestion(await planManifest(repository, manifestOf(stated)), NO_EFFECT)).toBe(
      'This ends 1 temporary limit (rpm of entity user for gpt-4)',
    )
    await apply(repository, stated)
    expect((await repository.configs.get(entity))?.limits).toMatchObject([{name: 'tpm', boost: {isEnded: false}}])
  })

  it.each([
    ['states only a switch there', 'resources: {gpt-4: {disabled: true}}'],
    ['stated a switch there before', 'name: user'],
  ])("keep a boost's copy until it expires if the file %s", async (_, user) => {
    const {repository, tenant, until} = await boosted()
    await apply(repository, `${TEXT}entities:\n  user: {resources: {gpt-4: {disabled: true}}}\n`)
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    const before = (await repository.configs.get(entity))?.limits
    await repository.setAccess(entity, 'bypass')
    const stated = `${TEXT}entities:\n  user: {${user}}\n`
    expect((await planManifest(repository, manifestOf(stated))).boosts.map(boostText)).toContain(
      'rpm 200/min until 2026-11-16 15:37 UTC, then the inherited limit',
    )
    expect(await apply(repository, stated)).toMatchObject({outcome: 'complete'})
    expect((await repository.configs.get(entity))?.limits).toEqual(before)
    tenant.nowMs += HOUR_MS + 60_000
    expect((await repository.configs.resolve({entity: 'user', resource: 'gpt-4'})).source).toBe('resource')
    expect((await diffManifest(repository, manifestOf(stated))).differences).toEqual([])
  })

  it('count the live buckets of a switch and of a cascade policy that are removed beside a copy', async () => {
    const {repository, tenant, until} = await boosted()
    await repository.entities.create({id: 'team'})
    await repository.entities.create({id: 'user', parent: 'team'})
    await apply(repository, `${TEXT}entities:\n  user: {resources: {gpt-4: {disabled: true, cascade: true}}}\n`)
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    await putBucket(tenant, {entity: 'user', resource: 'gpt-4', limits: [parseLimit('rpm=200/min')], shardCount: 2})
    await repository.setAccess(entity, 'bypass')
    await repository.setCascade(entity, true)
    const {buckets} = await apply(repository, `${TEXT}entities:\n  user: {name: user}\n`)
    expect(buckets).toEqual({checked: 4, updated: 4, failed: 0})
  })

  it("do not delete a boost's copy where limits were managed before", async () => {
    const {repository, until} = await boosted()
    await apply(repository, `${TEXT}entities:\n  user: {resources: {gpt-4: {limits: {rpm: 5/min}}}}\n`)
    await repository.deleteLimits(entity)
    await repository.setLimits(entity, [parseLimit('rpm=200/min')], {until})
    expect((await planManifest(repository, manifestOf(TEXT))).changes).toEqual([])
    await apply(repository, TEXT)
    expect((await repository.configs.get(entity))?.copiedUntilMs).toBe(Math.ceil(until.getTime() / 60_000) * 60_000)
  })
})
