import {groupBy} from '../../core/group-by.js'
import {formatAmount} from '../../core/limits/amount-text.js'
import type {Consumption} from '../../core/limits/limit.js'
import {formatList, formatSpan, formatTokens, formatWait, shellWord} from '../../core/text/text.js'
import type {AcquireAttempt} from '../../insight/why/attempt.js'
import type {UnitsByLimit} from '../../repository/limits/units.js'
import {pick} from '../output/json-text.js'
import {textTable} from '../output/text-table.js'
import type {AcquireResult} from './results.js'

export function retryText(ms: number): string {
  return `Waiting for ${formatWait(ms)}`
}

/** "1 rpm and $0.05 usd". */
export function amountWords(consume: Consumption, units: UnitsByLimit | undefined): string {
  return formatList(
    Object.entries(consume).map(([name, tokens]) => `${formatTokens(tokens, units?.get(name))} ${name}`),
  )
}

export interface TriedRequest {
  readonly entity: string
  readonly resource: string
  readonly consume: Consumption
  readonly units?: UnitsByLimit | undefined
  readonly dryRun: boolean
  readonly attempt: AcquireAttempt
}

export async function acquireLines(tried: TriedRequest, width: number | undefined): Promise<string[]> {
  const {statuses} = tried.attempt
  const title = titleOf(tried)
  if (statuses.length === 0) return [title]
  const headers = ['LIMIT', 'ENTITY', 'REQUESTED', 'LEFT', 'CAPACITY', 'READY IN'].map(header => ({header}))
  const rows = statuses.map(({name, entity, requested, available, capacity, exceeded, retryAfterMs}) => {
    const unit = tried.units?.get(name)
    const amounts = [requested, available, capacity].map(tokens =>
      unit === undefined ? tokens : formatTokens(tokens, unit),
    )
    return [name, entity, ...amounts, exceeded ? formatWait(retryAfterMs) : 'now']
  })
  return [title, '', ...(await textTable(headers, rows, {header: true, width}))]
}

function titleOf({entity, resource, consume, units, dryRun, attempt}: TriedRequest): string {
  const {admitted, isMetered, isBypassed, waitedMs, retryAfterMs} = attempt
  const asked = amountWords(consume, units)
  const waited = waitedMs > 0 ? ` after ${formatSpan(waitedMs)}` : ''
  if (!admitted) {
    const what = asked === '' ? 'take a slot' : `consume ${asked}`
    const when = retryAfterMs === null ? 'Waiting does not help' : `Retry in ${formatWait(retryAfterMs)}`
    return `Refused${waited}: ${entity} cannot ${what} of ${resource} now. ${when}.`
  }
  if (!isMetered) return 'Admitted without a charge, because the table is unavailable'
  const was = dryRun ? 'would be' : 'was'
  const charges = chargeText({entity, resource, units, attempt, was}) ?? `${asked} of ${resource} ${was} charged`
  const charge = isBypassed ? `${resource} is bypassed for ${entity}; ${charges}` : charges
  return dryRun ? `Would be admitted: ${charge}` : `Admitted${waited}: ${charge}`
}

/** Every level is charged only for its own limits. `undefined` if the balances could not be read. */
function chargeText({
  entity,
  resource,
  units,
  attempt: {statuses, isBypassed},
  was,
}: Pick<TriedRequest, 'entity' | 'resource' | 'units' | 'attempt'> & {readonly was: string}): string | undefined {
  const charged = [...groupBy(statuses, status => status.entity)].map(([whose, ofLevel]) => ({
    whose,
    amounts: amountWords(Object.fromEntries(ofLevel.map(({name, requested}) => [name, requested])), units),
    isOwn: ofLevel[0]?.level === 'entity',
  }))
  const own = charged.find(({isOwn}) => isOwn)?.amounts
  const shared = charged.filter(({isOwn}) => !isOwn)
  const [parent] = shared
  if (own === undefined)
    return parent && `${parent.whose}, the parent of ${entity}, ${was} charged ${parent.amounts} of ${resource}`
  if (isBypassed) {
    const others = shared.map(({whose, amounts}) => `; its parent ${whose} ${was} charged ${amounts}`)
    return `${own} ${was} counted, not charged${others.join('')}`
  }
  const others = shared.map(({whose, amounts}) => `; its parent ${whose} ${was} charged ${amounts}`)
  return `${entity} ${was} charged ${own} of ${resource}${others.join('')}`
}

export function whyCommand({entity, resource, consume, units}: TriedRequest): string {
  const amounts = Object.entries(consume).map(([name, tokens]) => {
    const unit = units?.get(name)
    return `${name}=${unit === undefined ? tokens : formatAmount(tokens, unit)}`
  })
  return ['zael why', ...[entity, resource, ...amounts].map(shellWord)].join(' ')
}

export function acquireJson({entity, resource, consume, dryRun, attempt}: TriedRequest): AcquireResult {
  return {
    entity,
    resource,
    consume,
    dryRun,
    admitted: attempt.admitted,
    metered: attempt.isMetered,
    bypassed: attempt.isBypassed,
    parent: attempt.parents[0] ?? null,
    parents: [...attempt.parents],
    waitedMs: attempt.waitedMs,
    retryAfterMs: attempt.retryAfterMs,
    limits: attempt.statuses.map(status =>
      pick(status, 'name', 'level', 'entity', 'requested', 'available', 'capacity', 'exceeded', 'retryAfterMs'),
    ),
  }
}
