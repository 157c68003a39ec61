import {InvalidInput, withoutStack} from '../../core/errors.js'
import {type Consumption, checkConsumption} from '../../core/limits/limit.js'
import {checkEntityId, checkResourceName} from '../../core/names.js'
import {RateLimitExceeded} from '../refusal/errors.js'
import type {Grant} from '../request/grant.js'
import type {AcquireRequest} from '../request/options.js'
import type {Deadline} from '../request/pending-request.js'
import type {EntityRequest, NamespaceLimiter} from './namespace-limiter.js'

/** The same bound as in the Python system. */
const MOST_RESOURCES = 16

export type ResourcePart = Pick<EntityRequest, 'entity' | 'resource' | 'amounts'>

/** The main resource comes first. */
export type RequestParts = readonly [ResourcePart, ...ResourcePart[]]

export function partsOfRequest<Name extends string>(
  request: Pick<AcquireRequest<Name>, 'entity' | 'resource' | 'consume' | 'also'>,
): RequestParts {
  const entity = checkEntityId(request.entity)
  const part = (resource: string, consume: Consumption): ResourcePart => ({
    entity,
    resource: checkResourceName(resource),
    amounts: checkConsumption(consume),
  })
  const main = part(request.resource, request.consume as Consumption)
  if (request.also === undefined) return [main]
  const others = Object.entries(request.also)
  if (others.length >= MOST_RESOURCES)
    throw refuse(`at most ${MOST_RESOURCES} resources can be in one request, not ${others.length + 1}`)
  if (others.some(([resource]) => resource === main.resource)) throw refuse(`"${main.resource}" is named twice`)
  return [main, ...others.map(([resource, consume]) => part(resource, consume as Consumption))]
}

/** Charges all resources or none: refunds if one refuses or fails, and asks none if one is known to refuse. */
export async function acquireTogether(
  limiter: NamespaceLimiter,
  parts: RequestParts,
  isStrict: boolean,
  deadline: Deadline,
): Promise<readonly (readonly Grant[])[] | RateLimitExceeded> {
  const requests = parts.map((part): EntityRequest => ({...part, requests: 1, isStrict, deadline}))
  if (requests.some(request => limiter.isKnownToRefuse(request))) {
    const expected = await Promise.all(requests.map(request => limiter.expectedRefusal(request)))
    const refusals = expected.filter(refusal => refusal !== undefined)
    if (refusals.length > 0) return together(refusals)
  }
  const outcomes = await Promise.allSettled(requests.map(request => limiter.acquire(request)))
  const answers = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const refusals = answers.filter(answer => answer instanceof RateLimitExceeded)
  const charged = answers.flatMap(answer => (answer instanceof RateLimitExceeded ? [] : [answer]))
  if (charged.length === requests.length) return charged
  const refunds = charged.map(grants => limiter.queues.refund(grants.flatMap(grant => grant.holdings)))
  const failure = outcomes.find(outcome => outcome.status === 'rejected')
  if (failure) throw failure.reason
  // A caller that retries after the wait must not find the charges still there.
  await deadline.until(Promise.all(refunds)).catch(() => {})
  return together(refusals)
}

function together(refusals: readonly RateLimitExceeded[]): RateLimitExceeded {
  if (refusals.length === 1) return refusals[0] as RateLimitExceeded
  const statuses = refusals.flatMap(refusal => refusal.statuses)
  const retryAfterMs = Math.max(...refusals.map(refusal => refusal.retryAfterMs))
  return withoutStack(() => new RateLimitExceeded(statuses, retryAfterMs))
}

function refuse(why: string): InvalidInput {
  return new InvalidInput('request.resources', `The request cannot be made: ${why}.`)
}
