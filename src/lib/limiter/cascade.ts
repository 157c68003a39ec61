import type {Amounts} from '../core/bucket.js'
import type {Admission} from './admission.js'
import type {Family} from './context.js'
import type {Deadline} from './deadline.js'
import type {EntityCache} from './entity-cache.js'
import {RateLimitExceeded} from './errors.js'
import type {Grant} from './grant.js'
import {outlookOf} from './outlook.js'
import type {Refusal} from './refusal.js'

export interface CascadeRequest {
  readonly entity: string
  readonly resource: string
  readonly amounts: Amounts
  /** 0 when more is taken for a request that was counted before. */
  readonly requests: 0 | 1
  readonly patience: Deadline
}

/**
 * Admits an entity together with its parent, or neither. Both are asked side by side as soon as it is known who the
 * parent is; whoever was charged in vain is given back. One level only: a parent's own parent is not asked.
 */
export class Cascade {
  constructor(
    readonly admission: Admission,
    readonly entities: EntityCache,
  ) {}

  /** The entity's grant and, where the charge is shared, the parent's. Throws `RateLimitExceeded`. */
  async admit(request: CascadeRequest): Promise<readonly Grant[]> {
    const family = this.entities.family(request.entity)
    const expected = parentOf(family)
    await this.#refuseIfKnown(request, expected)
    const asked =
      expected === undefined ? [this.#own(request)] : [this.#own(request), this.#ofParent(request, expected)]
    const [own, shared] = await this.#allOrNothing(request, asked)
    const actual = parentOf((own as Grant).record)
    if (actual === expected) return shared ? [own as Grant, shared] : [own as Grant]

    // The bucket names another parent than was known, or one that was not known yet.
    if (shared) this.admission.refund(shared.entries)
    if (actual === undefined) return [own as Grant]
    return this.#allOrNothing(request, [Promise.resolve(own as Grant), this.#ofParent(request, actual)])
  }

  #own({entity, resource, amounts, requests, patience}: CascadeRequest): Promise<Grant | Refusal> {
    return this.admission.admit({entity, resource, amounts, requests, patience, level: 'entity'})
  }

  #ofParent({resource, amounts, requests, patience}: CascadeRequest, parent: string): Promise<Grant | Refusal> {
    return this.admission.admit({entity: parent, resource, amounts, requests, patience, level: 'parent'})
  }

  /** Nobody is charged when it is known beforehand that one of them refuses. */
  async #refuseIfKnown(request: CascadeRequest, parent: string | undefined): Promise<void> {
    const {entity, resource, amounts} = request
    const refusals = [this.admission.knownRefusal({entity, resource, amounts, level: 'entity'})]
    if (parent !== undefined) {
      refusals.push(this.admission.knownRefusal({entity: parent, resource, amounts, level: 'parent'}))
    }
    const known = refusals.filter(refusal => refusal !== undefined)
    if (known.length > 0) throw await this.#exceeded(request, known)
  }

  /** Waits for all, so that nothing is left behind; a failure or refusal of one returns what the others took. */
  async #allOrNothing(request: CascadeRequest, asked: readonly Promise<Grant | Refusal>[]): Promise<readonly Grant[]> {
    const outcomes = await Promise.allSettled(asked)
    const answers = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    const grants = answers.filter(answer => 'entries' in answer)
    if (grants.length === asked.length) return grants
    for (const grant of grants) this.admission.refund(grant.entries)
    const failure = outcomes.find(outcome => outcome.status === 'rejected')
    if (failure) throw failure.reason
    const refusals = answers.filter(answer => 'statuses' in answer)
    // Whoever was charged in vain has said that it would admit.
    throw grants.length > 0 ? exceeded(refusals) : await this.#exceeded(request, refusals)
  }

  /** With the wait of the level that was not asked. A refusal stands even if that cannot be found out. */
  async #exceeded(request: CascadeRequest, refusals: readonly Refusal[]): Promise<RateLimitExceeded> {
    const parent = parentOf(this.entities.family(request.entity))
    const [asked] = refusals.length === 1 ? (refusals[0] as Refusal).statuses : []
    if (parent === undefined || !asked) return exceeded(refusals)
    const level = asked.level === 'entity' ? 'parent' : 'entity'
    const other = level === 'parent' ? ({...request, entity: parent, level} as const) : ({...request, level} as const)
    const outlook = await request.patience.until(outlookOf(this.admission, other)).catch(() => undefined)
    if (!outlook) return exceeded(refusals)
    return exceeded(level === 'parent' ? [...refusals, outlook] : [outlook, ...refusals])
  }
}

function parentOf(family: Family | undefined): string | undefined {
  return family?.cascade ? family.parent : undefined
}

function exceeded(refusals: readonly Refusal[]): RateLimitExceeded {
  const retryAfterMs = Math.max(...refusals.map(refusal => refusal.retryAfterMs))
  return new RateLimitExceeded(
    refusals.flatMap(refusal => refusal.statuses),
    retryAfterMs,
  )
}
