import type {Limit} from '../../src/lib/core/limits/limit.js'
import type {PolicyScope} from '../../src/lib/repository/limits/change-options.js'
import type {AccessSwitch, ConfigScope} from '../../src/lib/schema/config-record.js'
import type {ChargedLevels} from '../../src/lib/schema/namespace-record.js'

/** Whole tokens per limit. */
export type Tokens = Readonly<Record<string, number>>

export const PROFILES = [
  'burst',
  'config',
  'faults',
  'cascade',
  'shards',
  'lifecycle',
  'skew',
  'aggregator',
  'bypass',
  'family',
  'mixed',
  'quotas',
  'rollups',
  'feedback',
  'holders',
  'reservations',
] as const

export type Profile = (typeof PROFILES)[number]

/** A caller's action on a lease, `afterMs` after the previous action. */
export type LeaseAction =
  | {readonly kind: 'adjust'; readonly deltas: Tokens; readonly afterMs: number}
  | {readonly kind: 'release' | 'consume'; readonly amounts: Tokens; readonly afterMs: number}
  | {readonly kind: 'commit' | 'rollback'; readonly afterMs: number}

/** One action of a process. */
export type ScenarioEvent =
  | {
      readonly kind: 'acquire'
      readonly entity: string
      readonly consume: Tokens
      /** Of in-flight limits; by default one of each. */
      readonly slots?: Tokens
      /** Charged together with the first resource. */
      readonly resources?: Readonly<Record<string, Tokens>>
      readonly actions: readonly LeaseAction[]
      /** Its quota tokens come back if the process dies. */
      readonly reserve?: boolean
      /** Settlements use `settle: 'soon'`. */
      readonly isSoon?: boolean
      /** The caller aborts after this time. */
      readonly abortAfterMs?: number
    }
  /** Asks, waits exactly as long as the refusal says, asks again. */
  | {readonly kind: 'patient'; readonly entity: string; readonly consume: Tokens}
  | {readonly kind: 'available'; readonly entity: string}
  /** An external limiter reports remaining tokens, `ageMs` old, or a refusal. */
  | {
      readonly kind: 'report-feedback'
      readonly entity: string
      readonly left?: Tokens
      readonly ageMs?: number
      readonly refused?: {readonly consume: Tokens; readonly retryAfterMs: number}
    }
  | {readonly kind: 'kill'}
  | {readonly kind: 'restart'}
  /** Stops for a time and continues, as with SIGSTOP. `isSuspended`: its machine, with the monotonic clock. */
  | {readonly kind: 'pause'; readonly ms: number; readonly isSuspended: boolean}
  /**
   * Its calls fail for a time. `answers`: they are applied, after `lateMs` if given, and the answers lost. `beats`: only
   * those of holders.
   */
  | {
      readonly kind: 'cut'
      readonly ms: number
      readonly answers: boolean
      readonly beats: boolean
      readonly lateMs?: number
    }
  /** Sets the process's clock ahead of the true time, or behind it. */
  | {readonly kind: 'skew'; readonly ms: number}
  /** Closes the limiter and starts a new one, like a short-lived process. */
  | {readonly kind: 'recycle'}
  // By an operator.
  | {readonly kind: 'set-limits'; readonly scope: ConfigScope; readonly limits: readonly Limit[]}
  /** Sets a temporary limit that expires at `untilMs`, in epoch ms. */
  | {readonly kind: 'boost'; readonly scope: ConfigScope; readonly limits: readonly Limit[]; readonly untilMs: number}
  | {readonly kind: 'delete-limits'; readonly scope: ConfigScope}
  | {readonly kind: 'set-access'; readonly scope: PolicyScope; readonly access: AccessSwitch | undefined}
  /** Sets or removes the parent of an entity. */
  | {readonly kind: 'move'; readonly entity: string; readonly parent: string | undefined}
  /** Sets whether parents are charged too; `undefined` uses the next level. */
  | {readonly kind: 'set-cascade'; readonly scope: PolicyScope; readonly cascade: boolean | undefined}
  | {readonly kind: 'reset' | 'split'; readonly entity: string}
  /** Adds whole tokens to a limit, once per key. Default: the quota `q`. */
  | {
      readonly kind: 'top-up'
      readonly entity: string
      readonly tokens: number
      readonly key: string
      readonly limit?: string
    }
  | {readonly kind: 'delete-entity'; readonly entity: string}
  | {readonly kind: 'purge'}
  /** Reads everything that commands show of an entity, and verifies the table. */
  | {readonly kind: 'look'; readonly entity: string}
  /** The table drops expired items. */
  | {readonly kind: 'expire'}
  /** Closes every open shard of the stream; two children continue it. */
  | {readonly kind: 'split-stream'}
  /** Other clients write the bucket so often that it is split. */
  | {readonly kind: 'heat'; readonly entity: string; readonly writes: number}
  // By a Python client.
  /** `isSynced`: also lowers live buckets like 0.10: only shard 0, and not its balance. */
  | {
      readonly kind: 'python-config'
      readonly scope: ConfigScope
      readonly limits: readonly Limit[]
      readonly isSynced?: boolean
    }
  | {readonly kind: 'python-consume' | 'python-adjust'; readonly entity: string; readonly consume: Tokens}
  | {readonly kind: 'python-clone'; readonly entity: string}
  // By a client of zae-limiter 0.17.
  /** Replaces the whole item; `isSynced`: live buckets get the parameters too. */
  | {
      readonly kind: 'peer-config'
      readonly scope: ConfigScope
      readonly limits: readonly Limit[]
      readonly isSynced: boolean
    }
  | {readonly kind: 'peer-access'; readonly scope: PolicyScope; readonly access: 'disabled' | 'enabled' | undefined}
  /** Starts or ends a bypass of an entity; `misses`: the buckets are not updated. */
  | {readonly kind: 'peer-bypass'; readonly entity: string; readonly isBypassed: boolean; readonly misses: boolean}
  /** Takes from quotas. A session that it opens is announced to the other shards after `spreadAfterMs`, or never. */
  | {
      readonly kind: 'peer-consume'
      readonly entity: string
      readonly consume: Tokens
      readonly spreadAfterMs: number | undefined
    }
  /** Doubles the shard count and copies the new shards after `cloneAfterMs`, or leaves them to other clients. */
  | {readonly kind: 'peer-grow'; readonly entity: string; readonly cloneAfterMs: number | undefined}
  /** Writes values that no usage record can hold. */
  | {readonly kind: 'poison'; readonly entity: string; readonly how: 'many-limits' | 'huge-number'}

export interface Step {
  /** Since the start, in ms. */
  readonly atMs: number
  /** Number of the process; operators, Python clients and the table have constants of their own. */
  readonly by: number
  readonly event: ScenarioEvent
}

export const FAULT_KINDS = [
  'lost-before',
  'lost-after',
  'late',
  'server-error',
  'server-error-applied',
  'throttled',
  'conflict',
  'expired-token',
  'denied',
  'slow',
  'drip',
  'hang',
  'unprocessed',
] as const

/**
 * A proxy repeats a request after a delay and passes on the first or the second response, or repeats only writes that
 * combine requests and refunds. Drawn separately from the other faults.
 */
export const REPEATS = ['twice', 'twice-answered-last', 'batch-twice'] as const

export type FaultKind = (typeof FAULT_KINDS)[number] | (typeof REPEATS)[number]

/** A fault of one call of one process. */
export interface Fault {
  /** Number of the process; -1 for the aggregator, -2 for operators. */
  readonly by: number
  /** Number of the call, from 1: of all calls, or of those of one operation. */
  readonly call: number
  readonly operation?: 'TransactWriteItems'
  readonly kind: FaultKind
  /** Extra delay, if the kind has one. */
  readonly delayMs: number
}

/** All inputs of a run. */
export interface Scenario {
  readonly seed: number
  readonly profile: Profile
  /** Lead of each process's clock over the true time at the start, in ms. */
  readonly skewsMs: readonly number[]
  /** The configuration at the start. */
  readonly configs: readonly {readonly scope: ConfigScope; readonly limits: readonly Limit[]}[]
  /** Entities that share their charges with a parent. */
  readonly children: Readonly<Record<string, string>>
  /** Which ancestors requests charge. Default: `parent`. */
  readonly levels?: ChargedLevels
  /**
   * Whether all processes share one slot for their write marks. Then a charge may count twice, or a refund be dropped
   * (decision 26), unless every attempt's outcome stays decidable.
   */
  readonly sharedSlots: boolean | 'decidable'
  /** Maximum entries of each cache of a process. */
  readonly cacheSize: number
  /** Write units per partition and second; 1,000 in DynamoDB. */
  readonly partitionUnits: number
  /** Longest travel time of a message, in ms. */
  readonly longestWayMs: number
  /** Maximum delay of stream records, in ms; `undefined`: no aggregator runs. */
  readonly aggregatorLagMs: number | undefined
  readonly steps: readonly Step[]
  readonly faults: readonly Fault[]
}

/** The entity and the ancestors that its requests charge at the start, nearest first. */
export function familyAtStart({children, levels}: Pick<Scenario, 'children' | 'levels'>, entity: string): string[] {
  const family = [entity]
  for (let parent = children[entity]; parent !== undefined && !family.includes(parent); parent = children[parent]) {
    family.push(parent)
    if (levels !== 'all') break
  }
  return family
}

/** The limiter's default: larger than any scenario needs. */
export const USUAL_CACHE_SIZE = 10_000

export const RESOURCE = 'gpt-4'
