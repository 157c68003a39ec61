import {afterEach, beforeEach, describe, expect, inject, it} from 'vitest'
import {Scene} from '../helpers/limiter.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {type CALLERS, INPUT, MAX_OUTPUT, MAXIMUM} from './billed-calls.js'
import {type BillingProvider, type ProviderEnding, startBillingProvider, WHOLE} from './billing-provider.js'
import {chargedTo, configureBilled, expectBilled} from './expect-billed.js'
import {TestProcess} from './test-process.js'

/** Calls in flight when a process ends. */
const CALLS = 12

describeOnEngine('gateways in several processes and the bill of the provider', () => {
  const table = useTable()
  let provider: BillingProvider
  let scene: Scene
  let gateways: TestProcess[]
  beforeEach(async () => {
    provider = await startBillingProvider()
    scene = new Scene(table)
    gateways = []
    await configureBilled(scene)
  })
  afterEach(async () => {
    await Promise.all(gateways.map(gateway => gateway.end('SIGKILL')))
    await provider.close()
  })

  async function start(...options: string[]): Promise<{gateway: TestProcess; url: string}> {
    const args = [inject('engineEndpoint'), table.name, scene.namespace, provider.url, ...options]
    const gateway = new TestProcess('gateway-process', args)
    gateways.push(gateway)
    return {gateway, url: `http://127.0.0.1:${await gateway.line()}`}
  }

  /** The response is read to its end. Whether it arrives whole. */
  function ask(url: string, caller: string, ending: ProviderEnding, ...flags: string[]): Promise<boolean> {
    const query = new URLSearchParams({caller, ending, ...Object.fromEntries(flags.map(flag => [flag, '']))})
    return fetch(`${url}/?${query}`)
      .then(response => response.text())
      .then(
        () => true,
        () => false,
      )
  }

  /** Resolves when all calls have begun: those with the ending `half` have generated their half. */
  const whenGenerating = (calls: number, halves = 0) =>
    expect
      .poll(() => {
        const begun = provider.bills.filter(({output}) => output > 2).length
        const half = provider.bills.filter(({output}) => output >= WHOLE / 2).length
        return begun === calls && half >= halves
      })
      .toBe(true)

  describe.each(['fetch', 'the AI SDK'] satisfies (keyof typeof CALLERS)[])('with %s', caller => {
    /** Calls before the head, JSON and streams, and calls in mid-stream. */
    function askUnfinished(url: string, ...flags: string[]): Promise<unknown> {
      const kinds = [['no-head'], ['no-head', 'stream'], ['half', 'stream']] as const
      const calls = Array.from({length: CALLS}, (_, at) => {
        const [ending, ...more] = kinds[at % kinds.length] as (typeof kinds)[number]
        return ask(url, caller, ending, ...more, ...flags)
      })
      return Promise.all(calls)
    }

    it('charges exactly what two processes with 200 concurrent calls are billed, which end after SIGTERM', async () => {
      const running = await Promise.all([start(), start()])
      const answers = Array.from({length: 200}, (_, at) => {
        const {url} = running[at % 2] as (typeof running)[number]
        return ask(url, caller, 'complete', ...(at % 4 > 1 ? ['stream'] : []))
      })
      await whenGenerating(200)
      expect(await Promise.all(running.map(({gateway}) => gateway.end('SIGTERM')))).toEqual([0, 0])
      expect(new Set(await Promise.all(answers))).toEqual(new Set([true]))
      expect(provider.tokens).toBe(200 * (INPUT + WHOLE))
      await expectBilled(scene, provider, 200)
    })

    it.each([
      ['', [], MAXIMUM],
      [' that set none', ['unbounded'], MAX_OUTPUT],
    ] as const)('charges at most the maximum for calls%s that are aborted after SIGTERM', async (_, flags, over) => {
      const {gateway, url} = await start('--abort')
      const answers = askUnfinished(url, ...flags)
      await whenGenerating(CALLS, CALLS / 3)
      expect(await gateway.end('SIGTERM')).toBe(0)
      await answers
      await expectBilled(scene, provider, CALLS, over)
    })

    it('keeps the reservations of calls in flight after SIGKILL', async () => {
      const {gateway, url} = await start()
      const answers = askUnfinished(url)
      await whenGenerating(CALLS, CALLS / 3)
      expect(await gateway.end('SIGKILL')).toBe('SIGKILL')
      await answers
      await expectBilled(scene, provider, CALLS, MAXIMUM)
      expect(await chargedTo(scene)).toMatchObject({requests: CALLS, tokens: CALLS * (INPUT + MAXIMUM)})
    })
  })
})
