import type {Planned} from './rare.js'
import {type Fault, type FaultKind, REPEATS} from './scenario.js'
import type {Draws} from './world/draws.js'
import {AGGREGATOR, OTHERS} from './world/world.js'

/** A proxy repeats requests in these of every seven seeds. */
const [EVERY, REPEATED] = [7, [3, 5]] as const

/** Calls of each client that may be repeated, and the probability of each. */
const MOST_CALLS = 200
const SHARE = 0.2

/** In some seeds, a proxy between the table and its clients delivers some writes twice, at once or later. */
export function repeatSome(planned: Planned, seed: number, draws: Draws): Planned {
  if (!REPEATED.some(each => seed % EVERY === each)) return planned
  const {faults, sharedSlots, skewsMs} = planned
  // If another process overwrites the mark in between, a charge counts twice and restores an old mark.
  const kinds: readonly FaultKind[] = sharedSlots ? ['batch-twice'] : REPEATS
  const repeats: Fault[] = []
  for (const by of [...skewsMs.keys(), OTHERS, AGGREGATOR]) {
    for (let call = 1; call < MOST_CALLS; call++) {
      if (!sharedSlots && !draws.chance(SHARE)) continue
      repeats.push({by, call, kind: draws.pick(kinds), delayMs: draws.int(0, draws.pick([10, 60, 2000]))})
    }
  }
  // Other faults of a call take precedence.
  return {...planned, faults: [...repeats, ...faults]}
}
