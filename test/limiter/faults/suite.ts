import {beforeAll, describe, expect, it} from 'vitest'
import type {Operation} from '../../../src/lib/dynamo/transport.js'
import {type Fault, type FaultKind, faultsOf} from '../../helpers/fault-transport.js'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import type {Scenario} from './context.js'
import {chosen, differences, play, type Run, type RunOptions, traces, wrongIn} from './runner.js'

/** More than the tries of any write. */
const OUTAGE = 8

/** Whether the caller cannot know if a write was applied. */
const AMBIGUOUS: ReadonlySet<FaultKind> = new Set(['lost after apply', 'lost before apply', '5xx'])

/** Long enough for a run without faults; the last one on any machine, however busy. */
const DEADLINES_MS = [100, 400, 1600, 6400, 25_600]

/**
 * Every call of every path, disturbed in every possible way: once, several times in a row, for longer than any caller
 * retries, and beyond the deadline. In memory nothing is sampled: the positions are the calls of a run without faults. An
 * engine plays one position of each kind.
 */
export function describeFaults(scenarios: readonly Scenario[]): void {
  describeOnBoth('faults at every call', {timeout: 300_000}, (table, extent) => {
    describe.each(scenarios)('$name', scenario => {
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
        const lost = everyFault(2).filter(({kind}) => kind.startsWith('lost'))
        expect(await wrongIn(lost, leavesNoTrace)).toEqual([])
      })

      it('S2 S4 S5 S6 L5: an item that is unavailable for a while ends in a decision and counts nothing twice', async () => {
        const check = async (fault: Fault) => {
          const run = await play(table, scenario, {fault})
          return [
            ...endsIn(run, 'limiter.unavailable'),
            ...differences(scenario, clean, run, AMBIGUOUS.has(fault.kind)),
          ]
        }
        // Only the item that the call names: a healthy parent beside a failing child, and vice versa.
        const outages = everyFault(OUTAGE).map(fault => ({...fault, on: fault.at.split(' ')[1] as string}))
        const lasting = outages.filter(({kind}) => kind !== 'overtaken')
        expect(await wrongIn(lasting, check)).toEqual([])
      })

      it.skipIf(scenario.isOnLease)('S5 S6 L5: a charge after the deadline is refunded', async () => {
        const check = async (fault: Fault) => {
          const run = await playLate(fault, timeoutMs => ({timeoutMs}))
          return [...endsIn(run, 'limiter.unavailable'), ...differences(scenario, clean, run, false)]
        }
        expect(await wrongIn(everyLateness('late answer'), check)).toEqual([])
      })

      it('S2 S6 L5: a write that takes too long is uncertain, and counted at most once', async () => {
        const check = async (fault: Fault) => {
          const run = await playLate(fault, timeoutMs => ({limiter: {timeoutMs}}))
          return [...endsIn(run, 'limiter.unavailable'), ...differences(scenario, clean, run, true)]
        }
        expect(await wrongIn(everyLateness('late arrival'), check)).toEqual([])
      })

      const leavesNoTrace = async (fault: Fault) => {
        const run = await play(table, scenario, {fault})
        return [...traces(clean, run), ...differences(scenario, clean, run, false)]
      }

      const endsIn = ({outcome}: Run, failure: string) =>
        [clean.outcome, failure].includes(outcome) ? [] : [`ended in ${outcome}`]

      const everyFault = (times: number) =>
        chosen(
          clean.calls.flatMap(at => faultsOf(at.split(' ')[0] as Operation).map(kind => ({kind, at, times}))),
          extent,
        )

      const everyLateness = (kind: FaultKind): Fault[] =>
        chosen(
          clean.calls.map(at => ({kind, at})),
          extent,
        )

      /** On a busy machine a short deadline passes before the fault occurs, and proves nothing. */
      async function playLate(fault: Fault, options: (timeoutMs: number) => RunOptions): Promise<Run> {
        for (const timeoutMs of DEADLINES_MS.slice(0, -1)) {
          const run = await play(table, scenario, {fault, ...options(timeoutMs)}).catch(() => undefined)
          if (run) return run
        }
        return play(table, scenario, {fault, ...options(DEADLINES_MS.at(-1) as number)})
      }
    })
  })
}
