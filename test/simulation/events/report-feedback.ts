import {ZaelError} from '../../../src/lib/core/errors.js'
import type {AskedFeedback} from '../oracles/feedback.js'
import {RESOURCE, type ScenarioEvent} from '../scenario.js'
import type {SimulatedProcess} from '../world/process.js'
import {bucketId} from '../world/table-writes.js'
import {storedShards} from './probes.js'
import type {Stage} from './stage.js'

/** An external limiter reports the remaining tokens or a refusal to a process. */
export async function playFeedback(
  stage: Stage,
  process: SimulatedProcess,
  {entity, left, ageMs = 0, refused}: Extract<ScenarioEvent, {kind: 'report-feedback'}>,
): Promise<void> {
  const {world, oracles} = stage
  const bucket = bucketId(world.namespace, entity, RESOURCE)
  const milli = (tokens: number) => BigInt(tokens) * 1000n
  const asked: AskedFeedback[] = [
    ...Object.entries(left ?? {}).map(([name, tokens]) => ({bucket, name, leftMilli: milli(tokens), ageMs})),
    ...Object.entries(refused?.consume ?? {}).map(([name, tokens]) => ({bucket, name, refusedMilli: milli(tokens)})),
  ]
  for (const feedback of asked) oracles.feedback.noteAsked(feedback)
  const {generation} = process
  const operation = stage.begin(process.number, `report-feedback ${entity}`)
  const startedMs = world.time.nowMs
  try {
    await process.limiter.reportProviderLimits({
      ...{entity, resource: RESOURCE, ageMs},
      ...(left && {left}),
      ...(refused && {refused}),
    })
    stage.end(operation)
    if (process.wasDisturbed(operation.startedAtMs) || process.generation !== generation || world.spreadMs > 0) return
    if (oracles.feedback.isRaised(bucket, startedMs - 5000)) return
    for (const feedback of asked.filter(({name, leftMilli}) => leftMilli !== undefined && !refused?.consume[name]))
      for (const shard of storedShards(world, bucket))
        oracles.feedback.checkApplied(feedback, shard, world.time.nowMs - startedMs)
  } catch (error) {
    stage.end(operation)
    world.note(`p${process.number} report-feedback ${(error as Error).name}`)
    // A deleted or contended bucket, or an unavailable table: the feedback is lost, which is allowed.
    if (!(error instanceof ZaelError)) oracles.answers.failed(`report-feedback ${entity}`, error)
  }
}
