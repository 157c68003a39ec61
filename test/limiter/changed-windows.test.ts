import {beforeEach, expect, it} from 'vitest'
import {parseLimits} from '../../src/lib/core/limits/limit-text.js'
import {NamespaceRepository} from '../../src/lib/repository/repository.js'
import {Scene} from '../helpers/limiter.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {request, splitInto} from './visit.js'

const RESOURCE = {level: 'resource', resource: 'gpt-4'} as const
const at = (time: string): number => Date.parse(`2026-03-10T${time}:00Z`)

describeOnBoth('an allowance, as clients of zae-limiter count it too', {}, table => {
  let scene: Scene
  beforeEach(() => {
    scene = new Scene(table)
  })

  /** How much a new process is given, one token at a time. */
  async function given(most: number): Promise<number> {
    await using limiter = scene.limiter({denyCacheMs: 0})
    let count = 0
    while (count < most && (await limiter.tryAcquire(request({q: 1}))).admitted) count++
    await limiter.settled()
    return count
  }

  it.each([
    ['11:00, which has passed', '0 11 * * *', 5],
    ['13:00, which has not', '0 13 * * *', 0],
  ])('is given anew once where its reset is moved to %s since the bucket was last refilled', async (_, cron, more) => {
    scene.nowMs = at('09:00')
    await scene.configure(RESOURCE, 'q=5/day@UTC')
    expect(await given(9)).toBe(5)
    scene.nowMs = at('12:00')
    await new NamespaceRepository(scene.tenant, undefined).setLimits(RESOURCE, parseLimits([`q=5@"${cron} UTC"`]))
    expect(await given(9)).toBe(more)
    scene.nowMs = at('12:30')
    expect(await given(9)).toBe(0)
  })

  it('of a session is what the schedule allows when it begins on a shard: less on the first, all on one that follows', async () => {
    scene.nowMs = at('03:00')
    await scene.configure(RESOURCE, 'q=20/5h!,x0.1@"* 9 * * * UTC"')
    expect(await given(1)).toBe(1)
    await splitInto(scene, 2)
    // Two tokens, one on each shard; the other shard does not begin before it is used.
    scene.nowMs = at('09:30')
    expect(await given(1)).toBe(1)
    scene.nowMs = at('10:30')
    const rest = await given(30)
    // No more than the whole allowance of the window, whenever shards begin.
    expect([rest + 1 > 2, rest + 1 <= 20]).toEqual([true, true])
    expect(await given(1)).toBe(0)
  })
})
