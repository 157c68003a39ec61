import {onAbort} from '../../../src/lib/dynamo/abort.js'
import {classifyError} from '../../../src/lib/dynamo/classify.js'
import {
  isRead,
  type Operation,
  type OperationInput,
  type OperationOutput,
  type SendOptions,
  type Transport,
} from '../../../src/lib/dynamo/transport.js'
import {Exchange} from '../../../src/lib/dynamo/transports/http.js'
import {type Fault, type FaultKind, REPEATS} from '../scenario.js'
import {isBatched} from './table-writes.js'
import type {VirtualTime} from './virtual-time.js'

/** Default time limit of a response, in ms, as passed by the limiter to its transport. */
const REQUEST_TIMEOUT_MS = 3000

/** The transport's bound on an exchange whose response keeps arriving, in ms. */
const LONGEST_EXCHANGE_MS = 4 * REQUEST_TIMEOUT_MS

/** Interval between the bytes of a dripping response, and its total time, in ms. */
const DRIP_MS = 500
const LONGEST_DRIP_MS = 600_000

/** Errors as a client sees them on the wire. */
const EVIDENCE: Partial<Record<FaultKind, object>> = {
  'lost-before': {name: 'Error', code: 'ECONNRESET'},
  'lost-after': {name: 'Error', code: 'ECONNRESET'},
  late: {name: 'Error', code: 'ECONNRESET'},
  'server-error': {name: 'InternalServerError', $metadata: {httpStatusCode: 500}},
  'server-error-applied': {name: 'InternalServerError', $metadata: {httpStatusCode: 500}},
  throttled: {name: 'ProvisionedThroughputExceededException', $metadata: {httpStatusCode: 400}},
  'expired-token': {name: 'ExpiredTokenException', $metadata: {httpStatusCode: 400}},
  denied: {name: 'AccessDeniedException', $metadata: {httpStatusCode: 400}},
}

/** Faults after which the request may have been applied, or is applied later. */
const APPLIED: ReadonlySet<FaultKind> = new Set([
  'lost-after',
  'late',
  'server-error-applied',
  'slow',
  'drip',
  'hang',
  ...REPEATS,
])

export interface NetworkOptions {
  /** Number of the calling process. */
  readonly process: number
  readonly time: VirtualTime
  /** Applies a request now, perhaps for the second time; throws the service's errors. */
  readonly carryOut: (operation: Operation, input: never, isAgain: boolean) => unknown
  /** Travel times of a call, there and back, by its number, in ms. */
  readonly waysMs: (call: number) => readonly [there: number, back: number]
  readonly faultAt: (call: number, operation: Operation, input: object) => Fault | undefined
  /** Whether the calling process is still alive. */
  readonly isAlive: () => boolean
  /** The number of the next call, from 1. */
  readonly nextCall: () => number
  readonly onCall: (operation: Operation, call: number, fault: Fault | undefined) => void
  /** Whether no other limiter uses the caller's mark slot. */
  readonly ownsSlot?: () => boolean
  /** Decides when a request arrives, instead of its travel time; the response then takes no time. */
  readonly dispatch: () => ((message: Message) => void) | undefined
}

/** A request in flight, for code that decides when it arrives. */
export interface Message {
  /** Number of the sending process. */
  readonly process: number
  readonly operation: Operation
  readonly input: unknown
  /** Applies the request and returns the response. */
  readonly arrive: () => unknown
}

/**
 * The connection between one process and the table. One `send` is one exchange, with the timers of the real transport.
 */
export class SimulatedTransport implements Transport {
  readonly #options: NetworkOptions

  constructor(options: NetworkOptions) {
    this.#options = options
  }

  async send<O extends Operation>(
    operation: O,
    input: OperationInput<O>,
    {signal, timeoutMs}: SendOptions = {},
  ): Promise<OperationOutput<O>> {
    const {faultAt, isAlive, nextCall, onCall} = this.#options
    if (!isAlive()) return new Promise(() => {})
    const call = nextCall()
    const fault = kindFor(faultAt(call, operation, input), operation, input)
    onCall(operation, call, fault)
    let isSent = false
    let unwatch: (() => void) | undefined
    try {
      signal?.throwIfAborted()
      const exchange = new Exchange('', performance.now() + (timeoutMs ?? LONGEST_EXCHANGE_MS))
      exchange.failAfter(REQUEST_TIMEOUT_MS, 'no answer')
      isSent = true
      unwatch = signal && onAbort(signal, () => exchange.fail(signal.reason))
      this.#start(exchange, operation, input, call, fault)
      return (await exchange.answer) as never
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: isSent})
    } finally {
      unwatch?.()
    }
  }

  #start(exchange: Exchange, operation: Operation, input: unknown, call: number, fault: Fault | undefined): void {
    const {time, waysMs, isAlive} = this.#options
    const [thereMs, backMs] = waysMs(call)
    const kind = fault?.kind
    const answer = (settle: () => void, extraMs = 0) =>
      time.after(
        backMs + extraMs,
        () => {
          if (isAlive()) settle()
        },
        this.#options.process,
      )
    if (kind && !APPLIED.has(kind) && kind !== 'unprocessed') {
      if (kind === 'conflict') answer(() => exchange.fail(conflict(operation, input)), thereMs)
      else answer(() => exchange.fail(EVIDENCE[kind]), thereMs)
      return
    }
    if (kind === 'late') answer(() => exchange.fail(EVIDENCE.late), thereMs)
    const dispatch = this.#options.dispatch()
    const arrive = (): unknown => {
      const {settle, response} = this.#carryOut(exchange, operation, input, kind)
      // A second delivery may be applied after the first was refused, unnoticed (S6, not covered).
      const isRefused = kind !== 'twice-answered-last' && response instanceof Error
      if (isRepeat(kind) && !isRefused)
        time.after(fault?.delayMs ?? 0, () => {
          // Another limiter may have overwritten the mark, so nothing shows the first delivery (S6, not covered). A
          // write with a refund requires the mark it has seen, so its second delivery is refused anyway.
          if (kind !== 'batch-twice' && this.#options.ownsSlot?.() === false) return
          const again = this.#carryOut(exchange, operation, input, kind, true)
          if (kind === 'twice-answered-last') answer(again.settle)
        })
      if (kind === 'twice-answered-last') return undefined
      if (kind === 'late' || kind === 'hang') return undefined
      if (kind === 'drip') this.#drip(exchange)
      else if (!dispatch) answer(settle, kind === 'slow' ? fault?.delayMs : 0)
      else if (isAlive()) settle()
      return response
    }
    if (dispatch) dispatch({process: this.#options.process, operation, input, arrive})
    else time.after(thereMs + (kind === 'late' ? (fault?.delayMs ?? 0) : 0), arrive)
  }

  #carryOut(
    exchange: Exchange,
    operation: Operation,
    input: unknown,
    kind: FaultKind | undefined,
    isAgain = false,
  ): {settle: () => void; response: unknown} {
    const evidence = kind && EVIDENCE[kind]
    try {
      const output =
        kind === 'unprocessed' ? this.#part(input) : this.#options.carryOut(operation, input as never, isAgain)
      return {settle: () => (evidence ? exchange.fail(evidence) : exchange.succeed(output as never)), response: output}
    } catch (error) {
      // A refusal is a response too, and can be lost.
      return {settle: () => exchange.fail(evidence ?? error), response: error}
    }
  }

  /** The response neither ends nor stalls. */
  #drip(exchange: Exchange): void {
    const {time} = this.#options
    const endMs = time.nowMs + LONGEST_DRIP_MS
    const next = () => {
      if (time.nowMs > endMs || exchange.isSettled || !this.#options.isAlive()) return
      exchange.notePart()
      time.after(DRIP_MS, next)
    }
    time.after(DRIP_MS, next)
  }

  /** Applies only the first half of a batch. */
  #part(input: unknown): unknown {
    const {RequestItems} = input as {RequestItems: Record<string, never>}
    const [[table, asked]] = Object.entries(RequestItems) as unknown as [[string, never[] | {Keys: never[]}]]
    const all = Array.isArray(asked) ? asked : asked.Keys
    const [now, later] = [all.slice(0, all.length >> 1), all.slice(all.length >> 1)]
    const some = (part: never[]) => ({[table]: Array.isArray(asked) ? part : {...asked, Keys: part}})
    const operation = Array.isArray(asked) ? 'BatchWriteItem' : 'BatchGetItem'
    const left = Array.isArray(asked) ? {UnprocessedItems: some(later)} : {UnprocessedKeys: some(later)}
    const empty = {Responses: {[table]: []}}
    const done = now.length > 0 ? this.#options.carryOut(operation, {RequestItems: some(now)} as never, false) : empty
    return {...(done as object), ...left}
  }
}

const isRepeat = (kind: FaultKind | undefined): boolean => REPEATS.some(repeat => repeat === kind)

function conflict(operation: Operation, input: unknown): object {
  if (operation !== 'TransactWriteItems')
    return {name: 'TransactionConflictException', $metadata: {httpStatusCode: 400}}
  const {TransactItems = []} = input as {TransactItems?: unknown[]}
  const CancellationReasons = TransactItems.map((_, at) => ({Code: at === 0 ? 'TransactionConflict' : 'None'}))
  return {name: 'TransactionCanceledException', CancellationReasons, $metadata: {httpStatusCode: 400}}
}

/** The fault as it appears at this operation; `undefined` if it cannot. */
function kindFor(fault: Fault | undefined, operation: Operation, input: object): Fault | undefined {
  if (!fault) return undefined
  const isBatch = operation === 'BatchGetItem' || operation === 'BatchWriteItem'
  if (fault.kind === 'unprocessed' && !isBatch) return undefined
  if ((fault.kind === 'conflict' || isRepeat(fault.kind)) && isRead(operation)) return undefined
  if (fault.kind === 'batch-twice' && !isBatched(operation, input)) return undefined
  return fault
}
