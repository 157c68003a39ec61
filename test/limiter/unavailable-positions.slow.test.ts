import {describe, expect, it} from 'vitest'
import type {Fault, FaultKind} from '../helpers/fault-transport.js'
import {describeOnBoth} from '../helpers/memory-table/use-memory-table.js'
import {chosen, differences, play, wrongIn} from './faults/runner.js'
import {IN_FAMILIES, ON_LEASES, ON_ONE_ITEM} from './faults/scenarios.js'

const KINDS: readonly FaultKind[] = ['unreachable', 'throttled', '5xx']

/** An outage that starts with any call and outlasts every caller. */
describeOnBoth('L5 an outage from any call on', {timeout: 300_000}, (table, extent) => {
  describe.each([...ON_ONE_ITEM, ...IN_FAMILIES, ...ON_LEASES])('$name', scenario => {
    it.each(['block', 'allow'] as const)('ends as the policy %s says', async onUnavailable => {
      const clean = await play(table, scenario)
      const cases = clean.calls.flatMap(at => KINDS.map(kind => ({kind, at, times: Number.POSITIVE_INFINITY})))
      const check = async (fault: Fault) => {
        const run = await play(table, scenario, {fault, limiter: {onUnavailable}})
        const allowed = [clean.outcome, onUnavailable === 'allow' ? 'done' : 'limiter.unavailable']
        const wrong = allowed.includes(run.outcome) ? [] : [`ended in ${run.outcome}`]
        return [...wrong, ...differences(scenario, clean, run, true)]
      }
      expect(await wrongIn(chosen(cases, extent), check)).toEqual([])
    })
  })
})
