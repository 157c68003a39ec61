import {type Planned, plain} from './rare.js'
import type {Deed, LeaseAction, Profile, Step} from './scenario.js'
import {someFaults} from './traffic.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** Profiles in which every fifth seed is about requests and corrections that share writes. */
const PROFILES_WITH_RIDES: readonly Profile[] = ['faults', 'lifecycle']
const EVERY = 5

export function isAboutRides(profile: Profile, seed: number): boolean {
  return PROFILES_WITH_RIDES.includes(profile) && seed % EVERY === 0
}

/**
 * Processes ask, and correct what they have taken, so often that requests and corrections wait for the same bucket. Answers
 * are lost; or the bucket is filled, or deleted, while its tokens are held.
 */
export function ridesInDoubt(draws: Draws, profile: Profile): Planned {
  const processes = draws.int(1, 3)
  // Never full from the first request on, so that nothing but requests and corrections is written.
  const capacity = draws.int(150, 400)
  const limits = ['rpm', 'tpm'].map(name => ({
    name,
    capacity,
    refillAmount: draws.int(1, 60),
    refillPeriodSeconds: 3600,
  }))
  const first: Deed = {kind: 'acquire', entity: 'u0', consume: {rpm: 20, tpm: 20}, actions: []}
  const steps: Step[] = [{atMs: 0, by: 0, deed: first}]
  for (let rush = 0; rush < 4; rush++) {
    const startMs = 2000 + rush * 5000
    for (let request = 0; request < draws.int(8, 20); request++) {
      const [rpm, tpm] = [draws.int(1, 5), draws.int(1, 5)]
      const afterMs = draws.int(0, 40)
      const actions: LeaseAction[] = [
        {kind: 'adjust', deltas: {rpm: draws.int(-rpm, 3), tpm: -draws.int(1, tpm)}, afterMs},
      ]
      actions.push({kind: draws.pick(['commit', 'rollback'] as const), afterMs: draws.pick([0, 20, 5000])})
      const deed: Deed = {kind: 'acquire', entity: 'u0', consume: {rpm, tpm}, actions}
      steps.push({atMs: startMs + draws.int(0, 150), by: draws.int(0, processes - 1), deed})
    }
    if (profile === 'lifecycle' && draws.chance(0.7)) {
      const deed: Deed = {kind: draws.pick(['reset', 'delete-entity'] as const), entity: 'u0'}
      steps.push({atMs: startMs + draws.int(0, 200), by: OTHERS, deed})
    }
  }
  const faults = profile === 'faults' ? someFaults(draws, processes, draws.pick([0.1, 0.2])) : []
  return {...plain(processes, limits), steps, faults, sharedSlots: draws.chance(0.3)}
}
