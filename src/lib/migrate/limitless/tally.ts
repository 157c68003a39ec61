import type {Limit} from '../../core/limits/limit.js'
import type {LimitlessBucket} from './bucket-limits.js'

/** Resources that one tally distinguishes; buckets of further ones are only counted. */
const MOST_RESOURCES = 5_000

/** Different sets of limits that are counted, over all resources: about 20 MB. */
const MOST_SETS = 20_000

const MOST_ENTITIES = 10
const MOST_EXAMPLES = 3

/** A set of limits is that of the whole resource if at least so many buckets have it. */
const LEAST_COMMON = 2

export interface EntityLimits {
  readonly entity: string
  readonly limits: readonly Limit[]
}

export interface LimitlessResource {
  readonly namespace: string
  readonly resource: string
  readonly buckets: number
  /** The first of their entities. */
  readonly entities: readonly string[]
  /** The limits that most of them have, for the whole resource; `undefined` if no two buckets have the same. */
  readonly common: readonly Limit[] | undefined
  readonly exceptions: number
  readonly shownExceptions: readonly EntityLimits[]
  readonly underivable: number
}

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
  readonly resource: string
  readonly entities: string[]
  readonly sets: Map<string, LimitSet>
  buckets: number
  underivable: number
}

/** Adds up buckets without configured limits, in bounded memory, however many there are. */
export class LimitlessTally {
  readonly #rows = new Map<string, Row>()
  #sets = 0
  #unlisted = 0

  add({namespace, entity, resource, limits}: LimitlessBucket): void {
    const row = this.#row(namespace, resource)
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
    // One that is not counted is never the common one: its buckets get limits of their own.
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

  #row(namespace: string, resource: string): Row | undefined {
    const id = JSON.stringify([namespace, resource])
    const known = this.#rows.get(id)
    if (known || this.#rows.size >= MOST_RESOURCES) return known
    const row = {namespace, resource, entities: [], sets: new Map(), buckets: 0, underivable: 0}
    this.#rows.set(id, row)
    return row
  }
}

function summaryOf({namespace, resource, buckets, entities, sets, underivable}: Row): LimitlessResource {
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
    resource,
    buckets,
    entities,
    common,
    exceptions: buckets - covered - underivable,
    shownExceptions,
    underivable,
  }
}

/**
 * Whether the limits of the resource keep a bucket as it is: it has the same, or some of them with the same values. Those
 * that it lacks were not used lately, and an exception without them would leave them unlimited.
 */
export function isCoveredBy(limits: readonly Limit[], common: readonly Limit[] | undefined): boolean {
  const ofResource = new Set(common?.map(limit => JSON.stringify(limit)))
  return limits.every(limit => ofResource.has(JSON.stringify(limit)))
}

/** Of equally common sets the one with more limits, then the one with the lower ones: nobody gets more by chance. */
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
