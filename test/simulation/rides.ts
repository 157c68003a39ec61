import {lostAnswers, type Planned, plain} from './rare.js'
import type {Deed, LeaseAction, Profile, Step} from './scenario.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** Profiles in which every fifth seed is about requests and corrections that share writes. */
const PROFILES_WITH_RIDES: readonly Profile[] = ['faults', 'lifecycle']
const EVERY = 5

export function isAboutRides(profile: Profile, seed: number): boolean {
  return PROFILES_WITH_RIDES.includes(profile) && seed % EVERY === 0
}

/** Between the leases and the rush in which they are corrected, in ms. */
const HELD_MS = 1000

const RUSHES = 8

/**
 * Processes correct what they hold while they ask, so often that requests and corrections wait for the same bucket. Answers
 * are lost; or the bucket is filled, or deleted, while its tokens are held.
 */
export function ridesInDoubt(draws: Draws, profile: Profile): Planned {
  const isFaulty = profile === 'faults'
  const processes = isFaulty ? draws.int(2, 3) : draws.int(1, 3)
  // Never full from the first request on, so that nothing but requests and corrections is written.
  const capacity = draws.int(3000, 4000)
  const limits = ['rpm', 'tpm'].map(name => ({
    name,
    capacity,
    refillAmount: draws.int(1, 60),
    refillPeriodSeconds: 3600,
  }))
  const steps: Step[] = []
  const someone = () => draws.int(0, processes - 1)
  for (let rush = 0; rush < RUSHES; rush++) {
    const startMs = rush * 5000
    // Taken all at once where answers are lost: what is charged twice in doubt must not hide what is returned twice.
    const takenMs = isFaulty ? 0 : startMs
    for (let lease = 0; lease < draws.int(4, 8); lease++) {
      const [rpm, tpm] = [draws.int(10, 25), draws.int(10, 25)]
      const deltas = {rpm: draws.int(5, 25), tpm: -draws.int(5, tpm)}
      const afterMs = startMs - takenMs + HELD_MS + draws.int(0, 150)
      const actions: LeaseAction[] = [{kind: 'adjust', deltas, afterMs}]
      actions.push({kind: draws.pick(['commit', 'commit', 'rollback'] as const), afterMs: draws.pick([0, 20, 5000])})
      const deed: Deed = {kind: 'acquire', entity: 'u0', consume: {rpm, tpm}, actions}
      steps.push({atMs: takenMs, by: someone(), deed})
    }
    for (let request = 0; request < draws.int(15, 30); request++) {
      const deed: Deed = {kind: 'acquire', entity: 'u0', consume: {rpm: 1}, actions: []}
      steps.push({atMs: startMs + HELD_MS + draws.int(0, 250), by: someone(), deed})
    }
    if (!isFaulty && draws.chance(0.7)) {
      const deed: Deed = {kind: draws.pick(['reset', 'delete-entity'] as const), entity: 'u0'}
      steps.push({atMs: startMs + draws.int(200, HELD_MS + 250), by: OTHERS, deed})
    }
  }
  // Where several share a slot, marks are overwritten before a repetition finds them.
  const faults = isFaulty ? lostAnswers(draws, processes, 0.25) : []
  return {...plain(processes, limits), steps, faults, sharedSlots: isFaulty && draws.chance(0.8)}
}
