import {RateLimitExceeded, ResourceDisabled} from '../../../src/lib/limiter/refusal/errors.js'
import {Claim} from '../oracles/books.js'
import {CACHE_PERIOD_MS} from '../oracles/limits-timeline.js'
import type {Consumption} from '../oracles/oracles.js'
import {familyAtStart, RESOURCE, type ScenarioEvent} from '../scenario.js'
import {AFTERMATH_MS, type SimulatedProcess} from '../world/process.js'
import {bucketId} from '../world/table-writes.js'
import type {Operation, Stage} from './stage.js'

/** Longer waits are not played: the scenario would end first. */
const LONGEST_WAIT_MS = 7_200_000

/** Longest wait for a quota. */
const LONGEST_WAIT_FOR_QUOTA_MS = 40 * 86_400_000

/** Maximum age of the state behind a refusal, in ms: the default of `denyCacheMs`. */
const OLDEST_STATE_MS = 1000

type Patient = Extract<ScenarioEvent, {kind: 'patient'}>

/**
 * L2: asks, waits exactly the reported time, and asks again. Without other consumers and faults, the second request
 * must be admitted.
 */
export async function playPatient(stage: Stage, process: SimulatedProcess, {entity, consume}: Patient): Promise<void> {
  const {world, oracles} = stage
  const {generation} = process
  const buckets = familyAtStart(world.scenario, entity).map(each => bucketId(world.namespace, each, RESOURCE))
  const startedMs = world.time.elapsedMs
  const startedEpochMs = world.time.nowMs
  const operation = stage.begin(process.number, `patient ${entity}`)
  const refusal = await ask(operation)
  const longestMs = world.scenario.profile === 'quotas' ? LONGEST_WAIT_FOR_QUOTA_MS : LONGEST_WAIT_MS
  const {retryAfterMs = null} = refusal ?? {}
  if (retryAfterMs === null || retryAfterMs > longestMs) return
  const refusedAtMs = world.time.nowMs
  await world.time.sleep(retryAfterMs)
  const againAtMs = world.time.nowMs
  if (process.generation !== generation || !process.isAlive) return
  const second = stage.begin(process.number, `patient ${entity} again`)
  const again = await ask(second)
  if (!again) return
  const isDisturbed = process.generation !== generation || process.wasDisturbed(startedMs)
  // The refusal may use a state from before other requests of this process were charged.
  const hasCompetitors =
    stage.hasOthers(operation, startedMs, operation.endedAtMs ?? startedMs) ||
    buckets.some(bucket => hasActivity(bucket))
  const isSettled = oracles.timeline.changedAtMs <= startedEpochMs - 2 * CACHE_PERIOD_MS
  if (isDisturbed || hasCompetitors || !isSettled || world.spreadMs > 0) return
  const subject = `${buckets.join(' + ')} ${JSON.stringify(consume)}`
  const writtenUntilMs = world.time.nowMs + AFTERMATH_MS
  // An earlier charge may not have reached the table yet.
  stage.atEnd.push(() => {
    if (!isOvertaken(writtenUntilMs)) oracles.answers.tooShort(subject, retryAfterMs, again.retryAfterMs)
  })

  function hasActivity(bucket: string): boolean {
    return (oracles.activity.get(bucket) ?? []).some(({atMs, process: by}) =>
      by === process.number ? atMs > refusedAtMs && atMs < againAtMs : atMs >= startedEpochMs - OLDEST_STATE_MS,
    )
  }

  /**
   * Another request of this process was admitted during the second one, such as one that waited for the same instant.
   */
  function isOvertaken(untilMs: number): boolean {
    const endedAtMs = second.endedAtMs ?? Number.POSITIVE_INFINITY
    const isDuring = ({atMs, process: by}: Consumption) => by === process.number && atMs >= againAtMs && atMs <= untilMs
    return (
      stage.hasOthers(second, second.startedAtMs, endedAtMs) &&
      buckets.some(bucket => (oracles.activity.get(bucket) ?? []).some(isDuring))
    )
  }

  async function ask(current: Operation): Promise<RateLimitExceeded | undefined> {
    const beganMs = world.time.elapsedMs
    const unknown = buckets.filter(bucket => !stage.hasDecided(process, bucket))
    const claims = buckets.flatMap((bucket, level) =>
      Object.entries(consume).flatMap(([limit, tokens]) =>
        level > 0 && !oracles.timeline.now(bucket).has(limit)
          ? []
          : [oracles.books.open(new Claim(bucket, limit, 0n, BigInt(tokens) * 1000n))],
      ),
    )
    const periods = claims.map(({bucket, limit}) => oracles.quotas.ledger.period(bucket, limit))
    try {
      const lease = await process.limiter.acquire({entity, resource: RESOURCE, consume})
      stage.end(current)
      current.decided = {as: 'admitted', buckets}
      for (const bucket of buckets) stage.noteDecided(process.number, generation, bucket)
      const charged = [lease.entity, ...lease.parents].map(each => bucketId(world.namespace, each, RESOURCE))
      const [own] = charged
      oracles.answers.unlimited(own as string, lease.unlimited, world.time.nowMs)
      for (const claim of claims) {
        if (claim.bucket === own && !(claim.limit in lease.consumed)) claim.high = 0n
        else if (charged.includes(claim.bucket)) claim.low = claim.high
      }
      world.note(`p${process.number} patient admitted ${entity} ${JSON.stringify(consume)}`)
      return undefined
    } catch (error) {
      stage.end(current)
      const endedMs = world.time.elapsedMs
      const {ledger} = oracles.quotas
      let isStable = false
      world.time.after(2000, () => {
        isStable = claims.every(({bucket, limit}, at) => ledger.period(bucket, limit) === periods[at])
      })
      stage.atEnd.push(() => {
        if (!process.wasDisturbed(beganMs, endedMs + AFTERMATH_MS) && isStable)
          for (const claim of claims) claim.high = 0n
      })
      oracles.answers.failed(`patient ${entity}`, error)
      oracles.quotas.refused(process.number, entity, error, beganMs)
      if (error instanceof ResourceDisabled && error.hasBucket)
        oracles.refusals.noteDisabled(world.namespace, entity, error)
      if (!(error instanceof RateLimitExceeded)) return undefined
      current.decided = {as: 'refused', buckets}
      oracles.refusals.noteReported(world.namespace, entity, error)
      world.note(`p${process.number} patient waits ${error.retryAfterMs} ms ${entity} ${JSON.stringify(consume)}`)
      const isFirst = (bucket: string) => unknown.includes(bucket)
      const isDisturbed = process.wasDisturbed(beganMs) || stage.forgetsLevels
      oracles.answers.refused(buckets, consume, error, world.time.nowMs, isFirst, isDisturbed)
      stage.noteRefused(process.number, generation, buckets)
      return error
    }
  }
}
