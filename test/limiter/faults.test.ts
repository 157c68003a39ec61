import {beforeAll, describe, expect, it} from 'vitest'
import type {Operation} from '../../src/lib/dynamo/transport.js'
import {type Fault, type FaultKind, faultsOf} from '../helpers/fault-transport.js'
import {describeOnEngine, useTable} from '../helpers/table.js'
import {differences, play, type Run, traces, wrongIn} from './fault-runner.js'
import {SCENARIOS} from './fault-scenarios.js'

/** More than the tries of any write. */
const OUTAGE = 8

/** Whether the caller cannot know what became of a write. */
const AMBIGUOUS: ReadonlySet<FaultKind> = new Set(['lost after apply', 'lost before apply', 'overtaken', '5xx'])

/** Long enough for a run without faults, on a machine that is busy. */
const WRITE_TIMEOUT_MS = 250

/**
 * Every call of every path, disturbed in every way it can be: once, several times in a row, for longer than anybody
 * tries, and beyond the deadline. Nothing is sampled: the positions are the calls of a run without faults.
 */
describeOnEngine('faults at every call', () => {
  const table = useTable()

  describe.each(SCENARIOS)('$name', scenario => {
    let clean: Run
    beforeAll(async () => {
      clean = await play(table, scenario)
    })

    it('S2 S5 S6 hold without faults', () => {
      expect(clean.outcome).toBe(scenario.outcome ?? 'done')
      expect(differences(scenario, clean, clean, false)).toEqual([])
    })

    it('S4 S5 S6 L5: one failure leaves no trace', async () => {
      expect(await wrongIn(everyFault(1), leavesNoTrace)).toEqual([])
    })

    it('S4 S5 S6 L5: two lost answers in a row leave no trace', async () => {
      expect(
        await wrongIn(
          everyFault(2).filter(({kind}) => kind.startsWith('lost')),
          leavesNoTrace,
        ),
      ).toEqual([])
    })

    it('S2 S4 S5 S6 L5: an outage ends in a decision and counts nothing twice', async () => {
      const check = async (fault: Fault) => {
        const run = await play(table, scenario, {fault})
        const failure = fault.kind === 'conflict' ? 'dynamo.conflict' : 'limiter.unavailable'
        return [...endsIn(run, failure), ...differences(scenario, clean, run, AMBIGUOUS.has(fault.kind))]
      }
      expect(await wrongIn(everyFault(OUTAGE), check)).toEqual([])
    })

    it.skipIf(scenario.isOnLease)('S5 S6 L5: what comes after the deadline is given back', async () => {
      const check = async (fault: Fault) => {
        const run = await play(table, scenario, {fault, timeoutMs: 30})
        return [...endsIn(run, 'limiter.unavailable'), ...differences(scenario, clean, run, false)]
      }
      expect(await wrongIn(everyLateness(), check)).toEqual([])
    })

    it('S2 S6 L5: a write that takes too long is in doubt, and counted at most once', async () => {
      const check = async (fault: Fault) => {
        const run = await play(table, scenario, {fault, limiter: {timeoutMs: WRITE_TIMEOUT_MS}})
        return [...endsIn(run, 'limiter.unavailable'), ...differences(scenario, clean, run, true)]
      }
      expect(await wrongIn(everyLateness(), check)).toEqual([])
    })

    const leavesNoTrace = async (fault: Fault) => {
      const run = await play(table, scenario, {fault})
      return [...traces(clean, run), ...differences(scenario, clean, run, false)]
    }

    const endsIn = ({outcome}: Run, failure: string) =>
      [clean.outcome, failure].includes(outcome) ? [] : [`ended in ${outcome}`]

    const everyFault = (times: number): Fault[] =>
      clean.calls.flatMap(at => faultsOf(at.split(' ')[0] as Operation).map(kind => ({kind, at, times})))

    const everyLateness = (): Fault[] =>
      clean.calls.flatMap(at => (['late answer', 'late arrival'] as const).map(kind => ({kind, at})))
  })
})
