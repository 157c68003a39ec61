import {beforeEach, expect, it} from 'vitest'
import {remedies} from '../../../src/lib/cli/acquire/why-presenter.js'
import type {NextCommand} from '../../../src/lib/cli/output/text-table.js'
import {plainAt} from '../../../src/lib/core/calendar/kind-definition.js'
import {formatLimit, parseLimit} from '../../../src/lib/core/limits/limit-text.js'
import {explain} from '../../../src/lib/insight/why/explain.js'
import {NamespaceRepository} from '../../../src/lib/repository/repository.js'
import {Scene} from '../../helpers/limiter.js'
import {describeOnEngine, useTable} from '../../helpers/table.js'
import {admittedUntilRefused} from '../../limiter/visit.js'

const NOW_MS = Date.parse('2026-11-16T14:36:12Z')
const OPEN = '"* 14 * * *"'
const CLOSED = '"* 3 * * *"'
const MIDNIGHT = '"* 0 * * *"'

describeOnEngine('a proposed command', () => {
  const table = useTable()
  const resource = {level: 'resource', resource: 'gpt-4'} as const
  const entity = {level: 'entity', entity: 'user-1', resource: 'gpt-4'} as const
  let scene: Scene
  let repository: NamespaceRepository

  beforeEach(() => {
    scene = new Scene(table)
    scene.nowMs = NOW_MS
    repository = new NamespaceRepository(scene.tenant, 'tester')
  })

  const set = (...texts: string[]) => repository.setLimits(resource, texts.map(parseLimit))
  const boost = (text: string, until: string, scope: typeof resource | typeof entity = resource) =>
    repository.setLimits(scope, [parseLimit(text)], {until: new Date(until)})

  async function remediesFor(consume: Record<string, number>): Promise<NextCommand[]> {
    const {limits} = await explain(repository, {entity: 'user-1', resource: 'gpt-4', consume}, () => scene.nowMs)
    return limits.flatMap(limit => remedies(limit, scene.nowMs))
  }

  /** The commands proposed for one more request of an emptied bucket, or for a larger request. */
  async function proposed(asked?: number, name = 'tpm'): Promise<string[]> {
    const limiter = scene.limiter()
    await admittedUntilRefused(limiter, {[name]: 1}, 100)
    return (await remediesFor({[name]: asked ?? 1})).map(([command]) => command)
  }

  /** The values of the limit that apply to the entity at an instant. */
  async function valuesAt(atMs: number, name = 'tpm') {
    const {limits} = await new NamespaceRepository(scene.tenant, 'tester').configs.resolve({
      entity: 'user-1',
      resource: 'gpt-4',
    })
    const limit = limits.find(each => each.name === name)
    if (!limit) throw new Error('no limit')
    const {capacity, refillAmount, refillPeriodSeconds} = plainAt(limit, atMs)
    return {capacity, rate: refillAmount / refillPeriodSeconds}
  }

  /** Runs a proposed `limits set` as the command does. */
  async function run(command: string | undefined): Promise<void> {
    const [, text, until] = /gpt-4 '?([^']*?)'?(?: --until (\S+))?$/.exec(command ?? '') ?? []
    await repository.setLimits(entity, [parseLimit(text ?? '')], until ? {until: new Date(until)} : {})
  }

  const prefix = 'zael limits set --entity user-1 --resource gpt-4'

  it.each([
    ['without windows', 'tpm=10/min', undefined, 'tpm=20/min'],
    ['with a window that is closed', `tpm=10/min,3/min@${CLOSED}`, undefined, `'tpm=20/min,3/min@"* 3 * * *"'`],
    ['with a window that is open', `tpm=10/min,30/min@${OPEN}`, undefined, `'tpm=10/min,60/min@"* 14 * * *"'`],
    ['with a scale that is in force', `tpm=10/min,x0.5@${OPEN}`, undefined, `'tpm=10/min,10/min@"* 14 * * *"'`],
    ['with less than is asked for', `tpm=100/min,3/min@${OPEN}`, 50, `'tpm=100/min,3/min:50@"* 14 * * *"'`],
    ['that holds more in its window', `tpm=10/min,30/min@${OPEN}`, 50, `'tpm=10/min,30/min:50@"* 14 * * *"'`],
  ])('raises the value in force of a limit %s', async (_, text, asked, expected) => {
    await set(text)
    const before = await valuesAt(NOW_MS)
    const others = await valuesAt(Date.parse('2026-11-17T03:00Z'))
    const commands = await proposed(asked)
    expect(commands.at(-1)).toBe(`${prefix} ${expected}`)
    expect(commands).toHaveLength(asked ? 1 : 2)
    await run(commands.at(-1))
    const after = await valuesAt(NOW_MS)
    expect(after.capacity).toBeGreaterThan(before.capacity)
    expect(after.rate).toBeGreaterThanOrEqual(before.rate)
    expect((await valuesAt(Date.parse('2026-11-17T03:00Z'))).capacity).toBeGreaterThanOrEqual(others.capacity)
  })

  it('raises the window of a quota that applies at its next reset', async () => {
    await set(`tpm=10/day@UTC,30/day@${MIDNIGHT},3/day@${OPEN}`)
    const commands = await proposed()
    expect(commands[0]).toBe('zael bucket top-up user-1 gpt-4 tpm=1')
    expect(commands.at(-1)).toBe(`${prefix} 'tpm=10/day@UTC,60/day@"* 0 * * *",3/day@"* 14 * * *"'`)
    await run(commands.at(-1))
    expect((await valuesAt(Date.parse('2026-11-17T00:00Z'))).capacity).toBe(60)
  })

  it.each([
    ['at once', [], ', at once'],
    ['at the next reset in a period in which its kind was changed', ['tpm=10/day@UTC'], ', from its next reset'],
    ['at the next reset if it has windows', [`tpm=10/month@UTC,x0.5@${CLOSED}`], ', from its next reset'],
  ])('raises a quota %s', async (_, changed, effect) => {
    await set('tpm=10/month@UTC')
    await proposed()
    for (const text of changed) await set(text)
    const [first, ...others] = await remediesFor({tpm: 1})
    expect(first).toEqual(['zael bucket top-up user-1 gpt-4 tpm=1', 'add this amount until the reset'])
    expect(others.at(-1)?.[1]).toBe(`double the quota of entity user-1 for gpt-4${effect}`)
    await run(others.at(-1)?.[0])
    const isAtOnce = effect === ', at once'
    const admitted = await admittedUntilRefused(scene.limiter(), {tpm: 1}, 100)
    expect(admitted).toBe(isAtOnce ? 10 : 0)
  })

  it('tops up a tenth of the allowance, rounded to two digits, or more if the request needs more', async () => {
    await set('usd=$500/month@UTC')
    await scene.limiter().acquire({entity: 'user-1', resource: 'gpt-4', consume: {usd: 499_900_000}})
    const topUp = async (usd: number) => (await remediesFor({usd}))[0]?.[0]
    expect(await topUp(226_283)).toBe("zael bucket top-up user-1 gpt-4 'usd=$50'")
    expect(await topUp(123_456_789)).toBe("zael bucket top-up user-1 gpt-4 'usd=$130'")
  })

  it('raises a boost until it expires, in every window', async () => {
    await set(`tpm=10/min,3/min@${OPEN}`)
    await boost('tpm=20/min', '2026-11-16T15:00Z')
    const commands = await proposed()
    expect(commands.at(-1)).toBe(`${prefix} tpm=40/min --until 2026-11-16T15:00Z`)
    await run(commands.at(-1))
    expect((await valuesAt(NOW_MS)).capacity).toBe(40)
    expect((await valuesAt(Date.parse('2026-11-16T15:00Z'))).capacity).toBe(10)
  })

  it("does not make a boost's copy permanent", async () => {
    await set('rpm=5/min', `tpm=10/min,8/min@${OPEN}`)
    await boost('rpm=20/min', '2026-11-16T15:00Z', entity)
    const commands = await proposed()
    expect(commands.at(-1)).toBe(`${prefix} tpm=16/min --until 2026-11-16T15:00Z`)
    await run(commands.at(-1))
    scene.nowMs = Date.parse('2026-11-16T15:00Z')
    expect((await repository.configs.resolve({entity: 'user-1', resource: 'gpt-4'})).source).toBe('resource')
  })

  it("raises the limits that apply after a boost's copy expires, not the copy", async () => {
    await set('tpm=10/min')
    await boost('tpm=40/min', '2026-11-16T15:00Z', entity)
    await set('tpm=60/min:60')
    scene.nowMs = Date.parse('2026-11-16T15:00:01Z')
    expect((await proposed()).at(-1)).toBe(`${prefix} tpm=120/min`)
  })

  it.each([['that would be what follows it', 'tpm=10/min', 'tpm=5/min', 1]])(
    'does not raise a boost %s',
    async (_, base, boosted, others) => {
      await set(base)
      await boost(boosted, '2026-11-16T15:00Z')
      const commands = await proposed()
      expect(commands.filter(command => command.includes('limits set'))).toEqual([])
      expect(commands).toHaveLength(others)
    },
  )

  it('is quoted for the shell', async () => {
    await set(`tpm=10/min,30/min@${OPEN}`)
    const [, text = ''] = /'(.*)'/.exec((await proposed()).at(-1) ?? '') ?? []
    expect(formatLimit(parseLimit(text))).toBe(text)
  })
})
