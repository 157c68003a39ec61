import type {LimitState} from '../../../src/lib/core/limits/limit-state.js'
import {DEFAULT_RESOURCE} from '../../../src/lib/core/names.js'
import {RESOURCE, type Scenario, type ScenarioEvent} from '../scenario.js'
import type {TableWrite} from '../world/table-writes.js'
import {CACHE_PERIOD_MS} from './limits-timeline.js'
import type {Verdicts} from './verdicts.js'

/** How long a refusal may be cached, in ms: the limiter's default. */
const DENY_CACHE_MS = 1000

/** A change may miss index entries of buckets younger than this, in ms. */
const INDEX_LAG_MS = 1000

type FamilyEvent = Extract<ScenarioEvent, {kind: 'move' | 'set-cascade'}>

/** A request that was answered. */
export interface Answer {
  readonly entity: string
  /** Epoch ms. */
  readonly startedMs: number
}

/**
 * S10: which ancestors are charged together with an entity. After a move or a change of the cascade policy returns, every
 * existing bucket follows with its next request; a bucket created around that instant follows within the cache period.
 * Refusals may be cached for a second. After a failed change, nothing is judged.
 */
export class Families {
  readonly #verdicts: Verdicts
  readonly #parents: Map<string, string | undefined>
  readonly #possible = new Map<string, Set<string>>()
  /** Policies by scope, as `entity resource`; a resource's policy has no entity. */
  readonly #policies = new Map<string, boolean | undefined>()
  /** When an item of each entity's bucket was last created, in epoch ms. */
  readonly #createdAtMs = new Map<string, number>()
  readonly #isDeep: boolean
  /** Four levels that stay the same: every request is judged. */
  readonly #isFixed: boolean
  /** Whether parents or policies change in the run. */
  readonly isChanging: boolean
  /** When each change began and returned, in epoch ms; overlapping changes count as one. */
  readonly #changes: {readonly beganMs: number; endedMs: number}[] = []
  #underWay = 0
  #isKnown = true

  constructor({children, levels, steps}: Scenario, verdicts: Verdicts) {
    this.#verdicts = verdicts
    this.#isDeep = levels === 'all'
    this.#parents = new Map(Object.entries(children))
    for (const [entity, parent] of this.#parents) if (parent) this.#possibleOf(entity).add(parent)
    const changes = steps.flatMap(({event}) => (isFamilyEvent(event) ? [event] : []))
    for (const event of changes)
      if (event.kind === 'move' && event.parent) this.#possibleOf(event.entity).add(event.parent)
    this.isChanging = changes.length > 0
    const isGone = steps.some(({event}) => event.kind === 'delete-entity' || event.kind === 'purge')
    this.#isFixed = this.#isDeep && !this.isChanging && !isGone
  }

  /** All ancestors that an entity's requests may charge during the run. */
  possibleParents(entity: string): string[] {
    const found = new Set(this.#possible.get(entity))
    if (this.#isDeep) for (const parent of found) for (const next of this.#possible.get(parent) ?? []) found.add(next)
    return [...found]
  }

  /** The ancestors that are charged now, nearest first, as far as they are known. No scenario has a cycle. */
  parentsOf(entity: string): string[] {
    const parent = this.#parentOf(entity)
    if (parent === undefined) return []
    return this.#isDeep ? [parent, ...this.parentsOf(parent)] : [parent]
  }

  #parentOf(entity: string): string | undefined {
    const parent = this.#parents.get(entity)
    const policy = [`${entity} ${RESOURCE}`, `${entity} ${DEFAULT_RESOURCE}`, ` ${RESOURCE}`]
      .map(scope => this.#policies.get(scope))
      .find(each => each !== undefined)
    return (policy ?? true) ? parent : undefined
  }

  /** Whether every change has returned with a known outcome. */
  get isKnown(): boolean {
    return this.#isKnown && this.#underWay === 0
  }

  /** Starts a change; call the returned function when it ends. */
  begin(event: FamilyEvent, atMs: number): (isDone: boolean, endedMs: number) => void {
    if (this.#underWay === 0) this.#changes.push({beganMs: atMs, endedMs: atMs})
    // Of overlapping changes, any may be the last.
    else this.#isKnown = false
    this.#underWay++
    return (isDone, endedMs) => {
      this.#underWay--
      const change = this.#changes.at(-1)
      if (change) change.endedMs = endedMs
      if (!isDone) this.#isKnown = false
      else if (event.kind === 'move') this.#parents.set(event.entity, event.parent)
      else this.#policies.set(scopeKey(event), event.cascade)
    }
  }

  observe({atMs, shards}: TableWrite): void {
    for (const {entity, before, after} of shards)
      if (before?.refilledAt === undefined && after?.refilledAt !== undefined) this.#createdAtMs.set(entity, atMs)
  }

  /** A request was admitted, and its lease names these parents. */
  admitted(answer: Answer, parents: readonly string[]): void {
    const [charged, expected] = [parents, this.parentsOf(answer.entity)].map(each => each.join(' and ') || 'nobody')
    if (!this.#isSettled(answer, 0) || charged === expected) return
    const message = `a request was charged together with ${charged}, which is ${expected} by now`
    this.#verdicts.report('S10-parent', answer.entity, message)
  }

  /** A request was refused by these limits. */
  refused(answer: Answer, statuses: readonly LimitState[]): void {
    const expected = this.parentsOf(answer.entity)
    if (!this.#isSettled(answer, DENY_CACHE_MS)) return
    const other = statuses.find(({level, entity}) => level === 'parent' && !expected.includes(entity))
    if (!other) return
    const message = `a request was refused by ${other.entity}, but its parents are ${expected.join(' and ') || 'nobody'} by now`
    this.#verdicts.report('S10-refused', answer.entity, message)
  }

  #isSettled({entity, startedMs}: Answer, delayMs: number): boolean {
    if (this.#isFixed) return true
    if (!this.isChanging || !this.isKnown || this.#changes.length === 0) return false
    // Each bucket names the next one.
    const links = [entity, ...(this.#isDeep ? this.parentsOf(entity) : [])]
    const createdMs = Math.max(...links.map(each => this.#createdAtMs.get(each) ?? Number.POSITIVE_INFINITY))
    return this.#changes.every(({beganMs, endedMs}) => {
      if (createdMs < beganMs - INDEX_LAG_MS) return startedMs > endedMs + delayMs
      return startedMs > Math.max(endedMs, createdMs) + CACHE_PERIOD_MS + INDEX_LAG_MS
    })
  }

  #possibleOf(entity: string): Set<string> {
    const known = this.#possible.get(entity)
    if (known) return known
    const parents = new Set<string>()
    this.#possible.set(entity, parents)
    return parents
  }
}

export function isFamilyEvent(event: ScenarioEvent): event is FamilyEvent {
  return event.kind === 'move' || event.kind === 'set-cascade'
}

function scopeKey({scope}: Extract<ScenarioEvent, {kind: 'set-cascade'}>): string {
  const entity = scope.level === 'entity' ? scope.entity : ''
  return `${entity} ${scope.resource}`
}
