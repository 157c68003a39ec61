import {RateLimiter} from '../../../src/lib/limiter/rate-limiter.js'
import type {Fault, ScenarioEvent} from '../scenario.js'
import {Draws} from './draws.js'
import type {MarkSlots} from './mark-slots.js'
import {type NetworkOptions, SimulatedTransport} from './network.js'
import type {VirtualTime} from './virtual-time.js'

type Cut = Extract<ScenarioEvent, {kind: 'cut'}>

/** Time limit of a decision in simulated processes, in ms. */
export const DECISION_TIMEOUT_MS = 1000

interface ProcessOptions {
  readonly number: number
  readonly seed: number
  readonly time: VirtualTime
  readonly skewMs: number
  readonly stack: string
  readonly namespace: string
  readonly slots: MarkSlots
  readonly cacheSize: number
  readonly network: Omit<NetworkOptions, 'time' | 'isAlive' | 'nextCall'>
}

/** Time after which an exchange and its consequences, such as a refund, are finished, in ms. */
export const AFTERMATH_MS = 15_000

/** One simulated process: a limiter with its own caches, clock, connection and faults. */
export class SimulatedProcess {
  readonly number: number
  skewMs: number
  generation = 0
  isAlive = true
  limiter: RateLimiter
  /** All limiters it has had. */
  readonly limiters: RateLimiter[] = []
  /** When its calls hit faults, or it was killed, in ms since the start. */
  readonly disturbedAtMs: number[] = []
  /** When calls were sent that got no response and may be applied at any time, in ms since the start. */
  readonly unansweredAtMs: number[] = []
  readonly killedAtMs: number[] = []
  /** When it was paused, in ms since the start. */
  readonly pauses: {readonly fromMs: number; readonly untilMs: number}[] = []
  readonly #cuts: (Cut & {readonly untilMs: number})[] = []
  readonly #options: ProcessOptions
  #calls = 0
  /** How often it was killed: operations of an earlier life never continue. */
  kills = 0

  constructor(options: ProcessOptions) {
    this.#options = options
    this.number = options.number
    this.skewMs = options.skewMs
    this.limiter = this.#start()
  }

  /** Whether a call hit a fault that an operation in this span may have waited for; in ms since the start. */
  wasDisturbed(fromMs: number, untilMs = Number.POSITIVE_INFINITY): boolean {
    return this.disturbedAtMs.some(atMs => atMs >= fromMs - AFTERMATH_MS && atMs <= untilMs)
  }

  /** Silences the process; sent requests may still arrive. */
  kill(): void {
    this.isAlive = false
    this.kills++
    this.generation++
    this.#options.time.resume(this.number)
    this.disturbedAtMs.push(this.#options.time.elapsedMs)
    this.killedAtMs.push(this.#options.time.elapsedMs)
  }

  cut(cut: Cut): void {
    this.#cuts.push({...cut, untilMs: this.#options.time.elapsedMs + cut.ms})
  }

  /** The fault of a call now, if the process is cut off. */
  cutOff(input: object): Pick<Fault, 'kind' | 'delayMs'> | undefined {
    const {elapsedMs} = this.#options.time
    const isBeat = () => JSON.stringify(input).includes('/HOLDER#')
    const cut = this.#cuts.find(({untilMs, beats}) => elapsedMs < untilMs && (!beats || isBeat()))
    if (cut?.lateMs !== undefined) return {kind: 'late', delayMs: cut.lateMs}
    return cut && {kind: cut.answers ? 'lost-after' : 'lost-before', delayMs: 0}
  }

  /** Calls that were under way may time out when it continues. Nothing happens while it is paused already. */
  pause(ms: number, isSuspended: boolean): void {
    const {time} = this.#options
    if (this.pauses.some(({untilMs}) => untilMs > time.elapsedMs)) return
    time.pause(this.number, ms, isSuspended)
    const fromMs = time.elapsedMs
    this.pauses.push({fromMs, untilMs: fromMs + ms})
    this.disturbedAtMs.push(fromMs, fromMs + ms)
    this.unansweredAtMs.push(fromMs)
  }

  /** Starts it again, with empty caches. */
  restart(): void {
    if (this.isAlive) return
    this.isAlive = true
    this.limiter = this.#start()
  }

  /** Closes it normally and starts it again. */
  async recycle(): Promise<void> {
    const before = this.limiter
    this.generation++
    this.limiter = this.#start()
    await before.close()
  }

  #start(): RateLimiter {
    const {number, seed, time, stack, namespace, network, slots, cacheSize} = this.#options
    const {generation} = this
    const kills = this.kills
    // A recycled limiter still finishes its work; only a killed one is silent.
    const isAlive = () => this.kills === kills
    const draws = new Draws(seed * 1009 + number * 31 + generation)
    const slot = slots.take(number)
    const nextCall = () => {
      slot.noteUse()
      return ++this.#calls
    }
    const transport = new SimulatedTransport({...network, time, isAlive, nextCall, ownsSlot: slot.isOwn})
    const limiter = new RateLimiter({
      stack,
      namespace,
      transport,
      clock: () => time.nowMs + this.skewMs,
      random: draws.random,
      randomBytes: (count: number) => randomBytes(draws, count, {queues: slot.number, others: OPERATOR_SLOT}),
      onUnavailable: 'block',
      timeoutMs: DECISION_TIMEOUT_MS,
      cacheSize,
    })
    this.limiters.push(limiter)
    return limiter
  }
}

/** Mark slot of operators, and of a limiter's writes outside its queues. */
export const OPERATOR_SLOT = 6

/** Random bytes with fixed mark slots: a draw of one byte for a limiter's queues, the first of nine bytes elsewhere. */
export function randomBytes(draws: Draws, count: number, slots: {queues?: number; others: number}): Uint8Array {
  const bytes = Uint8Array.from({length: count}, () => draws.int(0, 255))
  if (count === 1 && slots.queues !== undefined) bytes[0] = slots.queues
  if (count === 9) bytes[0] = slots.others
  return bytes
}
