import type {DeepReadonly} from '../../core/deep-readonly.js'
import {InvalidInput} from '../../core/errors.js'
import {type Limit, makeLimit} from '../../core/limits/limit.js'
import type {KindedRate} from '../../core/limits/limit-kind.js'
import {type BucketName, WRITE_PRESSURE_LIMIT} from '../../core/names.js'
import {MILLI} from '../../core/token-math.js'
import {checkScope, tooManyLimits} from '../../repository/limits/checks.js'

/** Buckets of further resources are only counted. */
const MOST_RESOURCES = 5_000

/** Over all resources: about 20 MB. */
const MOST_SETS = 20_000

const MOST_ENTITIES = 10
const MOST_EXAMPLES = 3

/** Buckets that must share a set before it applies to the whole resource. */
const LEAST_COMMON = 2

export type LimitlessResource = DeepReadonly<ReturnType<typeof summaryOf>>

export interface Limitless {
  readonly buckets: number
  readonly resources: readonly LimitlessResource[]
  readonly unlisted: number
}

export const NOTHING_LIMITLESS: Limitless = {buckets: 0, resources: [], unlisted: 0}

interface LimitSet {
  readonly limits: readonly Limit[]
  readonly examples: string[]
  buckets: number
}

interface Row {
  readonly namespace: string
  readonly namespaceName: string
  readonly resource: string
  readonly entities: string[]
  readonly sets: Map<string, LimitSet>
  buckets: number
  underivable: number
}

export class LimitlessTally {
  readonly #rows = new Map<string, Row>()
  #sets = 0
  #unlisted = 0

  add({namespace, namespaceName, entity, resource, limits}: FoundBucket): void {
    const row = this.#row(namespace, namespaceName, resource)
    if (!row) {
      this.#unlisted++
      return
    }
    row.buckets++
    if (row.entities.length < MOST_ENTITIES) row.entities.push(entity)
    if (!limits) {
      row.underivable++
      return
    }
    const id = JSON.stringify(limits)
    const set = row.sets.get(id) ?? (this.#sets < MOST_SETS ? {limits, examples: [], buckets: 0} : undefined)
    // An uncounted set is never the common one: its buckets get limits of their own.
    if (!set) return
    if (set.buckets === 0) this.#sets++
    row.sets.set(id, set)
    set.buckets++
    if (set.examples.length < MOST_EXAMPLES) set.examples.push(entity)
  }

  get limitless(): Limitless {
    const resources = [...this.#rows.values()].map(summaryOf)
    const listed = resources.reduce((sum, {buckets}) => sum + buckets, 0)
    return {buckets: listed + this.#unlisted, resources, unlisted: this.#unlisted}
  }

  #row(namespace: string, namespaceName: string, resource: string): Row | undefined {
    const id = JSON.stringify([namespace, resource])
    const known = this.#rows.get(id)
    if (known || this.#rows.size >= MOST_RESOURCES) return known
    const row = {namespace, namespaceName, resource, entities: [], sets: new Map(), buckets: 0, underivable: 0}
    this.#rows.set(id, row)
    return row
  }
}

function summaryOf({namespace, namespaceName, resource, buckets, entities, sets, underivable}: Row) {
  const bySize = [...sets.values()].sort(commonFirst)
  const [most] = bySize
  const common = most && most.buckets >= LEAST_COMMON ? most.limits : undefined
  const isCovered = ({limits}: LimitSet) => isCoveredBy(limits, common)
  const others = bySize.filter(set => !isCovered(set))
  const covered = bySize.filter(isCovered).reduce((sum, set) => sum + set.buckets, 0)
  const shownExceptions = others
    .flatMap(({limits, examples}) => examples.map(entity => ({entity, limits})))
    .slice(0, MOST_ENTITIES)
  return {
    namespace,
    namespaceName,
    resource,
    buckets,
    entities,
    /** The most common limits. `undefined`: no two buckets have the same. */
    common,
    exceptions: buckets - covered - underivable,
    shownExceptions,
    underivable,
  }
}

/** Resource limits that the bucket lacks were not used lately. A separate configuration would leave them unlimited. */
export function isCoveredBy(limits: readonly Limit[], common: readonly Limit[] | undefined): boolean {
  const ofResource = new Set(common?.map(limit => JSON.stringify(limit)))
  return limits.every(limit => ofResource.has(JSON.stringify(limit)))
}

/** Ties: more limits first, then lower ones, so that no tie grants extra capacity. */
function commonFirst(a: LimitSet, b: LimitSet): number {
  const bySize = b.buckets - a.buckets || b.limits.length - a.limits.length
  return bySize || compareLimits(a.limits, b.limits)
}

function compareLimits(a: readonly Limit[], b: readonly Limit[]): number {
  for (const [at, one] of a.entries()) {
    const other = b[at] as Limit
    if (one.name !== other.name) return one.name < other.name ? -1 : 1
    const difference = one.capacity - other.capacity || perSecond(one) - perSecond(other)
    if (difference !== 0) return difference
  }
  return 0
}

const perSecond = ({refillAmount, refillPeriodSeconds}: Limit): number => refillAmount / refillPeriodSeconds

const MS_PER_SECOND = 1000

export interface LimitlessBucket {
  /** The id that its records have or will have. */
  readonly namespace: string
  readonly entity: string
  readonly resource: string
  /** By name. `undefined`: they cannot be configured as they are. */
  readonly limits: readonly Limit[] | undefined
}

export interface FoundBucket extends LimitlessBucket {
  readonly namespaceName: string
}

export function limitsInBucket(
  bucket: BucketName,
  rates: Iterable<readonly [string, KindedRate]>,
): readonly Limit[] | undefined {
  const own = [...rates].filter(([name]) => name !== WRITE_PRESSURE_LIMIT)
  // A bucket stores a schedule or a reset only in part.
  if (own.length === 0 || own.some(([, {kind}]) => kind !== undefined)) return undefined
  try {
    checkScope({level: 'entity', ...bucket})
    const limits = own.map(([name, rate]) => limitOf(name, rate)).sort((a, b) => (a.name < b.name ? -1 : 1))
    return tooManyLimits(limits) === undefined ? limits : undefined
  } catch (error) {
    if (error instanceof InvalidInput) return undefined
    throw error
  }
}

/** `makeLimit` refuses fractions of a token or of a second. */
function limitOf(name: string, {capacityMilli, refillAmountMilli, refillPeriodMs}: KindedRate): Limit {
  return makeLimit({
    name,
    capacity: Number(capacityMilli) / Number(MILLI),
    refillAmount: Number(refillAmountMilli) / Number(MILLI),
    refillPeriodSeconds: refillPeriodMs / MS_PER_SECOND,
  })
}
