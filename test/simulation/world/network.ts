import {classifyError} from '../../../src/lib/dynamo/classify.js'
import {
  isRead,
  type Operation,
  type OperationInput,
  type OperationOutput,
  type SendOptions,
  type Transport,
} from '../../../src/lib/dynamo/transport.js'
import {Exchange} from '../../../src/lib/dynamo/transports/http-connection.js'
import {type Fault, type FaultKind, REPEATS} from '../scenario.js'
import {isRide} from './table-writes.js'
import type {VirtualTime} from './virtual-time.js'

/** How long an answer may take where the caller names no deadline, in ms: what the limiter passes to its transport. */
const REQUEST_TIMEOUT_MS = 3000

/** As the transport bounds an exchange whose answer keeps arriving, in ms. */
const LONGEST_EXCHANGE_MS = 4 * REQUEST_TIMEOUT_MS

/** How often a dripping answer brings another byte, and for how long, in ms. */
const DRIP_MS = 500
const LONGEST_DRIP_MS = 600_000

/** What a client that sees nothing but the wire is told. */
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

/** Faults after which the request may have been carried out, or is carried out later. */
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
  /** Number of the process that calls. */
  readonly process: number
  readonly time: VirtualTime
  /** Carries a request out, now, perhaps for the second time; throws what the service answers. */
  readonly carryOut: (operation: Operation, input: never, isAgain: boolean) => unknown
  /** Ways there and back of a call, by its number, in ms. */
  readonly waysMs: (call: number) => readonly [there: number, back: number]
  readonly faultAt: (call: number, operation: Operation) => Fault | undefined
  /** Whether the process that calls is still alive. */
  readonly isAlive: () => boolean
  /** The number of the next call, from 1. */
  readonly nextCall: () => number
  readonly onCall: (operation: Operation, call: number, fault: Fault | undefined) => void
  /** Whether the marks of the caller are in no other limiter's slot. */
  readonly ownsSlot?: () => boolean
  /** Decides when a request arrives, in place of its way there; the answer then takes no time. */
  readonly dispatch: () => ((message: Message) => void) | undefined
}

/** A request under way, for those who decide when it arrives. */
export interface Message {
  /** Number of the process that sent it. */
  readonly process: number
  readonly operation: Operation
  readonly input: unknown
  /** Carries the request out; returns what is answered. */
  readonly arrive: () => unknown
}

/** The way between one process and the table. One `send` is one exchange, with the timers of the shipped transport. */
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
    const fault = kindFor(faultAt(call, operation), operation, input)
    onCall(operation, call, fault)
    let isSent = false
    let stop: (() => void) | undefined
    try {
      signal?.throwIfAborted()
      const exchange = new Exchange('', performance.now() + (timeoutMs ?? LONGEST_EXCHANGE_MS))
      exchange.failAfter(REQUEST_TIMEOUT_MS, 'no answer')
      isSent = true
      stop = () => exchange.fail(signal?.reason)
      signal?.addEventListener('abort', stop, {once: true})
      this.#start(exchange, operation, input, call, fault)
      return (await exchange.answer) as never
    } catch (error) {
      throw classifyError(error, operation, {signal, sent: isSent})
    } finally {
      if (stop) signal?.removeEventListener('abort', stop)
    }
  }

  #start(exchange: Exchange, operation: Operation, input: unknown, call: number, fault: Fault | undefined): void {
    const {time, waysMs, isAlive} = this.#options
    const [thereMs, backMs] = waysMs(call)
    const kind = fault?.kind
    const answer = (settle: () => void, extraMs = 0) =>
      time.after(backMs + extraMs, () => {
        if (isAlive()) settle()
      })
    if (kind && !APPLIED.has(kind) && kind !== 'unprocessed') {
      if (kind === 'conflict') answer(() => exchange.fail(conflict(operation, input)), thereMs)
      else answer(() => exchange.fail(EVIDENCE[kind]), thereMs)
      return
    }
    if (kind === 'late') answer(() => exchange.fail(EVIDENCE.late), thereMs)
    const dispatch = this.#options.dispatch()
    const arrive = (): unknown => {
      const {settle, told} = this.#carryOut(exchange, operation, input, kind)
      // A second delivery may be applied after the first was refused, and nobody notices (S6, not covered).
      const isToldRefused = kind !== 'twice-answered-last' && told instanceof Error
      if (isRepeat(kind) && !isToldRefused)
        time.after(fault?.delayMs ?? 0, () => {
          // Another limiter may have overwritten the mark, and nothing shows the first delivery (S6, not covered). A write
          // with a refund requires the mark it has seen, so its second delivery is refused all the same.
          if (kind !== 'ride-twice' && this.#options.ownsSlot?.() === false) return
          const again = this.#carryOut(exchange, operation, input, kind, true)
          if (kind === 'twice-answered-last') answer(again.settle)
        })
      if (kind === 'twice-answered-last') return undefined
      if (kind === 'late' || kind === 'hang') return undefined
      if (kind === 'drip') this.#drip(exchange)
      else if (dispatch) settle()
      else answer(settle, kind === 'slow' ? fault?.delayMs : 0)
      return told
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
  ): {settle: () => void; told: unknown} {
    const evidence = kind && EVIDENCE[kind]
    try {
      const output =
        kind === 'unprocessed' ? this.#part(input) : this.#options.carryOut(operation, input as never, isAgain)
      return {settle: () => (evidence ? exchange.fail(evidence) : exchange.succeed(output as never)), told: output}
    } catch (error) {
      // A refusal is an answer as well: it is lost like any other.
      return {settle: () => exchange.fail(evidence ?? error), told: error}
    }
  }

  /** The answer never ends, but never stalls either. */
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

  /** Only the first half of a batch is carried out. */
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

/** The fault as it shows at this operation; `undefined` where it cannot befall it. */
function kindFor(fault: Fault | undefined, operation: Operation, input: object): Fault | undefined {
  if (!fault) return undefined
  const isBatch = operation === 'BatchGetItem' || operation === 'BatchWriteItem'
  if (fault.kind === 'unprocessed' && !isBatch) return undefined
  if ((fault.kind === 'conflict' || isRepeat(fault.kind)) && isRead(operation)) return undefined
  if (fault.kind === 'ride-twice' && !isRide(operation, input)) return undefined
  return fault
}
