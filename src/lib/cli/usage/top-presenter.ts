import {formatCount, formatTokens} from '../../core/text/text.js'
import {NOT_REFUSED, refusedTotal} from '../../insight/usage/refused.js'
import type {TopConsumer, TopConsumers} from '../../insight/usage/usage-top.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {percentCell} from '../output/text-table.js'
import {NOTHING_RECORDED, overdraftText, shareBar, type UsageScope, usageScopeJson} from './presenter.js'
import type {UsageTopResult} from './results.js'

export interface TopOrder {
  readonly by: string
  readonly isByEntity: boolean
}

/** Reads `--by`: `tpm`, `entity` or `entity,tpm`. */
export function topOrder(by: string): TopOrder {
  const [first = '', ...rest] = by.split(',').map(word => word.trim())
  if (first !== 'entity') return {by, isByEntity: false}
  return {by: rest.length === 0 ? 'requests' : rest.join(','), isByEntity: true}
}

type TopScope = Pick<UsageScope, 'units' | 'resource'> & TopOrder & {readonly isCsv: boolean}

export function topListing({consumers}: TopConsumers, scope: TopScope): Listing<TopConsumer> {
  const {by, isByEntity, resource, isCsv} = scope
  return {
    rows: consumers,
    columns: [
      {name: 'entity', value: ({entity}) => entity},
      {name: 'resource', value: each => each.resource, isExtra: isByEntity || (resource !== undefined && !isCsv)},
      {
        name: 'share',
        header: `SHARE OF ${by.toUpperCase()}`,
        align: 'right',
        value: ({share}) => percentCell(share),
        raw: ({share}) => Math.round(share * 1e6) / 1e6,
      },
      {name: 'bar', header: '', fit: 'spare', value: ({share}) => shareBar(share), isExtra: isCsv},
      {name: 'requests', value: ({requests}) => requests},
      ...(isCsv ? limitColumns(consumers) : textColumns(consumers, scope)),
    ],
    empty: by === 'refused' ? 'No refused requests are recorded for that time.' : NOTHING_RECORDED,
  }
}

function textColumns(consumers: readonly TopConsumer[], {by, units}: TopScope): ListingColumn<TopConsumer>[] {
  const isExtra = by !== 'refused' && !consumers.some(({refused}) => refusedTotal(refused) > 0)
  const text = (name: string, tokens: number): string => `${name} ${formatTokens(tokens, units?.get(name))}`
  return [
    {
      name: 'tokens',
      value: ({limits, overdrawn}) =>
        Array.from(limits, ([name, tokens]) => text(name, tokens) + overdraftText(overdrawn.get(name))).join(', '),
    },
    {name: 'refused', align: 'right', value: ({refused}) => refusedTotal(refused), isExtra},
    {
      name: 'refused-tokens',
      header: 'REFUSED TOKENS',
      value: ({refused}) => Array.from(refused.limits, ([name, {tokens}]) => text(name, tokens)).join(', '),
      isExtra,
    },
  ]
}

/** Empty where a consumer was not charged for the limit. */
function limitColumns(consumers: readonly TopConsumer[]): ListingColumn<TopConsumer>[] {
  const used = namesIn(consumers, ({limits}) => limits)
  const overdrawn = namesIn(consumers, each => each.overdrawn)
  const refused = namesIn(consumers, each => each.refused.limits)
  return [
    ...used.map(name => ({name: `used-${name}`, value: ({limits}: TopConsumer) => limits.get(name)})),
    ...overdrawn.map(name => ({name: `overdrawn-${name}`, value: (each: TopConsumer) => each.overdrawn.get(name)})),
    {name: 'refused', value: each => refusedTotal(each.refused)},
    ...refused.map(name => ({
      name: `refused-${name}`,
      value: (each: TopConsumer) => each.refused.limits.get(name)?.tokens,
    })),
  ]
}

function namesIn(consumers: readonly TopConsumer[], of: (each: TopConsumer) => ReadonlyMap<string, unknown>): string[] {
  return [...new Set(consumers.flatMap(each => [...of(each).keys()]))].sort()
}

export function topFooter({consumers, total, resources}: TopConsumers, resource: string | undefined): string[] {
  const among = resource === undefined ? ` (resources: ${resources.join(', ') || 'none'})` : ''
  if (total === 0) return among === '' ? [] : [`Searched every resource with its own limits or live buckets${among}.`]
  return ['', `${formatCount(consumers.length)} of ${formatCount(total)} consumers${among}`]
}

export function topJson(scope: UsageScope, {by}: TopOrder, top: TopConsumers): UsageTopResult {
  const {window, since, until, resource} = usageScopeJson(scope)
  return {
    window,
    since,
    until,
    resource,
    by,
    consumers: top.consumers.map(({entity, resource: used = null, requests, share, limits, overdrawn, refused}) => ({
      entity,
      resource: used,
      requests,
      refused: {requests: refused.requests, byParent: refused.byParent},
      share,
      limits: [...new Set([...limits.keys(), ...refused.limits.keys()])].map(name => ({
        name,
        tokens: limits.get(name) ?? 0,
        overdrawn: overdrawn.get(name) ?? 0,
        refused: refused.limits.get(name) ?? NOT_REFUSED,
      })),
    })),
    total: top.total,
    resources: top.resources,
    complete: top.complete,
  }
}
