import type {Limit} from '../../../src/lib/core/limits/limit.js'
import {decodeConfig} from '../../../src/lib/schema/config-record.js'
import type {TableWrite} from '../world/table-writes.js'

/** How long processes may use changed limits, in ms: the default cache period. */
export const CACHE_PERIOD_MS = 60_000

/** A limit in millitokens and ms. */
export interface Rate {
  readonly capacity: bigint
  readonly amount: bigint
  readonly period: bigint
}

type Limits = ReadonlyMap<string, Rate>

interface Era {
  readonly fromMs: number
  readonly limits: Limits
}

/** The limits in force over time, from the stored configuration. */
export class LimitsTimeline {
  #configs: ReadonlyMap<string, readonly Limit[]> = new Map()
  /** The configuration at each change. */
  readonly #history: {readonly fromMs: number; readonly configs: ReadonlyMap<string, readonly Limit[]>}[] = []
  readonly #eras = new Map<string, Era[]>()
  /** When the configuration last changed after the start, in epoch ms; 0 if never. */
  changedAtMs = 0

  /** Excludes limits that are not judged. */
  constructor(
    readonly resource: string,
    readonly isJudged: (name: string) => boolean = () => true,
  ) {}

  /** Returns true if the configuration changed. */
  observe({changes, atMs, writer}: TableWrite): boolean {
    const configs = new Map(this.#configs)
    let isChanged = false
    for (const {before, after} of changes) {
      const record = decodeConfig(after ?? before ?? {})
      if (!record) continue
      const {namespace, scope} = record
      const key = [
        namespace,
        scope.level,
        scope.level === 'entity' ? scope.entity : '',
        'resource' in scope ? scope.resource : '',
      ]
      configs.set(key.join('#'), after ? record.limits : [])
      isChanged = true
    }
    if (!isChanged) return false
    this.#configs = configs
    if (writer.kind === 'setup') this.#history.length = 0
    else this.changedAtMs = atMs
    this.#history.push({fromMs: this.changedAtMs, configs})
    for (const [bucket, eras] of this.#eras) addEra(eras, atMs, this.#resolve(bucket, configs))
    return true
  }

  /** The configured limits of a bucket now. */
  now(bucket: string): Limits {
    return this.#erasOf(bucket).at(-1)?.limits ?? new Map()
  }

  /** A configured limit of a bucket now. */
  configured(bucket: string, name: string): Limit | undefined {
    return this.#limitsOf(bucket, this.#configs).find(limit => limit.name === name)
  }

  /** When the limits of a bucket last changed, in epoch ms. */
  since(bucket: string): number {
    return this.#erasOf(bucket).at(-1)?.fromMs ?? 0
  }

  /** The largest values of a limit that processes may still use. */
  allowed(bucket: string, name: string, atMs: number): Rate | undefined {
    let allowed: Rate | undefined
    const eras = this.#erasOf(bucket)
    for (const [index, {limits}] of eras.entries()) {
      const endMs = eras[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY
      const rate = limits.get(name)
      if (!rate || endMs + CACHE_PERIOD_MS < atMs) continue
      allowed = allowed ? higher(allowed, rate) : rate
    }
    return allowed
  }

  /** Whether this limit was ever configured. */
  wasConfigured(bucket: string, name: string, {capacity, amount, period}: Rate): boolean {
    return this.#erasOf(bucket).some(({limits}) => {
      const rate = limits.get(name)
      return rate?.capacity === capacity && rate.amount === amount && rate.period === period
    })
  }

  #erasOf(bucket: string): Era[] {
    let eras = this.#eras.get(bucket)
    if (!eras) {
      eras = []
      for (const {fromMs, configs} of this.#history) addEra(eras, fromMs, this.#resolve(bucket, configs))
      this.#eras.set(bucket, eras)
    }
    return eras
  }

  #resolve(bucket: string, configs: ReadonlyMap<string, readonly Limit[]>): Limits {
    return new Map(this.#limitsOf(bucket, configs).map(limit => [limit.name, rateOf(limit)]))
  }

  #limitsOf(bucket: string, configs: ReadonlyMap<string, readonly Limit[]>): Limit[] {
    const [namespace, entity] = bucket.split('/')
    const scopes = [
      [namespace, 'entity', entity, this.resource],
      [namespace, 'entity', entity, '_default_'],
      [namespace, 'resource', '', this.resource],
      [namespace, 'system', '', ''],
    ]
    const found = scopes.map(scope => configs.get(scope.join('#'))).find(limits => limits && limits.length > 0)
    return found?.filter(({name, inFlight}) => !inFlight && this.isJudged(name)) ?? []
  }
}

function addEra(eras: Era[], fromMs: number, limits: Limits): void {
  if (!isSame(limits, eras.at(-1)?.limits)) eras.push({fromMs, limits})
}

function rateOf({capacity, refillAmount, refillPeriodSeconds}: Limit): Rate {
  return {
    capacity: BigInt(capacity) * 1000n,
    amount: BigInt(refillAmount) * 1000n,
    period: BigInt(refillPeriodSeconds) * 1000n,
  }
}

/** The larger capacity with the larger rate. */
function higher(a: Rate, b: Rate): Rate {
  const faster = a.amount * b.period >= b.amount * a.period ? a : b
  return {...faster, capacity: a.capacity > b.capacity ? a.capacity : b.capacity}
}

function isSame(a: Limits, b: Limits | undefined): boolean {
  if (a.size !== b?.size) return false
  return [...a].every(([name, rate]) => {
    const other = b.get(name)
    return other && rate.capacity === other.capacity && rate.amount === other.amount && rate.period === other.period
  })
}
