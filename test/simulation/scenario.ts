import type {Limit} from '../../src/lib/core/limits/limit.js'
import type {PolicyScope} from '../../src/lib/repository/limits/change-options.js'
import type {AccessSwitch, ConfigScope} from '../../src/lib/schema/config-record.js'

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
] as const

export type Profile = (typeof PROFILES)[number]

/** What a caller does with an admitted request, `afterMs` after the action before. */
export type LeaseAction =
  | {readonly kind: 'adjust'; readonly deltas: Tokens; readonly afterMs: number}
  | {readonly kind: 'release' | 'consume'; readonly amounts: Tokens; readonly afterMs: number}
  | {readonly kind: 'commit' | 'rollback'; readonly afterMs: number}

/** What one process does. */
export type Deed =
  | {
      readonly kind: 'acquire'
      readonly entity: string
      readonly consume: Tokens
      readonly actions: readonly LeaseAction[]
      /** Nobody waits for its corrections to be written. */
      readonly isSoon?: boolean
      /** The caller gives up after so long. */
      readonly abortAfterMs?: number
    }
  /** Asks, waits exactly as long as the refusal says, asks again. */
  | {readonly kind: 'patient'; readonly entity: string; readonly consume: Tokens}
  | {readonly kind: 'available'; readonly entity: string}
  /** Is told by somebody who counts the same requests what is left, and so long ago, or of a refusal. */
  | {
      readonly kind: 'report-feedback'
      readonly entity: string
      readonly left?: Tokens
      readonly ageMs?: number
      readonly refused?: {readonly consume: Tokens; readonly retryAfterMs: number}
    }
  | {readonly kind: 'kill'}
  | {readonly kind: 'restart'}
  /** Sets the process's clock so far ahead of the true time, or behind it. */
  | {readonly kind: 'skew'; readonly ms: number}
  /** Closes the limiter and starts a new one, as a short-lived process does. */
  | {readonly kind: 'recycle'}
  // By an operator.
  | {readonly kind: 'set-limits'; readonly scope: ConfigScope; readonly limits: readonly Limit[]}
  /** Sets other values until an instant, in epoch ms. */
  | {readonly kind: 'boost'; readonly scope: ConfigScope; readonly limits: readonly Limit[]; readonly untilMs: number}
  | {readonly kind: 'delete-limits'; readonly scope: ConfigScope}
  | {readonly kind: 'set-access'; readonly scope: PolicyScope; readonly access: AccessSwitch | undefined}
  /** Gives an entity another parent, or none. */
  | {readonly kind: 'move'; readonly entity: string; readonly parent: string | undefined}
  /** Says whether parents are charged too; `undefined` leaves it to the next level. */
  | {readonly kind: 'set-cascade'; readonly scope: PolicyScope; readonly cascade: boolean | undefined}
  | {readonly kind: 'reset' | 'split'; readonly entity: string}
  /** Adds whole tokens to a limit, the quota "q" unless said otherwise, once per key. */
  | {
      readonly kind: 'top-up'
      readonly entity: string
      readonly tokens: number
      readonly key: string
      readonly limit?: string
    }
  | {readonly kind: 'delete-entity'; readonly entity: string}
  | {readonly kind: 'purge'}
  /** Reads all that is shown of an entity, and verifies the table. */
  | {readonly kind: 'look'; readonly entity: string}
  /** The table drops what has expired. */
  | {readonly kind: 'expire'}
  /** Every open shard of the stream is closed, and two children continue it. */
  | {readonly kind: 'split-stream'}
  /** Other clients write the bucket so often that it is split. */
  | {readonly kind: 'heat'; readonly entity: string; readonly writes: number}
  // By a Python client.
  /** `isSynced`: lowers live buckets too, shard 0 alone and not its balance, as 0.10 does. */
  | {
      readonly kind: 'python-config'
      readonly scope: ConfigScope
      readonly limits: readonly Limit[]
      readonly isSynced?: boolean
    }
  | {readonly kind: 'python-consume' | 'python-adjust'; readonly entity: string; readonly consume: Tokens}
  | {readonly kind: 'python-clone'; readonly entity: string}
  // By a client of zae-limiter 0.17.
  /** Replaces the whole item; `isSynced`: live buckets get the parameters, too. */
  | {
      readonly kind: 'peer-config'
      readonly scope: ConfigScope
      readonly limits: readonly Limit[]
      readonly isSynced: boolean
    }
  | {readonly kind: 'peer-access'; readonly scope: PolicyScope; readonly access: 'disabled' | 'enabled' | undefined}
  /** Has every request of an entity pass, or ends that; the change may miss the buckets. */
  | {readonly kind: 'peer-bypass'; readonly entity: string; readonly isBypassed: boolean; readonly misses: boolean}
  /** Takes from quotas; a session that it opens is announced to the other shards so much later, or never. */
  | {
      readonly kind: 'peer-consume'
      readonly entity: string
      readonly consume: Tokens
      readonly spreadAfterMs: number | undefined
    }
  /** Doubles the number of shards, and copies the new ones so much later; without, they are left to others. */
  | {readonly kind: 'peer-grow'; readonly entity: string; readonly cloneAfterMs: number | undefined}
  /** Writes what no usage record can hold. */
  | {readonly kind: 'poison'; readonly entity: string; readonly how: 'many-limits' | 'huge-number'}

export interface Step {
  /** Since the start, in ms. */
  readonly atMs: number
  /** Number of the process; operators, Python clients and the table itself have none. */
  readonly by: number
  readonly deed: Deed
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
 * A proxy repeats a request after a delay, and passes on the first answer, or the second; or it repeats those alone that
 * admit and return. Drawn apart from the others.
 */
export const REPEATS = ['twice', 'twice-answered-last', 'ride-twice'] as const

export type FaultKind = (typeof FAULT_KINDS)[number] | (typeof REPEATS)[number]

/** What goes wrong with one call of one process. */
export interface Fault {
  /** Number of the process; -1 for the aggregator, -2 for operators. */
  readonly by: number
  /** Which of its calls, from 1: of all, or of those of one operation. */
  readonly call: number
  readonly operation?: 'TransactWriteItems'
  readonly kind: FaultKind
  /** How much later than usual, where the kind has a delay. */
  readonly delayMs: number
}

/** Everything that a run depends on. */
export interface Scenario {
  readonly seed: number
  readonly profile: Profile
  /** How far ahead of the true time the clock of each process is at the start, in ms. */
  readonly skewsMs: readonly number[]
  /** The configuration at the start. */
  readonly configs: readonly {readonly scope: ConfigScope; readonly limits: readonly Limit[]}[]
  /** Entities that share their charges with a parent. */
  readonly children: Readonly<Record<string, string>>
  /**
   * Whether all processes use the same slot for their write marks: then a charge may count twice, or a return be dropped
   * (decision 26), unless the outcome of every attempt is decidable all the same.
   */
  readonly sharedSlots: boolean | 'decidable'
  /** How many buckets, entities and so on each process caches; of the others it knows nothing any more. */
  readonly cacheSize: number
  /** Write units that one partition takes per second; 1,000 in DynamoDB. */
  readonly partitionUnits: number
  /** Longest way of a message, in ms. */
  readonly longestWayMs: number
  /** Whether the aggregator is running, and how late it gets records, in ms. */
  readonly aggregatorLagMs: number | undefined
  readonly steps: readonly Step[]
  readonly faults: readonly Fault[]
}

/** What limiters cache unless it is set otherwise: more than a scenario has. */
export const USUAL_CACHE_SIZE = 10_000

/** The resource of all requests. */
export const RESOURCE = 'gpt-4'
