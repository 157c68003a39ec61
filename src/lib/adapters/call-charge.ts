import type {Consumption} from '../core/limits/limit.js'
import type {Lease} from '../limiter/lease.js'
import {observedStream, type StreamObserver} from '../limiter/observed-stream.js'
import {guardedCallback} from '../limiter/observer.js'
import {amountsBetween, amountsBeyond, type CallLimits, callAmounts, reservable} from './call-limits.js'
import {
  createGuard,
  createServerGuard,
  type DecisionOptions,
  type GuardLimiter,
  type GuardOutcome,
  type RefusedRequest,
} from './guard.js'
import {tallyAnswer} from './model-answer.js'
import {type CallPrice, pricing} from './model-price.js'
import {
  type ModelUsage,
  type TokenEstimate,
  type Tokenizer,
  UsageTally,
  type UsageWeights,
  usageOf,
} from './model-usage.js'
import {warningOnce} from './problem.js'
import {type ProviderAccount, type ProviderAnswer, ProviderReporter, type ReportingLimiter} from './provider.js'

/** The part of a limiter that adapters for calls to models need. */
export type CallLimiter = GuardLimiter & Partial<ReportingLimiter>

/** Who is charged for calls, and how much. `Call` is the adapter's description of a call. */
export interface CallOptions<Call> extends Omit<DecisionOptions, 'limits'> {
  /** The entity to charge. */
  readonly entity: string | ((call: Call) => string | Promise<string>)
  /** The resource to charge. @default the model */
  readonly resource?: string | ((call: Call) => string | Promise<string>)
  /** The limits to charge. @default `{requests: 'rpm', tokens: 'tpm'}` */
  readonly limits?: CallLimits
  /** The provider account that each call is also charged to. Provider feedback lowers the account's balance. */
  readonly provider?: ProviderAccount
  /** Tokens a call may use. @default input counted by `tokenizer`, plus the maximum output the request sets */
  readonly estimate?: (call: Call) => TokenEstimate | Promise<TokenEstimate>
  /**
   * Counts the tokens of input, and of output without a provider's count.
   * @default one per four ASCII characters, and one per other character
   */
  readonly tokenizer?: Tokenizer
  /** How much a token of each kind counts for limits of tokens. @default 1 each */
  readonly weights?: UsageWeights
  /**
   * Prices of all models, or a function that returns the cost of a call in units of the currency, or `undefined` if the
   * price is unknown. @default none
   */
  readonly price?: CallPrice<Call>
  /** Whether to refuse calls of models without a price, or charge the highest price of the table. @default 'refuse' */
  readonly onUnknownPrice?: 'refuse' | 'highest'
  /** Returns true for calls that are not limited. */
  readonly skip?: (call: Call) => boolean | Promise<boolean>
  /**
   * The charge of a call that was sent and ends without the provider's count. `keep`: the whole estimate. `refund`: input
   * and received output, or nothing without a response; the provider may bill more. @default 'keep'
   */
  readonly onAbort?: 'keep' | 'refund'
  /** Output that `keep` assumes for a call that sets no maximum, in tokens. @default 4096 */
  readonly maxOutput?: number
  /** If the reader of a stream stops early, read on until the provider's count arrives. @default false */
  readonly drain?: boolean
  /** Charge output beyond the estimate while the stream is read, every so many tokens. @default at the end */
  readonly settleEvery?: number
  /** Called once for each admitted call, when its charge is final. */
  readonly onSettled?: (settled: SettledCall) => void
}

/** The final charge of a call. */
export interface SettledCall {
  readonly entity: string
  readonly resource: string
  readonly model: string | undefined
  /** As the provider counted; `undefined` if it did not. */
  readonly usage: ModelUsage | undefined
  /** By limit. Limits in money count millionths. */
  readonly charged: Consumption
  /** Why the charge could not be settled. Then more may be charged than `charged`. */
  readonly error?: unknown
}

interface ChargedCall {
  readonly entity: string
  readonly resource: string
  readonly model: string | undefined
  readonly estimate: TokenEstimate
  readonly amounts: Consumption
  /** The part of `amounts` that comes back if this process dies: the provider bills the input in any case. */
  readonly output: Consumption
  /** Once the caller is charged. */
  readonly lease?: Lease
}

/** The events of an admitted call. None of these throws or waits long: the provider's response must reach the caller. */
export interface CallCharge {
  readonly kind: 'admitted'
  readonly lease: Lease
  answered(answer: ProviderAnswer): Promise<void>
  /**
   * The provider responded with an error: refunds everything, unless it reports usage or may bill the call anyway.
   * Settles when the whole error has arrived.
   */
  refused(answer: ProviderAnswer, error: string | Promise<string>): Promise<void>
  /** No response. Refunds what certainly never left; otherwise the provider may bill it. `undefined`: aborted. */
  failed(error: unknown): Promise<void>
  neverSent(): Promise<void>
  /** While the response arrives. */
  progress(tally: UsageTally): void
  settle(tally: UsageTally): Promise<void>
}

export type CallOutcome = CallCharge | Exclude<GuardOutcome, {kind: 'admitted' | 'skipped'}>

/** Charges the caller, then the provider account. Refunds the caller if the account refuses. `undefined`: not limited. */
export function createCallGuard<Call>(
  limiter: CallLimiter,
  options: CallOptions<Call>,
  estimateOf: (call: Call, tokenizer: Tokenizer | undefined) => TokenEstimate,
): (call: Call, model: string | undefined, more?: CallContext) => Promise<CallOutcome | undefined> {
  const {entity, resource, skip, price, onUnknownPrice, weights, tokenizer, provider} = options
  const {
    waitMs,
    enforce,
    onUnavailable,
    settle,
    headers,
    estimate = (call: Call) => estimateOf(call, tokenizer),
  } = options
  const limits: CallLimits = {...(price && {cost: 'usd'}), ...options.limits}
  // Picked one by one: an adapter's `entity`, `resource` and `skip` take another call than the guard's.
  const rules = {
    limits,
    ...(enforce !== undefined && {enforce}),
    ...(onUnavailable && {onUnavailable}),
    ...(settle && {settle}),
    ...(headers && {headers}),
  }
  const ownGuard = createServerGuard<ChargedCall, string>(
    limiter,
    {
      ...rules,
      entity: call => call.entity,
      resource: typeof resource === 'string' ? resource : call => call.resource,
      consume: call => call.amounts,
    },
    {reserve: call => call.output},
  )
  const providerAmounts = (usage: ModelUsage) =>
    callAmounts(usage, 0, provider?.limits ?? {}, provider?.weights ?? weights)
  const sharedGuard =
    provider &&
    createGuard<ChargedCall, string>(
      limiter,
      {
        ...rules,
        entity: () => provider.entity,
        resource: call => provider.resource ?? call.resource,
        consume: call => reservable(providerAmounts(usageOf(call.estimate))),
      },
      {
        caller: ({lease}) => lease && {entity: lease.entity, resource: lease.resource},
        reserve: ({estimate}) =>
          amountsBeyond(
            providerAmounts(usageOf({...estimate, output: 0})),
            reservable(providerAmounts(usageOf(estimate))),
          ),
      },
    )
  const reporter =
    provider && limiter.reportProviderLimits && new ProviderReporter(limiter as ReportingLimiter, provider.limits)
  const costs = pricing(price, onUnknownPrice)
  const ending = {...options, ...(options.onSettled && {onSettled: guardedCallback('onSettled', options.onSettled)})}

  return async (asked, model, {signal, isLast = true, unknown} = {}) => {
    if (await skip?.(asked)) return undefined
    const expected = await estimate(asked)
    const cost = costs.reserve(asked, model, expected)
    if (cost === undefined) return unpriced()
    const amounts = reservable(callAmounts(usageOf(expected), cost, limits, weights))
    const sent = usageOf({...expected, output: 0})
    const call: ChargedCall = {
      entity: typeof entity === 'string' ? entity : await entity(asked),
      resource: typeof resource === 'function' ? await resource(asked) : (resource ?? unknown ?? model ?? ''),
      model,
      estimate: expected,
      amounts,
      output: amountsBeyond(callAmounts(sent, costs.of(asked, model, sent) ?? cost, limits, weights), amounts),
    }
    const longestMs = isLast ? waitMs : 0
    const startMs = performance.now()
    const own = await ownGuard(call, signal ?? undefined, longestMs)
    if (own.kind !== 'admitted') return own as CallOutcome
    const parts: ChargedPart[] = [
      {
        lease: own.lease,
        charged: call.amounts,
        amountsOf: (usage, isCounted) =>
          callAmounts(usage, costs.of(asked, model, usage, isCounted) ?? cost, limits, weights),
      },
    ]
    if (!sharedGuard) return charge(call, parts, ending)
    const leftMs = longestMs === undefined ? undefined : Math.max(0, longestMs - (performance.now() - startMs))
    let shared: GuardOutcome
    try {
      shared = await sharedGuard({...call, lease: own.lease}, signal ?? undefined, leftMs)
    } catch (error) {
      await patiently(own.lease.rollback())
      throw error
    }
    if (shared.kind === 'admitted') {
      const charged = providerAmounts(usageOf(expected))
      return charge(call, [...parts, {lease: shared.lease, charged, amountsOf: providerAmounts}], ending, reporter)
    }
    await patiently(own.lease.rollback())
    return (shared.kind === 'refused' ? byProvider(shared) : shared) as CallOutcome
  }
}

interface CallContext {
  readonly signal?: AbortSignal | null | undefined
  /** Whether to wait for admission; otherwise another model is tried. @default true */
  readonly isLast?: boolean
  /** The resource to charge because the model is unknown. */
  readonly unknown?: string | undefined
}

/** One of the leases of a call. */
interface ChargedPart {
  readonly lease: Lease
  charged: Consumption
  readonly amountsOf: (usage: ModelUsage, isCounted: boolean) => Consumption
}

type ChargeOptions = Pick<CallOptions<never>, 'onAbort' | 'maxOutput' | 'settleEvery' | 'onSettled'>

function charge(
  {entity, resource, model, estimate}: ChargedCall,
  parts: readonly ChargedPart[],
  {onAbort = 'keep', maxOutput = 4096, settleEvery = Number.POSITIVE_INFINITY, onSettled}: ChargeOptions,
  reporter?: ProviderReporter,
): CallCharge {
  const [own, shared] = parts as [ChargedPart, ChargedPart?]
  const leastOutput = onAbort === 'refund' ? 0 : estimate.output || maxOutput * (estimate.answers ?? 1)
  const sentMs = performance.now()
  let writing: Promise<unknown> = Promise.resolve()
  let settledOutput = estimate.output
  let checkedOutput = estimate.output

  /** Fixes the time of the response now; the returned function may run more than once. */
  const reportOf = (answer: ProviderAnswer) => {
    const answeredMs = performance.now()
    return async (isReturned: boolean): Promise<void> => {
      if (!shared) return
      const consumed = shared.amountsOf(usageOf(estimate), false)
      await reporter?.report(shared.lease, {answer, consumed, isReturned, sentMs, answeredMs})
    }
  }
  /** One write at a time. Reports when all of them are written, or given up: an outage can outlast the response. */
  const ending = (usage: ModelUsage | undefined, ends: (part: ChargedPart) => Promise<void>): Promise<void> => {
    const ended = writing.then(async () => {
      await Promise.all(parts.map(part => (part.lease.isEnded ? undefined : ends(part))))
    })
    const report = (failure?: {readonly error: unknown}) =>
      onSettled?.({entity, resource, model, usage, charged: own.lease.consumed, ...failure})
    writing = ended
      .then(() => Promise.all(parts.map(part => part.lease.written())))
      .then(
        () => report(),
        error => report({error}),
      )
    return ended
  }
  const refund = (): Promise<void> => ending(undefined, part => part.lease.rollback())
  const settleAs = (usage: ModelUsage, counted: ModelUsage | undefined): Promise<void> =>
    ending(counted, async part => {
      try {
        await chargeAs(part, usage, counted !== undefined)
      } finally {
        await part.lease.commit()
      }
    })
  const keep = (): Promise<void> => settleAs({...usageOf(estimate), output: leastOutput}, undefined)
  return {
    kind: 'admitted',
    lease: own.lease,
    answered: answer => patiently(reportOf(answer)(false)),
    refused: (answer, error) => {
      const report = reportOf(answer)
      const end = async () => {
        const text = await error
        const tally = new UsageTally()
        tallyAnswer(tally, text)
        const {counted} = tally
        if (counted) await settleAs(counted, counted)
        else await (onAbort === 'keep' && mayBeBilled(answer.status, text) ? keep() : refund())
      }
      // Lower the balance before the refund, so that nobody takes it, and again after it: others may have refunded too.
      const first = answer.status === 429 ? report(false) : Promise.resolve()
      return patiently(first.then(end).then(() => report(true)))
    },
    failed: error => patiently(onAbort === 'refund' || neverLeft(error) ? refund() : keep()),
    neverSent: () => patiently(refund()),
    progress: tally => {
      const {roughlyReceived} = tally
      if (roughlyReceived - checkedOutput < settleEvery) return
      checkedOutput = roughlyReceived
      const {received} = tally
      if (received <= settledOutput) return
      settledOutput = received
      const usage = tally.used(estimate, received)
      writing = writing.then(() => Promise.all(parts.map(part => chargeAs(part, usage, false)))).catch(warnUnsettled)
    },
    settle: tally => {
      if (tally.isUncounted && estimate.output === 0) warnUncounted(model)
      return patiently(settleAs(tally.used(estimate, leastOutput), tally.counted))
    },
  }
}

async function chargeAs(part: ChargedPart, usage: ModelUsage, isCounted: boolean): Promise<void> {
  if (part.lease.isEnded) return
  const amounts = part.amountsOf(usage, isCounted)
  const deltas = amountsBetween(part.charged, amounts)
  if (Object.keys(deltas).length === 0) return
  await part.lease.adjust(deltas)
  part.charged = amounts
}

/**
 * A proxy stopped waiting, or an SDK cannot read a response of success: the provider has worked. Azure bills calls that
 * its content filter stops.
 */
const mayBeBilled = (status: number, error: string): boolean =>
  (status >= 200 && status < 300) || [408, 499, 504, 524].includes(status) || error.includes('"content_filter"')

/** Failures before any byte of the request left: no name, no connection, no valid certificate, no key for the SDK. */
const NEVER_SENT = new Set<unknown>([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EHOSTUNREACH', 'ENETUNREACH', 'ENETDOWN'],
  ...['UND_ERR_CONNECT_TIMEOUT', 'ERR_INVALID_URL', 'ERR_TLS_CERT_ALTNAME_INVALID', 'CERT_HAS_EXPIRED'],
  ...['DEPTH_ZERO_SELF_SIGNED_CERT', 'SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  // Messages of `fetch`.
  ...['bad port', 'unknown scheme'],
  ...['AI_LoadAPIKeyError', 'AI_LoadSettingError', 'AI_InvalidPromptError', 'AI_UnsupportedFunctionalityError'],
])

/** Most causes that are looked at: a cause can be its own. */
const MOST_CAUSES = 8

function neverLeft(error: unknown): boolean {
  let cause = error
  for (let causes = 0; causes < MOST_CAUSES && typeof cause === 'object' && cause !== null; causes++) {
    const {code, name, message, syscall, cause: next} = cause as Record<string, unknown>
    // A connection in use can fail with these codes too, when it is read or written.
    const isUsed = syscall === 'read' || syscall === 'write'
    if (!isUsed && [code, name, message].some(why => NEVER_SENT.has(why))) return true
    cause = next
  }
  return false
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

const unpriced = (): RefusedRequest => refusedCall('Unknown price', 'The model of this call has no price.')

export function refusedCall(title: string, detail: string): RefusedRequest {
  const problem = {type: 'about:blank', title, status: 400, detail}
  return {kind: 'refused', status: 400, headers: {}, retryAfterMs: null, problem}
}

/** Settles calls whose responses nobody can read any more. */
const unread = new FinalizationRegistry<() => void>(settle => settle())

/** An observed stream that also ends when it is garbage. A drained one is read on without its reader. */
export function settledStream<Chunk>(
  source: ReadableStream<Chunk>,
  observer: StreamObserver<Chunk>,
  isDrained: boolean,
): ReadableStream<Chunk> {
  let ended: Promise<void> | undefined
  const end: StreamObserver<Chunk>['end'] = (isBroken, isCancelled) => {
    ended ??= observer.end(isBroken, isCancelled)
    return ended
  }
  const stream = observedStream(source, {...observer, end}, isDrained)
  if (!isDrained) unread.register(stream, () => void end(true, true))
  return stream
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

const warnUncounted = warningOnce(
  'ZAEL_NO_USAGE',
  'A call set no maximum and its response has no usage, so `maxOutput` and `onAbort` decide the charge for its output',
)
