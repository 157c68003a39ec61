/// <reference lib="esnext.disposable" preserve="true" />
/**
 * Limit requests with {@link RateLimiter}; manage limits and entities with {@link Repository}.
 * @packageDocumentation
 */
export {decodeName, encodeEntityId} from './core/encoded-name.js'
export {type ErrorKind, InvalidInput, ZaelError, type ZaelErrorOptions} from './core/errors.js'
export type {
  CalendarCheck,
  CalendarReset,
  Consumption,
  CronUse,
  Limit,
  LimitBoost,
  ReplacedWindow,
  ScaledWindow,
  ScheduleEntry,
  SessionReset,
} from './core/limits/limit.js'
export {type Level, type LimitsByLevel, type ResolvedLimits, resolveLimits} from './core/limits/limit.js'
export type {LimitState, LimitStates} from './core/limits/limit-state.js'
export {defineLimits, formatLimit, type LimitName, type LimitTexts, parseLimit} from './core/limits/limit-text.js'
export type {BucketName} from './core/names.js'
export type {Window} from './core/window.js'
export {Aborted, Denied, TableMissing, Unavailable} from './dynamo/errors.js'
export type {AcquireDecision, AdmittedDecision, RefusedDecision} from './limiter/decision.js'
export type {DelegateRequest, SubRunRequest} from './limiter/delegate-request.js'
export type {Lease, LeasePart} from './limiter/lease.js'
export type {CacheStats, CacheUse} from './limiter/levels/namespace-limiter.js'
export type {CheckResult, ResourceCapacity} from './limiter/levels/reads.js'
export type {PingOptions, PingResult} from './limiter/ping.js'
export {RateLimiter} from './limiter/rate-limiter.js'
export {
  LeaseEnded,
  LimiterClosed,
  type ProblemDetails,
  RateLimitExceeded,
  RateLimiterUnavailable,
  type RefusalError,
  type RequestRefused,
  RequestTooLarge,
  ResourceDisabled,
} from './limiter/refusal/errors.js'
export type {HeaderFields} from './limiter/refusal/headers.js'
export type {
  DecisionEvent,
  DecisionReason,
  FurtherResources,
  RefusingLimit,
  SharedScope,
} from './limiter/request/decision-event.js'
export type {AcquireRequest, Priority, RateLimiterOptions, Settle, SettledEvent} from './limiter/request/options.js'
export type {DelegateDecision, DelegatedDecision, Run, RunAcquireRequest} from './limiter/run.js'
export type {BucketView, ShardView} from './repository/buckets/view.js'
export type {ChangedEntity, Entities, EntityChange, MetadataChange, NewEntity} from './repository/entities/entities.js'
export type {RemovedEntity} from './repository/entities/removal.js'
export type {DeletedEntity, EntityFilter, SearchOptions, SearchProgress} from './repository/entities/search.js'
export type {SyncOptions, SyncResult} from './repository/limits/bucket-sync.js'
export type {
  ConfigChange,
  DeleteOptions,
  InheritedLimits,
  PolicyScope,
  SetOptions,
  SwitchChangeOptions,
} from './repository/limits/change-options.js'
export type {SystemSettings} from './repository/limits/checks.js'
export type {BoostedLimit, Configs} from './repository/limits/configs.js'
export type {DecidingSwitch, LevelTrace, Resolution, ResolveOptions} from './repository/limits/resolver.js'
export type {UnitsByLimit} from './repository/limits/units.js'
export type {Namespaces, Registration} from './repository/namespaces/namespaces.js'
export type {Namespace, PurgeOptions} from './repository/namespaces/purge.js'
export type {OperationOptions, OperationResult} from './repository/operations/apply-operation.js'
export type {ProviderFeedback, ProviderFeedbackResult} from './repository/operations/provider-feedback.js'
export {
  type LimitsChange,
  type NamespaceRepository,
  Repository,
  type RepositoryOptions,
  type UsageQuery,
  type UsageSum,
  type WindowUsage,
} from './repository/repository.js'
export type {RunAmounts, RunState} from './repository/runs/run-state.js'
export {RunEnded, RunMissing} from './repository/runs/runs.js'
export type {Audit, AuditEvent, AuditSelection, Principal} from './repository/table/audit.js'
export type {CountsByKind, RecordKind, Removed} from './repository/table/kind-counter.js'
export type {ConnectionOptions} from './repository/table/open-table.js'
export type {PageRequest, RecordPage} from './repository/table/query.js'
export {UnsupportedFeature} from './repository/table/unsupported-feature.js'
export type {UsageSelection} from './repository/usage/range.js'
export type {LimitUsage} from './repository/usage/usage.js'
export type {AuditRecord} from './schema/audit-record.js'
export type {AccessSwitch, ConfigRecord, ConfigScope, OnUnavailable} from './schema/config-record.js'
export type {EntityRecord} from './schema/entity-record.js'
export type {ParentGeneration} from './schema/family.js'
export {encodeResourceName, hashKey} from './schema/hashed-name.js'
export type {Json} from './schema/json-attribute.js'
export type {ChargedLevels, NamespaceRecord, NamespaceStatus} from './schema/namespace-record.js'
export type {CarriedFeature, PeerFeature} from './schema/peer-features.js'
