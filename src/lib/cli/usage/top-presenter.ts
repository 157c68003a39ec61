import {formatCount, formatTokens} from '../../core/text/text.js'
import {NOT_REFUSED, refusedTotal, requestsOf} from '../../insight/usage/refused.js'
import type {TopConsumer, TopConsumers} from '../../insight/usage/usage-top.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {percentCell} from '../output/text-table.js'
import {doubtfulLines, NOTHING_RECORDED, overdraftText, shareBar, type UsageScope, usageScopeJson} from './presenter.js'
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

type TopScope = Pick<UsageScope, 'units' | 'resource'> &
  Pick<TopConsumers, 'names'> &
  TopOrder & {readonly isCsv: boolean}

export function topListing(consumers: readonly TopConsumer[], scope: TopScope): Listing<TopConsumer> {
  const {by, isByEntity, resource, isCsv} = scope
  const keys = ['entity', 'resource', by]
  const columns: ListingColumn<TopConsumer>[] = [
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
    ...(isCsv ? limitColumns(scope) : textColumns(consumers, scope)),
  ]
  return {
    rows: consumers,
    columns: columns.map(column => (keys.includes(column.name) ? {...column, fit: 'key'} : column)),
    empty: by === 'refused' ? 'No refused requests are recorded for that time.' : NOTHING_RECORDED,
  }
}

function textColumns(consumers: readonly TopConsumer[], {by, units}: TopScope): ListingColumn<TopConsumer>[] {
  const isExtra = by !== 'refused' && !consumers.some(({refused}) => refusedTotal(refused) > 0)
  const text = (name: string, tokens: number): string => `${name} ${formatTokens(tokens, units?.get(name))}`
  return [
    {
      name: 'tokens',
      fit: 'text',
      value: ({limits, overdrawn}) =>
        Array.from(limits, ([name, tokens]) => text(name, tokens) + overdraftText(overdrawn.get(name))).join(', '),
    },
    {name: 'refused', align: 'right', value: ({refused}) => refusedTotal(refused), isExtra},
    {
      name: 'blocked',
      align: 'right',
      value: ({refused}) => refused.blocked,
      isExtra: !consumers.some(({refused}) => refused.blocked > 0),
    },
    {
      name: 'refused-tokens',
      header: 'REFUSED TOKENS',
      fit: 'whole',
      value: ({refused}) => Array.from(refused.limits, ([name, {tokens}]) => text(name, tokens)).join(', '),
      isExtra,
    },
  ]
}

/** Empty where a consumer was not charged for the limit. */
function limitColumns({names: {used, overdrawn, refused}}: TopScope): ListingColumn<TopConsumer>[] {
  return [
    ...used.map(name => ({name: `used-${name}`, value: ({limits}: TopConsumer) => limits.get(name)})),
    ...overdrawn.map(name => ({name: `overdrawn-${name}`, value: (each: TopConsumer) => each.overdrawn.get(name)})),
    {name: 'refused', value: each => refusedTotal(each.refused)},
    ...refused.map(name => ({
      name: `refused-${name}`,
      value: (each: TopConsumer) => each.refused.limits.get(name)?.tokens,
    })),
    {name: 'blocked', value: each => each.refused.blocked},
  ]
}

export function topFooter(
  {count, total, resources, hasOthers, doubtful}: TopConsumers,
  {resource, by}: Pick<TopScope, 'resource' | 'by'>,
): string[] {
  const among = resource === undefined ? ` (resources: ${resources.join(', ') || 'none'})` : ''
  if (total === 0) return among === '' ? [] : [`Searched every resource with its own limits or live buckets${among}.`]
  const others = `Entities without recorded use of ${by} are not listed. If only a parent has a limit, its use is recorded for the parent.`
  return [
    '',
    `${formatCount(count)} of ${formatCount(total)} consumers${among}`,
    ...(hasOthers ? [others] : []),
    ...doubtfulLines(doubtful),
  ]
}

/** Files have no footer. */
export const topCutText = ({count, total}: TopConsumers): string =>
  `Printed ${formatCount(count)} of ${formatCount(total)} consumers. Without --limit, all are printed.`

export function consumerJson({entity, resource, requests, share, limits, overdrawn, refused}: TopConsumer) {
  return {
    entity,
    resource: resource ?? null,
    requests,
    refused: requestsOf(refused),
    share,
    limits: [...new Set([...limits.keys(), ...refused.limits.keys()])].map(name => ({
      name,
      tokens: limits.get(name) ?? 0,
      overdrawn: overdrawn.get(name) ?? 0,
      refused: refused.limits.get(name) ?? NOT_REFUSED,
    })),
  } satisfies UsageTopResult['consumers'][number]
}

/** The fields before and after the consumers. */
export function topJson(
  scope: UsageScope,
  {by}: TopOrder,
  {count, total, doubtful, resources, complete}: TopConsumers,
): {before: object; after: object} {
  const {entity: _, ...asked} = usageScopeJson(scope)
  return {before: {...asked, by}, after: {total, doubtful, resources, complete: complete && count === total}}
}
