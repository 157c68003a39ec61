import {expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {TIDY_AFTER_MS} from '../../src/lib/repository/limits/boosted-limits.js'
import {tidyBoosts} from '../../src/lib/repository/limits/limit-sync.js'
import {usePeers} from './peers.js'
import {describeWithPeers, limit} from './python-client.js'

const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

describeWithPeers('temporary limits and zae-limiter 0.17', () => {
  const peers = usePeers('0.17')

  it('apply to Python while they last, and the old ones from that minute on', async () => {
    const scene = await peers.currentScene()
    const python = async (times: number) => (await scene.client.acquire('u', 'gpt', {rpm: 1}, {times})).admitted
    const resource = {level: 'resource', resource: 'gpt'} as const
    await scene.repository.setLimits(resource, parseLimits(['rpm=10/min']))
    expect(await python(40)).toBe(10)
    await scene.pass(10 * MINUTE_MS)
    const untilMs = Math.ceil((scene.nowMs + 25 * HOUR_MS) / MINUTE_MS) * MINUTE_MS
    await scene.repository.setLimits({level: 'entity', entity: 'u', resource: 'gpt'}, parseLimits(['rpm=30/min']), {
      until: new Date(untilMs),
    })
    // A minute in which the client may still use the old configuration.
    await scene.pass(2 * MINUTE_MS)
    expect(await python(60)).toBeGreaterThanOrEqual(30)
    await scene.pass(20_000)
    expect(await python(60)).toBe(10)
    await scene.at(untilMs - 8000)
    expect(await python(60)).toBeGreaterThanOrEqual(30)
    // 8 seconds at 30 per minute and 12 seconds at 10: Python credits all of them at the rate of its write, so 3
    // instead of 6.
    await scene.at(untilMs + 12_000)
    expect(await python(60)).toBe(3)
    await scene.pass(30_000)
    expect(await python(60)).toBe(5)
    // Python and zael agree, before and after its removal.
    await scene.pass(TIDY_AFTER_MS)
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 20)).toMatchObject({admitted: 10})
    await tidyBoosts(scene.tenant)
    expect(await scene.repository.configs.boosts()).toEqual([])
    await scene.pass(30_000)
    expect(await python(60)).toBe(5)
  })

  it('leave Python with its copy until it is removed, and zael with the next level', async () => {
    const scene = await peers.currentScene()
    const python = async () => (await scene.client.acquire('u', 'gpt', {rpm: 1}, {times: 60})).admitted
    const resource = {level: 'resource', resource: 'gpt'} as const
    await scene.repository.setLimits(resource, parseLimits(['rpm=10/min']))
    const untilMs = Math.ceil((scene.nowMs + HOUR_MS) / MINUTE_MS) * MINUTE_MS
    await scene.repository.setLimits({level: 'entity', entity: 'u', resource: 'gpt'}, parseLimits(['rpm=30/min']), {
      until: new Date(untilMs),
    })
    expect(await python()).toBeGreaterThanOrEqual(30)
    await scene.repository.setLimits(resource, parseLimits(['rpm=4/min']))
    await scene.at(untilMs + MINUTE_MS)
    expect(await python()).toBe(10)
    await scene.pass(MINUTE_MS)
    expect(await scene.ask('u', 'gpt', {rpm: 1}, 20)).toMatchObject({admitted: 4})
    await scene.pass(TIDY_AFTER_MS)
    await tidyBoosts(scene.tenant)
    await scene.pass(2 * MINUTE_MS)
    expect(await python()).toBe(4)
  })

  it('end when Python sets limits', async () => {
    const scene = await peers.currentScene()
    const scope = {level: 'entity', entity: 'u', resource: 'gpt'} as const
    await scene.repository.setLimits(scope, parseLimits(['rpm=10/min', 'tpm=5/min']))
    await scene.repository.setLimits(scope, parseLimits(['rpm=30/min']), {until: new Date(scene.nowMs + HOUR_MS)})
    await scene.client.repository('set_limits', {entity_id: 'u', resource: 'gpt', limits: [limit('rpm', 7)]})
    expect(await scene.repository.configs.boosts()).toEqual([])
    expect((await scene.repository.configs.get(scope))?.limits).toMatchObject([{name: 'rpm', capacity: 7}])
  })
})
