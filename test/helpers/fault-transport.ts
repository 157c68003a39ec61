import {classifyError} from '../../src/lib/dynamo/classify.js'
import {isRead, type Operation, type OperationInput, type Transport} from '../../src/lib/dynamo/transport.js'
import {signalOf} from '../../src/lib/dynamo/transports/sdk.js'

/** Faults between a client and a working table. */
export type FaultKind =
  /** The request is applied, its response is lost. */
  | 'lost after apply'
  /** The request is lost in transit; the caller cannot distinguish it from the above. */
  | 'lost before apply'
  /** Like lost, but it arrives after the next call was applied. */
  | 'overtaken'
  /** No connection: certainly not applied. */
  | 'unreachable'
  | 'throttled'
  /** An internal error of the service. */
  | '5xx'
  /** One item is held by a transaction in flight. */
  | 'conflict'
  /** A transaction that met another one. */
  | 'cancelled'
  /** A batch with a partial response. */
  | 'unprocessed'
  /** Applied at once; the test decides when it is answered. */
  | 'late answer'
  /** The test decides when it is applied, even long after the caller gave up. */
  | 'late arrival'

/** A fault and its position. */
export interface Fault {
  readonly kind: FaultKind
  /** The first faulted call: its number, from 1, over all calls or over those of `operation`; or its name. */
  readonly at: number | string
  /** Only this operation. */
  readonly operation?: Operation
  /** Only calls that name this key, such as `BUCKET#user-1#gpt-4#0`. */
  readonly on?: string
  /** Successive faulted calls. Default: 1. */
  readonly times?: number
}

/** Errors as a client sees them on the wire. */
const EVIDENCE: Partial<Record<FaultKind, object>> = {
  'lost after apply': {name: 'Error', code: 'ECONNRESET'},
  'lost before apply': {name: 'Error', code: 'ECONNRESET'},
  overtaken: {name: 'Error', code: 'ECONNRESET'},
  unreachable: {name: 'Error', code: 'ECONNREFUSED', syscall: 'connect'},
  throttled: {name: 'ProvisionedThroughputExceededException', $metadata: {httpStatusCode: 400}},
  '5xx': {name: 'InternalServerError', $metadata: {httpStatusCode: 500}},
  conflict: {name: 'TransactionConflictException', $metadata: {httpStatusCode: 400}},
}

/** The faults that an operation can have. */
export function faultsOf(operation: Operation): FaultKind[] {
  const everywhere: FaultKind[] = ['lost before apply', 'throttled', '5xx']
  if (operation === 'BatchGetItem') return [...everywhere, 'unprocessed']
  if (isRead(operation)) return everywhere
  return [
    ...everywhere,
    'unreachable',
    'lost after apply',
    'overtaken',
    operation === 'TransactWriteItems' ? 'cancelled' : 'conflict',
  ]
}

/** A transport to a real engine that injects faults into given calls. */
export class FaultTransport implements Transport {
  /** Names of the calls since the last `start`, in order: operation, keys without the namespace, and which of its kind. */
  calls: string[] = []
  /** Faulted calls since the last `start`. */
  hits = 0
  readonly #inner: Transport
  #fault: Fault | undefined
  #counts = new Map<string, number>()
  #left = 0
  #gate = newGate()
  #overtaken: (() => Promise<void>)[] = []

  constructor(inner: Transport) {
    this.#inner = inner
  }

  /** Counts from one again and injects the fault, if given. */
  start(fault?: Fault): void {
    this.calls = []
    this.hits = 0
    this.#counts = new Map()
    this.#fault = fault
    this.#left = 0
    this.#gate = newGate()
  }

  /** Stops all faults, and releases late calls. */
  stop(): void {
    this.#fault = undefined
    this.#left = 0
    this.release()
  }

  /** Releases late calls; from now on none is late. */
  release(): void {
    this.#gate.open()
  }

  readonly send: Transport['send'] = async (operation, input, options) => {
    const name = this.#count(operation, input)
    const kind = this.#isHit(operation, name) && this.#fault ? kindFor(this.#fault.kind, operation) : undefined
    if (kind === undefined) {
      const waiting = this.#overtaken.splice(0)
      return this.#inner.send(operation, input, options).finally(async () => {
        for (const arrive of waiting) await arrive()
      })
    }
    this.hits++
    const signal = signalOf(options ?? {})
    const fail = (evidence: unknown) => classifyError(evidence, operation, {signal, sent: true})
    switch (kind) {
      case 'lost after apply':
        await this.#inner.send(operation, input).catch(ignore)
        throw fail(EVIDENCE[kind])
      case 'overtaken':
        this.#overtaken.push(() => this.#inner.send(operation, input).then(ignore, ignore))
        throw fail(EVIDENCE[kind])
      case 'cancelled':
        throw fail(cancellation(input as OperationInput<'TransactWriteItems'>))
      case 'unprocessed':
        return this.#part(input as OperationInput<'BatchGetItem'>) as never
      case 'late answer':
        return this.#late(this.#inner.send(operation, input), signal, fail)
      case 'late arrival':
        return this.#late(
          this.#gate.opened.then(() => this.#inner.send(operation, input)),
          signal,
          fail,
        )
      default:
        throw fail(EVIDENCE[kind])
    }
  }

  #count(operation: Operation, input: unknown): string {
    const base = `${operation} ${targetOf(input)}`
    const bump = (key: string) => {
      const count = (this.#counts.get(key) ?? 0) + 1
      this.#counts.set(key, count)
      return count
    }
    bump('all')
    bump(operation)
    const name = `${base} (${bump(base)})`
    this.calls.push(name)
    return name
  }

  #isHit(operation: Operation, name: string): boolean {
    const fault = this.#fault
    if (!fault || (fault.operation ?? operation) !== operation || !name.includes(fault.on ?? '')) return false
    const number = this.#counts.get(fault.operation ?? 'all')
    if (fault.at === name || fault.at === number) this.#left = fault.times ?? 1
    return this.#left-- > 0
  }

  async #late<T>(answer: Promise<T>, signal: AbortSignal | undefined, fail: (evidence: unknown) => Error): Promise<T> {
    answer.catch(ignore)
    const {opened} = this.#gate
    await Promise.race([opened, aborted(signal)])
    if (signal?.aborted) throw fail(signal.reason)
    return answer
  }

  async #part({RequestItems = {}}: OperationInput<'BatchGetItem'>) {
    const [[table, {Keys = [], ...settings}]] = Object.entries(RequestItems) as [[string, {Keys?: never[]}]]
    // At least one remains.
    const asked = Keys.slice(0, Math.min(1, Keys.length - 1))
    const UnprocessedKeys = {[table]: {Keys: Keys.slice(asked.length), ...settings}}
    if (asked.length === 0) return {Responses: {[table]: []}, UnprocessedKeys}
    const answer = await this.#inner.send('BatchGetItem', {RequestItems: {[table]: {Keys: asked, ...settings}}})
    return {...answer, UnprocessedKeys}
  }
}

/** The kind as it shows at this operation, when an outage goes over calls of several; `undefined`: not at all. */
function kindFor(kind: FaultKind, operation: Operation): FaultKind | undefined {
  if (kind.startsWith('late') || faultsOf(operation).includes(kind)) return kind
  if (isRead(operation) && ['lost after apply', 'overtaken', 'unreachable'].includes(kind)) return 'lost before apply'
  return kind === 'conflict' && operation === 'TransactWriteItems' ? 'cancelled' : undefined
}

function cancellation({TransactItems = []}: OperationInput<'TransactWriteItems'>): object {
  const CancellationReasons = TransactItems.map((_, at) => ({Code: at === 0 ? 'TransactionConflict' : 'None'}))
  return {name: 'TransactionCanceledException', CancellationReasons, $metadata: {httpStatusCode: 400}}
}

/** The keys a request names, without the namespace, which differs from run to run. */
function targetOf(input: unknown): string {
  const keys = JSON.stringify(input).matchAll(/"PK":\{"S":"[^"/]*\/([^"]*)"\}/g)
  return [...new Set([...keys].map(match => match[1]))].join('+')
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise(resolve => {
    if (signal?.aborted) resolve()
    else signal?.addEventListener('abort', () => resolve(), {once: true})
  })
}

const ignore = (): void => {}

function newGate(): {opened: Promise<void>; open: () => void} {
  let open = ignore
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return {opened, open}
}
