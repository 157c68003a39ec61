import {formatLimit, MAX_TOKENS} from '../../core/limit.js'
import {DEFAULT_RESOURCE} from '../../core/names.js'
import {formatCount, formatWait} from '../../core/text.js'
import type {ExplainedLimit, Explanation} from '../../inspect/explain.js'
import type {ConfigScope} from '../../schema/config-record.js'
import {scopeJson} from '../limits/json.js'
import {rateText, scopeWords} from '../limits/presenter.js'
import {factLines, nextLines} from '../output/facts.js'
import type {WhyResult} from '../results/acquire.js'
import {amountWords} from './presenter.js'

/** A command that would admit the request sooner, and what it does. */
export type Remedy = readonly [command: string, purpose: string]

/** Commands that help against an exceeded limit: raise it where it is set, or refill the bucket. `where`: flags to append. */
export function remedies(limit: ExplainedLimit, resource: string, where = ''): Remedy[] {
  if (!limit.exceeded) return []
  const {name, capacity, refillAmount, refillPeriodSeconds, requested, scope, entity} = limit
  const isTooSmall = requested > capacity
  const raised = {
    name,
    capacity: isTooSmall ? requested : doubled(capacity),
    refillAmount: isTooSmall ? refillAmount : doubled(refillAmount),
    refillPeriodSeconds,
  }
  const raise = `zael limits set ${scopeArguments(scope)} ${formatLimit(raised)}${where}`
  if (isTooSmall) return [[raise, `raise the burst of ${scopeWords(scope)} to the requested amount`]]
  return [
    [raise, `double the rate of ${scopeWords(scope)}`],
    [`zael bucket reset ${entity} --resource ${resource}${where}`, `refill the bucket of ${entity} once, now`],
  ]
}

function doubled(tokens: number): number {
  return Math.min(MAX_TOKENS, 2 * tokens)
}

function scopeArguments(scope: ConfigScope): string {
  if (scope.level === 'system') return '--system'
  if (scope.level === 'resource') return `--resource ${scope.resource}`
  return scope.resource === DEFAULT_RESOURCE
    ? `--entity ${scope.entity}`
    : `--entity ${scope.entity} --resource ${scope.resource}`
}

/** Explains whether a request would be admitted now, and why. */
export function whyLines(explanation: Explanation, where = ''): string[] {
  const {entity, resource, limits, isRegistered, parent} = explanation
  const exceeded = limits.filter(limit => limit.exceeded)
  return [
    verdict(explanation),
    ...limits.flatMap(limit => ['', ...limitLines(limit, explanation)]),
    ...(parent === undefined ? [] : ['', `Every charge of ${entity} is also charged to its parent ${parent}.`]),
    ...(isRegistered
      ? []
      : ['', `${entity} has no record. Limits apply anyway; check the spelling if you expected one.`]),
    ...(exceeded.length === 0 ? [] : remedyLines(exceeded, resource, where)),
  ]
}

function verdict({entity, resource, limits, admitted, retryAfterMs, atMs}: Explanation): string {
  const own = limits.filter(({level}) => level === 'entity')
  const asked = amountWords(Object.fromEntries(own.map(({name, requested}) => [name, requested])))
  if (admitted) return `${entity} can have ${asked} of ${resource} now.`
  const when =
    retryAfterMs === Infinity
      ? 'and waiting does not help'
      : `but in ${formatWait(retryAfterMs)}, at ${new Date(atMs + retryAfterMs).toISOString()}`
  return `${entity} cannot have ${asked} of ${resource} now, ${when}.`
}

function limitLines(limit: ExplainedLimit, {hour}: Explanation): string[] {
  const {name, entity, level, available, capacity, requested, exceeded, shards, scope, drainedBy} = limit
  const whose = level === 'parent' ? `the parent ${entity}` : entity
  const clears =
    limit.retryAfterMs === Infinity ? 'and waiting does not help' : `clears in ${formatWait(limit.retryAfterMs)}`
  const state = exceeded ? `refuses, ${clears}` : 'has room'
  const isShared = level === 'parent' || drainedBy.length > 0
  const consumers = drainedBy.map(({entity: child, tokens}) => `${child} ${formatCount(tokens)}`).join(', ')
  return factLines(`${name} of ${whose} ${state}`, {
    level: `${formatCount(available)} of ${formatCount(capacity)} left, ${formatCount(requested)} requested`,
    'set for': `${scopeWords(scope)}: ${rateText(limit)}`,
    shards: shards.length > 1 ? shardsText(limit) : undefined,
    'drained by':
      exceeded && isShared ? `${consumers || 'no entity with recorded usage yet'} (since ${hour})` : undefined,
  })
}

function shardsText({shards}: ExplainedLimit): string {
  const each = shards.map(({shard, available, capacity}) => {
    return `${shard}: ${formatCount(available)} of ${formatCount(capacity)}`
  })
  return each.join(', ')
}

function remedyLines(exceeded: readonly ExplainedLimit[], resource: string, where: string): string[] {
  const commands = new Map(exceeded.flatMap(limit => remedies(limit, resource, where)))
  const [, , ...lines] = nextLines([...commands])
  return ['', 'To admit it sooner:', ...lines]
}

/** The explanation in JSON; a wait of null means that waiting never helps. */
export function whyJson(explanation: Explanation, where = ''): WhyResult {
  const {entity, resource, isRegistered, parent, atMs, hour, admitted, limits} = explanation
  const wait = (ms: number) => (ms === Infinity ? null : ms)
  const clears = (ms: number) => (ms === Infinity ? null : new Date(atMs + ms).toISOString())
  return {
    entity,
    resource,
    registered: isRegistered,
    parent: parent ?? null,
    at: new Date(atMs).toISOString(),
    hour,
    admitted,
    retryAfterMs: wait(explanation.retryAfterMs),
    clearsAt: clears(explanation.retryAfterMs),
    limits: limits.map(limit => ({
      name: limit.name,
      level: limit.level,
      entity: limit.entity,
      setFor: scopeJson(limit.scope),
      text: formatLimit(limit),
      capacity: limit.capacity,
      refillAmount: limit.refillAmount,
      refillPeriodSeconds: limit.refillPeriodSeconds,
      available: limit.available,
      requested: limit.requested,
      deficit: limit.deficit,
      exceeded: limit.exceeded,
      retryAfterMs: wait(limit.retryAfterMs),
      clearsAt: clears(limit.retryAfterMs),
      shards: limit.shards.map(({shard, available, capacity}) => ({shard, available, capacity})),
      drainedBy: limit.drainedBy.map(({entity: child, tokens}) => ({entity: child, tokens})),
      remedies: remedies(limit, resource, where).map(([command, purpose]) => ({command, purpose})),
    })),
  }
}
