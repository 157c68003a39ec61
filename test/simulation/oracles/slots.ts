import type {Lease} from '../../../src/lib/limiter/lease.js'
import {RateLimitExceeded, RequestTooLarge} from '../../../src/lib/limiter/refusal/errors.js'
import type {Item} from '../../../src/lib/schema/attribute-value.js'
import {RESOURCE, type ScenarioEvent, type Tokens} from '../scenario.js'
import type {SimulatedProcess} from '../world/process.js'
import {bucketId, type TableWrite} from '../world/table-writes.js'
import type {World} from '../world/world.js'
import {Beats} from './beats.js'
import type {Verdicts} from './verdicts.js'

/** A process that was stopped for this long may have lost its slots, in ms. */
const LONG_PAUSE_MS = 17_500

/** Such a process notices by then that it lost its slots, in ms. */
const NOTICED_MS = 5000

/** L9, in ms. */
const RETURNED_MS = 45_000

/** A shard that missed a change of the limits may admit requests without slots for this long, in ms. */
const SETTLED_MS = 130_000

/** As the limiter remembers a refusal, from the answer on, in ms. */
const DENY_CACHE_MS = 1100

interface StoredSlots {
  readonly limits: ReadonlyMap<string, {readonly capacity: number; readonly free: number}>
  /** Held slots by limit, by holder. */
  readonly accounts: ReadonlyMap<string, ReadonlyMap<string, number>>
}

/** One in-flight limit of a bucket, since it was added. */
interface Era {
  readonly sinceMs: number
  /** Instants in ms since the start. */
  readonly free: {readonly atMs: number; readonly free: number; readonly capacity: number}[]
}

/** A lease whose work goes on. */
interface Running {
  readonly process: SimulatedProcess
  readonly kills: number
  readonly startedMs: number
  readonly buckets: ReadonlySet<string>
  /** The holders of its slots. */
  readonly holders: readonly string[]
  readonly slots: readonly {readonly era: Era; readonly bucket: string; readonly name: string; readonly count: number}[]
}

/** Work starts only this long after a beat: 25 s, and the rest of the decision, in ms. */
const START_MS = 27_000

/** Without a beat for this long, work has ended: 30 s, and the time between two looks at the clock, in ms. */
const OVERDUE_MS = 33_000

const NO_SLOTS: StoredSlots = {limits: new Map(), accounts: new Map()}

/** S12, L9, and L6 for in-flight limits. */
export class Slots {
  readonly #world: World
  readonly #verdicts: Verdicts
  readonly #names: ReadonlySet<string>
  readonly #buckets = new Map<string, StoredSlots>()
  readonly #eras = new Map<string, Era>()
  readonly #running = new Set<Running>()
  /** The life of the process that has the account, as `process.kills`. */
  readonly #owners = new Map<string, {readonly process: number; readonly kills: number}>()
  readonly #bypassedMs = new Map<string, number>()
  readonly #deletedMs = new Map<string, number>()
  readonly #beats = new Beats()
  /** Lives of processes that lost a holder while a lease was running. */
  readonly #lost = new Set<string>()

  constructor(world: World, verdicts: Verdicts) {
    this.#world = world
    this.#verdicts = verdicts
    const {configs, steps} = world.scenario
    const sets = [...configs, ...steps.flatMap(({event}) => ('limits' in event ? [event] : []))]
    this.#names = new Set(sets.flatMap(({limits}) => limits.flatMap(({name, inFlight}) => (inFlight ? [name] : []))))
  }

  isSlot(name: string): boolean {
    return this.#names.has(name)
  }

  observe(write: TableWrite): void {
    if (this.#names.size === 0) return
    const {changes, writer} = write
    const {elapsedMs} = this.#world.time
    for (const running of this.#running) this.#judgeBeats(running)
    this.#beats.observe(write, elapsedMs)
    for (const {before, after} of changes) {
      const [, id = '', entity = '', resource = '', shard] =
        /^([^/]*)\/BUCKET#([^#]*)#(.*)#(\d+)$/.exec(textOf((before ?? after) as Item, 'PK')) ?? []
      if (shard === undefined || textOf((before ?? after) as Item, 'SK') !== '#STATE') continue
      const bucket = bucketId(id, entity, resource)
      if (before?.bypass || after?.bypass) this.#bypassedMs.set(bucket, elapsedMs)
      if (shard !== '0') continue
      this.#note(bucket, after)
      if (!after) this.#deletedMs.set(bucket, elapsedMs)
      const was = this.#buckets.get(bucket) ?? NO_SLOTS
      const is = after ? storedSlots(after) : NO_SLOTS
      this.#buckets.set(bucket, is)
      for (const name of new Set([...was.limits.keys(), ...is.limits.keys()])) {
        const [key, limit] = [`${bucket} ${name}`, is.limits.get(name)]
        if (!limit) {
          this.#eras.delete(key)
          continue
        }
        const era = this.#eras.get(key) ?? {sinceMs: elapsedMs, free: []}
        this.#eras.set(key, era)
        era.free.push({atMs: elapsedMs, ...limit})
        this.#judge(bucket, name, was, is)
      }
      for (const holder of is.accounts.keys()) {
        if (was.accounts.has(holder) || this.#owners.has(holder) || writer.kind !== 'limiter') continue
        this.#owners.set(holder, {process: writer.process, kills: this.#world.processes[writer.process]?.kills ?? 0})
      }
      this.#judgeRunning(bucket)
    }
  }

  /** The caller's work begins. Call the returned function when it ends. */
  admitted(
    process: SimulatedProcess,
    {entity, slots, resources = {}}: Extract<ScenarioEvent, {kind: 'acquire'}>,
    lease: Lease,
    startedMs: number,
  ): () => void {
    if (this.#names.size === 0) return () => {}
    const held: Running['slots'][number][] = []
    const buckets = new Set<string>()
    const asked: [string, Tokens][] = [[RESOURCE, slots ?? {}], ...Object.entries(resources)]
    for (const [resource, named] of asked) {
      const part = lease.resources(resource)
      for (const owner of [entity, ...part.parents]) {
        const bucket = bucketId(this.#world.namespace, owner, resource)
        buckets.add(bucket)
        if ((this.#bypassedMs.get(bucket) ?? Number.NEGATIVE_INFINITY) >= startedMs - SETTLED_MS) continue
        for (const name of this.#buckets.get(bucket)?.limits.keys() ?? []) {
          const era = this.#eras.get(`${bucket} ${name}`)
          const isSettled = era && (era.sinceMs === 0 || era.sinceMs <= startedMs) && this.#isSettled(bucket, startedMs)
          if (era && isSettled) held.push({era, bucket, name, count: named[name] ?? 1})
        }
      }
    }
    const holders = this.#judgeStart(process, startedMs, held)
    const running = {process, kills: process.kills, startedMs, buckets, holders, slots: held}
    const lose = () => {
      this.#lost.add(lifeOf(process.number, running.kills))
      this.#judgeLoss(running)
      this.#running.delete(running)
    }
    if (lease.signal.aborted) {
      lose()
      return () => {}
    }
    this.#running.add(running)
    const end = () => {
      if (this.#running.delete(running)) this.#judgeBeats(running)
    }
    lease.signal.addEventListener('abort', lose)
    for (const {bucket, name, era} of held) this.#judgeCapacity(bucket, name, era)
    for (const {bucket} of held) this.#judgeRunning(bucket)
    return end
  }

  refused(process: SimulatedProcess, error: unknown, startedMs: number): void {
    if (this.#names.size === 0) return
    const {time, namespace, scenario} = this.#world
    if (error instanceof RequestTooLarge && this.isSlot(error.limit)) {
      const era = this.#eras.get(`${bucketId(namespace, error.entity, error.resource)} ${error.limit}`)
      const isSettled = era && this.#isSettled(bucketId(namespace, error.entity, error.resource), startedMs)
      const largest = Math.max(0, ...(era?.free ?? []).map(({capacity}) => capacity))
      if (isSettled && error.requested <= (era.free.at(-1)?.capacity ?? 0))
        this.#verdicts.report('L3-too-large', 'slots', `${error.message}, and the capacity is ${largest}`)
    }
    if (!(error instanceof RateLimitExceeded)) return
    for (const {name, entity, resource, exceeded, requested, inFlight} of error.statuses) {
      if (!inFlight || !exceeded) continue
      const bucket = bucketId(namespace, entity, resource)
      const era = this.#eras.get(`${bucket} ${name}`)
      if (!era || era.sinceMs > startedMs - DENY_CACHE_MS) continue
      const at = era.free.findLastIndex(({atMs}) => atMs <= startedMs - DENY_CACHE_MS)
      const isFree = era.free.slice(Math.max(0, at)).every(({free}) => free >= requested)
      // A clock that is set back extends a remembered refusal. After a stop, an answer from before it seems new.
      const wasStopped = process.pauses.some(({untilMs}) => untilMs >= startedMs - DENY_CACHE_MS)
      if (isFree && !this.#jumps && !wasStopped && !this.#hasLeftOver(process, bucket, era.sinceMs))
        this.#verdicts.report('L6-in-flight', `${bucket} ${name}`, `${requested} slots were refused and always free`)
      const hasCuts = scenario.steps.some(({event}) => event.kind === 'cut')
      if (hasCuts || scenario.faults.length > 0 || scenario.partitionUnits < 1000) continue
      const {generation} = process
      const dead = [...(this.#buckets.get(bucket)?.accounts ?? [])].flatMap(([holder, held]) =>
        (held.get(name) ?? 0) > 0 && this.#isDead(holder, 1000) ? [holder] : [],
      )
      if (dead.length === 0) continue
      const nowMs = time.elapsedMs
      time.after(RETURNED_MS, () => {
        const isAway = process.generation !== generation || !process.isAlive
        const wasPaused = process.pauses.some(({untilMs}) => untilMs >= nowMs)
        if (isAway || wasPaused || this.#eras.get(`${bucket} ${name}`) !== era) return
        const left = dead.filter(holder => this.#buckets.get(bucket)?.accounts.has(holder))
        if (left.length > 0)
          this.#verdicts.report(
            'L9-returned',
            `${bucket} ${name}`,
            `slots of ${left.join(', ')}, dead since ${nowMs} ms`,
          )
      })
    }
  }

  killed(process: number): void {
    for (const running of this.#running) if (running.process.number === process) this.#running.delete(running)
  }

  /** Buckets with in-flight limits, and their slots. */
  get buckets(): ReadonlyMap<string, StoredSlots> {
    return this.#buckets
  }

  /** Everything is quiet: nothing is held, except by lives that ended with slots or lost them. */
  checkEnd(mayBeHeld: boolean): void {
    for (const [bucket, {limits, accounts}] of this.#buckets) {
      if (limits.size === 0) continue
      for (const [holder, held] of accounts) {
        const owner = this.#owners.get(holder)
        const isLost = this.#isDead(holder, 0) || this.#beats.isDeclaredDead(holder)
        const mayBeLost = isLost || !owner || this.#lost.has(lifeOf(owner.process, owner.kills))
        // Nobody lacks slots of a limit that was removed: accounts keep them until it is set again.
        const isWanted = held.size === 0 || [...held.keys()].some(name => limits.has(name))
        if (!isWanted || (mayBeHeld && mayBeLost)) continue
        const text = [...held].map(each => each.join(' ')).join(', ')
        this.#verdicts.report('S12-kept', bucket, `p${owner?.process} still has an account of ${text || 'nothing'}`)
      }
    }
  }

  #note(bucket: string, after: Item | undefined): void {
    const shown = Object.entries(after ?? {}).flatMap(([name, value]) =>
      /^[sfh]_/.test(name) ? [`${name}=${'N' in value ? value.N : 'S' in value ? value.S : ''}`] : [],
    )
    this.#world.note(`  slots of ${bucket.split('/').slice(1).join('/')}: ${shown.sort().join(' ')}`)
  }

  /** A clock that jumps ahead looks like a suspended machine. */
  get #jumps(): boolean {
    return this.#world.scenario.steps.some(({event}) => event.kind === 'skew')
  }

  /** Whether the process has leases of a deleted bucket, which it counts in the next one. */
  #hasLeftOver(process: SimulatedProcess, bucket: string, sinceMs: number): boolean {
    return [...this.#running].some(
      running => running.process === process && running.buckets.has(bucket) && running.startedMs < sinceMs,
    )
  }

  #heldBy(process: number, kills: number, bucket: string, name: string): number {
    let held = 0
    for (const [holder, account] of this.#buckets.get(bucket)?.accounts ?? []) {
      const owner = this.#owners.get(holder)
      if (owner?.process === process && owner.kills === kills) held += account.get(name) ?? 0
    }
    return held
  }

  /** Work starts only if its holder has beaten lately. Returns the holders of the slots. */
  #judgeStart(process: SimulatedProcess, startedMs: number, slots: Running['slots']): string[] {
    const {elapsedMs} = this.#world.time
    const holders = new Set<string>()
    for (const {bucket, name, count} of slots) {
      if (count === 0) continue
      const own = [...(this.#buckets.get(bucket)?.accounts ?? [])].flatMap(([holder, account]) => {
        const owner = this.#owners.get(holder)
        return owner?.process === process.number && owner.kills === process.kills && account.has(name) ? [holder] : []
      })
      for (const holder of own) holders.add(holder)
      const beatMs = this.#lastBeatMs(own)
      const wasPaused = process.pauses.some(({untilMs}) => untilMs >= startedMs)
      if (own.length === 0 || beatMs >= elapsedMs - START_MS || wasPaused) continue
      const message = `p${process.number} starts work, and its last beat was at ${beatMs} ms`
      this.#verdicts.report('S12-beat', `${bucket} ${name}`, message)
    }
    return [...holders]
  }

  /** Work does not go on without beats. The slots of a deleted bucket are gone: its leases need none. */
  #judgeBeats(running: Running): void {
    const {startedMs, slots} = running
    const isHeld = slots.some(({bucket}) => (this.#deletedMs.get(bucket) ?? Number.NEGATIVE_INFINITY) < startedMs)
    if (!isHeld || this.#mayBeLost(running)) return
    const {elapsedMs} = this.#world.time
    const beatMs = this.#lastBeatMs(running.holders)
    if (running.holders.length === 0 || elapsedMs - beatMs <= OVERDUE_MS) return
    this.#verdicts.report(
      'S12-overdue',
      `p${running.process.number}`,
      `works on, and its last beat was at ${beatMs} ms`,
    )
  }

  /** Which of the process's limiters beats is not known. */
  #lastBeatMs(holders: readonly string[]): number {
    return Math.max(...holders.map(holder => this.#beats.lastMs(holder) ?? Number.NEGATIVE_INFINITY))
  }

  /** A holder that beats is lost only if another process declared it dead. */
  #judgeLoss({process, holders}: Running): void {
    const {elapsedMs} = this.#world.time
    if (this.#jumps || process.pauses.length > 0) return
    const isKept = (holder: string) => {
      const countedMs = this.#beats.countedFromMs(holder)
      return countedMs !== undefined && elapsedMs - countedMs < 30_000 && !this.#beats.isDeclaredDead(holder)
    }
    if (holders.length > 0 && holders.every(isKept))
      this.#verdicts.report('S12-lost', `p${process.number}`, `lost ${holders.join(', ')}, which beat in time`)
  }

  #isDead(holder: string, sinceMs: number): boolean {
    const owner = this.#owners.get(holder)
    const process = owner && this.#world.processes[owner.process]
    const killedMs = process?.killedAtMs[owner?.kills ?? 0]
    return killedMs !== undefined && killedMs <= this.#world.time.elapsedMs - sinceMs
  }

  /** Whether all processes use the same in-flight limits of a bucket. */
  #isSettled(bucket: string, startedMs: number): boolean {
    const {scenario} = this.#world
    const changes = scenario.steps.filter(({event}) => event.kind === 'set-limits' || event.kind === 'delete-entity')
    return (
      !changes.some(({atMs}) => atMs <= this.#world.time.elapsedMs && atMs >= startedMs - SETTLED_MS) && bucket !== ''
    )
  }

  #judge(bucket: string, name: string, was: StoredSlots, is: StoredSlots): void {
    const limit = is.limits.get(name)
    if (!limit) return
    const sum = (slots: StoredSlots) =>
      [...slots.accounts.values()].reduce((all, held) => all + (held.get(name) ?? 0), 0)
    if (limit.free + sum(is) !== limit.capacity) {
      const message = `${limit.free} free and ${sum(is)} held of ${limit.capacity}`
      this.#verdicts.report('S12-sum', `${bucket} ${name}`, message)
    }
    const isTaken = [...is.accounts].some(
      ([id, held]) => (held.get(name) ?? 0) > (was.accounts.get(id)?.get(name) ?? 0),
    )
    if (isTaken && limit.free < 0 && was.limits.has(name))
      this.#verdicts.report('S12-taken', `${bucket} ${name}`, `slots were taken, and ${limit.free} are free`)
  }

  /** Slots of running leases are within the accounts of their process. */
  #judgeRunning(bucket: string): void {
    const sums = new Map<string, number>()
    for (const each of this.#running) {
      if (this.#mayBeLost(each)) continue
      for (const {bucket: own, name, count, era} of each.slots) {
        if (own !== bucket || this.#eras.get(`${bucket} ${name}`) !== era) continue
        const key = `${each.process.number} ${each.kills} ${name}`
        sums.set(key, (sums.get(key) ?? 0) + count)
      }
    }
    for (const [key, count] of sums) {
      const [number, kills, name] = key.split(' ') as [string, string, string]
      const held = this.#heldBy(Number(number), Number(kills), bucket, name)
      if (held >= count) continue
      const message = `running leases of p${number} have ${count} slots, its accounts ${held}`
      this.#verdicts.report('S12-unheld', `${bucket} ${name}`, message)
    }
  }

  #judgeCapacity(bucket: string, name: string, era: Era): void {
    let running = 0
    let sinceMs = Number.POSITIVE_INFINITY
    for (const each of this.#running) {
      if (this.#mayBeLost(each)) continue
      for (const slots of each.slots) {
        if (slots.era !== era) continue
        running += slots.count
        sinceMs = Math.min(sinceMs, each.startedMs)
      }
    }
    const at = era.free.findLastIndex(({atMs}) => atMs <= sinceMs)
    const most = Math.max(...era.free.slice(Math.max(0, at)).map(({capacity}) => capacity))
    if (running > most)
      this.#verdicts.report('S12-overrun', `${bucket} ${name}`, `${running} slots are in use, the capacity is ${most}`)
  }

  /** Whether the process was stopped for long since the lease began, and may not have noticed. */
  #mayBeLost({process, startedMs}: Running): boolean {
    const {elapsedMs} = this.#world.time
    return process.pauses.some(
      ({fromMs, untilMs}) =>
        untilMs - fromMs >= LONG_PAUSE_MS &&
        untilMs >= startedMs &&
        fromMs <= elapsedMs &&
        elapsedMs <= untilMs + NOTICED_MS,
    )
  }
}

const lifeOf = (process: number, kills: number): string => `${process} ${kills}`

/** Read without the library's decoder. */
function storedSlots(item: Item): StoredSlots {
  const limits = new Map<string, {capacity: number; free: number}>()
  const accounts = new Map<string, Map<string, number>>()
  for (const attribute of Object.keys(item)) {
    const [, prefix, name = ''] = /^([sh])_(.+)$/.exec(attribute) ?? []
    if (prefix === 's') limits.set(name, {capacity: numberOf(item, attribute), free: numberOf(item, `f_${name}`)})
    if (prefix !== 'h') continue
    const held = textOf(item, attribute).split(' ')[1] ?? ''
    const parts = held.split(',').flatMap(part => (part === '' ? [] : [part.split(':') as [string, string]]))
    accounts.set(name, new Map(parts.map(([limit, count]) => [limit, Number(count)])))
  }
  return {limits, accounts}
}

function textOf(item: Item, name: string): string {
  const value = item[name]
  return value && 'S' in value ? value.S : ''
}

function numberOf(item: Item, name: string): number {
  const value = item[name]
  return value && 'N' in value ? Number(value.N) : 0
}
