import type {Consumption} from '../core/limits/limit.js'
import type {Lease} from '../limiter/lease.js'
import {
  createGuard,
  type DecisionOptions,
  type GuardLimiter,
  type GuardOutcome,
  type LimitNames,
  type RefusedRequest,
} from './guard.js'
import type {TokenEstimate, UsageTally} from './model-call.js'
import {warningOnce} from './problem.js'
import {
  type ProviderAccount,
  type ProviderAnswer,
  type ProviderLimitNames,
  ProviderReporter,
  providerConsumption,
  type ReportingLimiter,
} from './provider.js'

/** The part of a limiter that adapters for calls to models need. */
export type CallLimiter = GuardLimiter & Partial<ReportingLimiter>

/** How adapters decide on calls to models. */
export interface CallDecisionOptions extends DecisionOptions {
  /** The provider account that each call is also charged to. Its responses lower the account's balance. */
  readonly provider?: ProviderAccount
}

/** Whom calls are charged to, and how much they may use. `Call` is the adapter's description of a call. */
export interface CallOptions<Call> extends CallDecisionOptions {
  /** The entity to charge. */
  readonly entity: string | ((call: Call) => string | Promise<string>)
  /** The resource to charge. By default, calls without a model, such as a list of models, are free. @default the model */
  readonly resource?: string | ((call: Call) => string | Promise<string>)
  /** Tokens a call may use. @default one per four characters of input, plus the maximum output the request sets */
  readonly estimate?: (call: Call) => TokenEstimate | Promise<TokenEstimate>
  /** Returns true for calls that are not limited. */
  readonly skip?: (call: Call) => boolean | Promise<boolean>
}

interface ChargedCall {
  readonly entity: string
  readonly resource: string
  readonly estimate: TokenEstimate
}

interface CallCharge {
  readonly kind: 'admitted'
  readonly lease: Lease
  // None of these throws or waits long for the table: the provider's response must reach the caller.
  answered(answer: ProviderAnswer): Promise<void>
  /** After a failure: refunds everything; applies the provider feedback if there is a response. */
  failed(answer?: ProviderAnswer): Promise<void>
  settle(tally: UsageTally, isBroken: boolean): Promise<void>
}

type CallOutcome = CallCharge | Exclude<GuardOutcome, {kind: 'admitted' | 'skipped'}>

/** Charges the caller, then the provider account. Refunds the caller if the account refuses. `undefined`: not limited. */
export function createCallGuard<Call>(
  limiter: CallLimiter,
  options: CallOptions<Call>,
  estimateOf: (call: Call) => TokenEstimate,
): (call: Call, model: string | undefined, signal?: AbortSignal | null) => Promise<CallOutcome | undefined> {
  const {entity, resource, estimate = estimateOf, skip} = options
  const {provider, limitNames = {}, waitMs, onUnavailable, settle, headers} = options
  // Picked one by one: an adapter's `entity`, `resource` and `skip` take another call than the guard's.
  const rules = {
    limitNames,
    ...(onUnavailable && {onUnavailable}),
    ...(settle && {settle}),
    ...(headers && {headers}),
  }
  const own = createGuard<ChargedCall, string>(limiter, {
    ...rules,
    entity: call => call.entity,
    resource: call => call.resource,
    consume: call => reservation(call.estimate, limitNames),
  })
  const shared =
    provider &&
    createGuard<ChargedCall, string>(limiter, {
      ...rules,
      entity: () => provider.entity,
      resource: call => provider.resource ?? call.resource,
      consume: call => providerConsumption(call.estimate, provider.limitNames),
    })
  const reporter =
    provider && limiter.reportProviderLimits && new ProviderReporter(limiter as ReportingLimiter, provider.limitNames)
  return async (asked, model, signal) => {
    const isOther = resource === undefined && model === undefined
    if (isOther || (await skip?.(asked))) return undefined
    const call = {
      estimate: await estimate(asked),
      entity: typeof entity === 'string' ? entity : await entity(asked),
      resource: typeof resource === 'function' ? await resource(asked) : (resource ?? model ?? ''),
    }
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
      return charge(call, lease, limitNames, {lease: atProvider.lease, provider, reporter})
    await patiently(lease.rollback())
    return (atProvider.kind === 'refused' ? byProvider(atProvider) : atProvider) as CallOutcome
  }
}

interface ProviderCharge {
  readonly lease: Lease
  readonly provider: ProviderAccount
  readonly reporter: ProviderReporter | undefined
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
  /** Fixes the time of the response now; the returned function may run more than once. */
  const reportOf = (answer: ProviderAnswer) => {
    const answeredMs = performance.now()
    return async (isReturned: boolean): Promise<void> => {
      await shared?.reporter?.report(shared.lease, {answer, consumed, isReturned, sentMs, answeredMs})
    }
  }
  const refund = async (): Promise<void> => {
    await Promise.all(leases.map(each => (each.isEnded ? undefined : each.rollback())))
  }
  const fail = async (answer?: ProviderAnswer): Promise<void> => {
    const report = answer && reportOf(answer)
    // Lower the balance before the refund, so that nobody takes it, and again after it: others may have refunded too.
    if (answer?.status === 429) await report?.(false)
    await refund()
    await report?.(true)
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
    answered: answer => patiently(reportOf(answer)(false)),
    failed: answer => patiently(fail(answer)),
    settle: (tally, isBroken) => patiently(settle(tally.used(estimate, isBroken))),
  }
}

/** Reveals that the provider limited the request, not the account's id. */
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

async function settleLease(lease: Lease, deltas: Consumption): Promise<void> {
  if (lease.isEnded) return
  try {
    if (Object.values(deltas).some(delta => delta !== 0)) await lease.adjust(deltas)
    await lease.commit()
  } catch (error) {
    warnUnsettled(error)
  }
}

/** Longest time, in ms, that a provider's response waits for the table. Pending writes continue. */
const LONGEST_WAIT_MS = 1000

export function patiently(work: Promise<unknown>): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, LONGEST_WAIT_MS)
    void work.catch(warnUnsettled).finally(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

const warnUnsettled = warningOnce('ZAEL_UNSETTLED', 'The tokens of a call stay charged as they were estimated')
