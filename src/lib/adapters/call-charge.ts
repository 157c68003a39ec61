import type {Consumption} from '../core/limits/limit.js'
import type {Lease} from '../limiter/lease.js'
import type {LimitNames} from './dialects.js'
import {createGuard, type DecisionOptions, type GuardOutcome, type RefusedRequest} from './guard.js'
import type {TokenEstimate} from './model-call.js'
import {
  type LearningLimiter,
  type ProviderAccount,
  ProviderLessons,
  type ProviderLimitNames,
  providerConsumption,
} from './provider.js'
import type {ProviderAnswer} from './provider-answer.js'

/** How calls of models are decided. */
export interface CallDecisionOptions extends DecisionOptions {
  readonly limiter: DecisionOptions['limiter'] & Partial<LearningLimiter>
  /** The organisation at the provider that every call is charged to as well, and that learns from its answers. */
  readonly provider?: ProviderAccount
}

export interface ChargedCall {
  readonly entity: string
  readonly resource: string
  readonly estimate: TokenEstimate
}

export interface CallCharge {
  readonly kind: 'admitted'
  readonly lease: Lease
  // None of these throws, nor waits long for the table: what the provider has answered goes to the caller in any case.
  /** The call was answered with a success: its head teaches. */
  answered(answer: ProviderAnswer): Promise<void>
  /** The call has failed: returns everything, and teaches if there was an answer. */
  failed(answer?: ProviderAnswer): Promise<void>
  settle(used: TokenEstimate): Promise<void>
}

export type CallOutcome = CallCharge | Exclude<GuardOutcome, {kind: 'admitted' | 'skipped'}>

/** Charges calls to the caller, then to the provider's entity; what refuses there is returned to the caller. */
export function createCallGuard(
  options: CallDecisionOptions,
): (call: ChargedCall, signal?: AbortSignal | null) => Promise<CallOutcome> {
  const {limiter, provider, limitNames = {}, waitMs, onUnavailable, settle, headers} = options
  // Not all of the options: some of an adapter have the names of the guard's, and another call in mind.
  const rules = {
    limiter,
    limitNames,
    ...(onUnavailable && {onUnavailable}),
    ...(settle && {settle}),
    ...(headers && {headers}),
  }
  const own = createGuard<ChargedCall>({
    ...rules,
    entity: call => call.entity,
    resource: call => call.resource,
    consume: call => reservation(call.estimate, limitNames),
  })
  const shared =
    provider &&
    createGuard<ChargedCall>({
      ...rules,
      entity: () => provider.entity,
      resource: call => provider.resource ?? call.resource,
      consume: call => providerConsumption(call.estimate, provider.limitNames),
    })
  const lessons = provider && limiter.learn && new ProviderLessons(limiter as LearningLimiter, provider.limitNames)
  return async (call, signal) => {
    const startMs = performance.now()
    const outcome = await own(call, signal ?? undefined, waitMs)
    if (outcome.kind !== 'admitted') return outcome as CallOutcome
    const {lease} = outcome
    if (!shared) return charge(call, lease, limitNames)
    const leftMs = waitMs === undefined ? undefined : Math.max(0, waitMs - (performance.now() - startMs))
    let atProvider: GuardOutcome
    try {
      atProvider = await shared(call, signal ?? undefined, leftMs)
    } catch (error) {
      await patiently(lease.rollback())
      throw error
    }
    if (atProvider.kind === 'admitted')
      return charge(call, lease, limitNames, {lease: atProvider.lease, provider, lessons})
    await patiently(lease.rollback())
    return (atProvider.kind === 'refused' ? byProvider(atProvider) : atProvider) as CallOutcome
  }
}

interface ProviderCharge {
  readonly lease: Lease
  readonly provider: ProviderAccount
  readonly lessons: ProviderLessons | undefined
}

function charge(
  {estimate}: ChargedCall,
  lease: Lease,
  limitNames: NonNullable<CallDecisionOptions['limitNames']>,
  shared?: ProviderCharge,
): CallCharge {
  const leases = shared ? [lease, shared.lease] : [lease]
  const consumed = providerConsumption(estimate, shared?.provider.limitNames)
  const sentMs = performance.now()
  /** Teaches what an answer that came just now tells; more than once where something changes meanwhile. */
  const lesson = (answer: ProviderAnswer) => {
    const answeredMs = performance.now()
    return async (isReturned: boolean): Promise<void> => {
      await shared?.lessons?.learn(shared.lease, {answer, consumed, isReturned, sentMs, answeredMs})
    }
  }
  const giveBack = async (): Promise<void> => {
    await Promise.all(leases.map(each => (each.isEnded ? undefined : each.rollback())))
  }
  const fail = async (answer?: ProviderAnswer): Promise<void> => {
    const learn = answer && lesson(answer)
    // Nobody may take what is returned for a call that was refused: the balance is lowered before, and after it once more,
    // as others may have returned something as well.
    if (answer?.status === 429) await learn?.(false)
    await giveBack()
    await learn?.(true)
  }
  const settle = async (used: TokenEstimate): Promise<void> => {
    const delta = used.input + used.output - (estimate.input + estimate.output)
    const [, theirs] = leases
    const names = shared?.provider.limitNames ?? {}
    await Promise.all([
      settleLease(lease, {[limitNames.tokens ?? 'tpm']: delta}),
      ...(theirs ? [settleLease(theirs, tokenDeltas(estimate, used, names))] : []),
    ])
  }
  return {
    kind: 'admitted',
    lease,
    answered: answer => patiently(lesson(answer)(false)),
    failed: answer => patiently(fail(answer)),
    settle: used => patiently(settle(used)),
  }
}

/** The caller has room: whose limit it was is worth knowing, and who that is, is not. */
function byProvider(refused: RefusedRequest): RefusedRequest {
  const {problem} = refused
  if (problem.status !== 429) return refused
  return {
    ...refused,
    problem: {...problem, detail: `The limit of the provider: ${problem.detail}`, 'limited-by': 'provider'},
  }
}

function reservation({input, output}: TokenEstimate, {requests = 'rpm', tokens = 'tpm'}: LimitNames): Consumption {
  return {[requests]: 1, [tokens]: input + output}
}

function tokenDeltas(estimate: TokenEstimate, used: TokenEstimate, names: ProviderLimitNames): Consumption {
  const reserved = providerConsumption(estimate, names)
  const spent = providerConsumption(used, names)
  return Object.fromEntries(Object.entries(spent).map(([name, tokens]) => [name, tokens - (reserved[name] ?? 0)]))
}

/** Adds or returns what was estimated wrong, and ends the lease. Never throws: the answer is there. */
async function settleLease(lease: Lease, deltas: Consumption): Promise<void> {
  if (lease.isEnded) return
  try {
    if (Object.values(deltas).some(delta => delta !== 0)) await lease.adjust(deltas)
    await lease.commit()
  } catch (error) {
    warnUnsettled(error)
  }
}

/** The answer of a provider is kept waiting for the table no longer than this, in ms. What is under way goes on. */
const LONGEST_WAIT_MS = 1000

/** Resolves when the work has ended, also where it has failed, or takes too long. */
export function patiently(work: Promise<unknown>): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, LONGEST_WAIT_MS)
    void work.catch(warnUnsettled).finally(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

let hasWarned = false

/** The answer has been paid for and goes to the caller in any case; what was estimated stays charged. */
function warnUnsettled(error: unknown): void {
  if (hasWarned) return
  hasWarned = true
  const why = error instanceof Error ? error.message : String(error)
  process.emitWarning(`The tokens of a call stay charged as they were estimated (${why}). Said once per process.`, {
    type: 'ZaelWarning',
    code: 'ZAEL_UNSETTLED',
  })
}
