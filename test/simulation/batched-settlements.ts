import {lostAnswers, type Planned, plain} from './rare.js'
import type {LeaseAction, Profile, ScenarioEvent, Step} from './scenario.js'
import type {Draws} from './world/draws.js'
import {OTHERS} from './world/world.js'

/** Profiles in which every fifth seed plays batches of requests and settlements. */
const PROFILES_WITH_BATCHES: readonly Profile[] = ['faults', 'lifecycle']
const EVERY = 5

export function isAboutBatches(profile: Profile, seed: number): boolean {
  return PROFILES_WITH_BATCHES.includes(profile) && seed % EVERY === 0
}

/** From the charge of the leases to the rush that settles them, in ms. */
const HELD_MS = 1000

const RUSHES = 8

/**
 * Processes settle leases while they make requests, so often that both wait for the same bucket. Responses are lost, or
 * the bucket is reset or deleted while its tokens are held.
 */
export function batchesInDoubt(draws: Draws, profile: Profile): Planned {
  const isFaulty = profile === 'faults'
  const processes = isFaulty ? draws.int(2, 3) : draws.int(1, 3)
  // Never full after the first request, so that only requests and settlements are written.
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
    // With lost responses, all leases are taken at once: double charges must not hide double refunds.
    const takenMs = isFaulty ? 0 : startMs
    for (let lease = 0; lease < draws.int(4, 8); lease++) {
      const [rpm, tpm] = [draws.int(10, 25), draws.int(10, 25)]
      const deltas = {rpm: draws.int(5, 25), tpm: -draws.int(5, tpm)}
      const afterMs = startMs - takenMs + HELD_MS + draws.int(0, 150)
      const actions: LeaseAction[] = [{kind: 'adjust', deltas, afterMs}]
      actions.push({kind: draws.pick(['commit', 'commit', 'rollback'] as const), afterMs: draws.pick([0, 20, 5000])})
      const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: {rpm, tpm}, actions}
      steps.push({atMs: takenMs, by: someone(), event})
    }
    for (let request = 0; request < draws.int(15, 30); request++) {
      const event: ScenarioEvent = {kind: 'acquire', entity: 'u0', consume: {rpm: 1}, actions: []}
      steps.push({atMs: startMs + HELD_MS + draws.int(0, 250), by: someone(), event})
    }
    if (!isFaulty && draws.chance(0.7)) {
      const event: ScenarioEvent = {kind: draws.pick(['reset', 'delete-entity'] as const), entity: 'u0'}
      steps.push({atMs: startMs + draws.int(200, HELD_MS + 250), by: OTHERS, event})
    }
  }
  // In a shared slot, marks are overwritten before a retry finds them.
  const faults = isFaulty ? lostAnswers(draws, processes, 0.25) : []
  return {...plain(processes, limits), steps, faults, sharedSlots: isFaulty && draws.chance(0.8)}
}
