import {groupBy} from '../../core/group-by.js'
import {
  formatCount,
  formatList,
  formatMinute,
  formatPlural,
  formatSome,
  formatTokens,
  shellWord,
} from '../../core/text/text.js'
import type {ParentMove} from '../../insight/usage/moves.js'
import {NOT_REFUSED, refusedTotal, requestsOf} from '../../insight/usage/refused.js'
import type {Charged, TopConsumer, TopConsumers} from '../../insight/usage/usage-top.js'
import {isoSeconds} from '../../schema/attribute-value.js'
import type {Listing, ListingColumn} from '../output/listing.js'
import {percentCell} from '../output/text-table.js'
import {doubtfulLines, NOTHING_RECORDED, overdraftText, shareBar, type UsageScope, usageScopeJson} from './presenter.js'
import type {UsageTopResult} from './results.js'

export interface TopOrder {
  readonly by: string
  readonly isByEntity: boolean
  readonly isByParent?: boolean | undefined
}

/** Reads `--by`: `tpm`, `entity`, `entity,tpm`, `parent` or `parent,tpm`. */
export function topOrder(by: string): TopOrder {
  const [first = '', ...rest] = by.split(',').map(word => word.trim())
  const isByParent = first === 'parent'
  if (first !== 'entity' && !isByParent) return {by, isByEntity: false, isByParent}
  return {by: rest.length === 0 ? 'requests' : rest.join(','), isByEntity: true, isByParent}
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
    empty: emptyText(scope),
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

function emptyText({by, isByParent}: TopScope): string {
  const what = by === 'refused' ? 'refusals' : 'usage'
  if (isByParent) return `No parent of another consumer has recorded ${what} for that time.`
  return by === 'refused' ? 'No refused requests are recorded for that time.' : NOTHING_RECORDED
}

export function topFooter(
  {consumers, count, total, resources, hasOthers, doubtful, parent}: TopConsumers,
  {resource, by, units, isByParent}: Pick<TopScope, 'resource' | 'by' | 'units' | 'isByParent'>,
): string[] {
  if (parent) return memberLines(parent, {count, total, units})
  if (total === 0 && isByParent) return []
  const [first] = isByParent ? consumers : []
  const among = resource === undefined ? ` (resources: ${resources.join(', ') || 'none'})` : ''
  if (total === 0) return among === '' ? [] : [`Searched every resource with its own limits or live buckets${among}.`]
  const others = `Entities without recorded use of ${by} are not listed. If only a parent has a limit, its use is recorded for the parent.`
  return [
    '',
    `${formatCount(count)} of ${isByParent ? formatPlural(total, 'parent') : `${formatCount(total)} consumers`}${among}`,
    ...(first ? [`Their use includes that of their members. Members: zael usage top ${shellWord(first.entity)}`] : []),
    ...(hasOthers ? [others] : []),
    ...doubtfulLines(doubtful),
  ]
}

function memberLines(
  {entity, requests, limits, refused, others, parentOnly, undivided, moves}: Charged,
  {count, total, units}: Pick<TopConsumers, 'count' | 'total'> & Pick<TopScope, 'units'>,
): string[] {
  const figures = (each: Pick<Charged, 'requests' | 'limits'>) => [
    ...(each.requests > 0 ? [formatPlural(each.requests, 'request')] : []),
    ...Array.from(each.limits, ([name, tokens]) => `${name} ${formatTokens(tokens, units?.get(name))}`),
  ]
  const rest = figures(others)
  const by = [...new Set(parentOnly.map(({limit}) => limit))]
  return [
    '',
    `${formatCount(count)} of ${formatPlural(total, 'consumer')} among the members of ${entity}`,
    `Charged to ${entity} in this time: ${figures({requests, limits}).join(', ') || 'nothing'}; its limits refused ${formatPlural(refused.requests, 'request')}`,
    ...(rest.length > 0
      ? [
          `  of these, not recorded for a member: ${rest.join(', ')} (own use, deleted members, limits that members lack)`,
        ]
      : []),
    ...(moves.length > 0 ? moveLines(entity, moves) : []),
    ...undividedLines(entity, undivided),
    ...(by.length > 0 ? [parentOnlyText(entity, by)] : []),
  ]
}

const MOST_MOVES = 5

function moveLines(parent: string, moves: readonly ParentMove[]): string[] {
  const each = moves.map(({entity, atMs, from, to}) => {
    const where =
      to === parent ? (from === undefined ? 'joined' : `from ${from}`) : to === undefined ? 'left' : `to ${to}`
    return `${entity} ${where} (${formatMinute(atMs)})`
  })
  return [
    `Members that moved: ${formatSome(each, MOST_MOVES)}`,
    `  In the window of a move, zael counts at most the charge of ${parent} minus the use of its other members. This can be too much if ${parent} made requests itself or several members moved. Their refusals in that window count for both parents.`,
  ]
}

function undividedLines(parent: string, undivided: Charged['undivided']): string[] {
  const each = [...groupBy(undivided, ({entity}) => entity)].map(
    ([entity, of]) => `${formatList([...new Set(of.map(({limit}) => limit))])} of ${entity}`,
  )
  if (each.length === 0) return []
  return [
    `  These amounts include the whole window of the move, because ${parent} lacks the limits: ${formatSome(each, MOST_MOVES)}`,
  ]
}

/** A soft limit meters each member. */
const parentOnlyText = (parent: string, limits: readonly string[]): string =>
  `The use of ${formatList(limits)} is recorded for ${parent} only, because its members have no such limit. ` +
  'To record it for each member, give them a soft limit of that name: it refuses nothing (`zael help limit-syntax`).'

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
  {count, total, doubtful, resources, complete, parent}: TopConsumers,
): {before: object; after: object} {
  const {entity: _, ...asked} = usageScopeJson(scope)
  const before = {...asked, by, parent: parent ? parentJson(parent) : null}
  return {before, after: {total, doubtful, resources, complete: complete && count === total}}
}

const amountsJson = (limits: TopConsumer['limits']) => Array.from(limits, ([name, tokens]) => ({name, tokens}))

const parentJson = ({
  entity,
  requests,
  limits,
  refused,
  others,
  parentOnly,
  undivided,
  moves,
}: Charged): UsageTopResult['parent'] => ({
  ...{entity, requests, refused: requestsOf(refused), limits: amountsJson(limits)},
  others: {requests: others.requests, limits: amountsJson(others.limits)},
  parentOnly: [...parentOnly],
  undivided: [...undivided],
  moves: moves.map(({entity: member, atMs, from = null, to = null}) => ({
    ...{entity: member, at: isoSeconds(atMs), from, to},
  })),
})
