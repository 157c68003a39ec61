import {inFlightText, slotHoldersText} from '../../cli/holders/presenter.js'
import {gauge, sparkline} from '../../core/text/gauge.js'
import {
  firstItems,
  formatCount,
  formatList,
  formatNumber,
  formatPlural,
  formatRate,
  formatShortNumber,
  formatShortPercent,
  formatShortSpan,
} from '../../core/text/text.js'
import {textStart, textWidth} from '../../core/text/text-width.js'
import {switchWord} from '../../repository/buckets/view.js'
import {type LiveLevel, type LiveView, recordsOf} from '../model/levels.js'
import {type Detail, type Reading, USAGE_HOURS, type WatchData} from '../model/model.js'
import {chargedTo, isByOther, REFUSED_BY, type Row, rowAt} from '../model/status.js'
import type {Frame} from './frame.js'
import type {GlyphSet} from './glyphs.js'
import {amountText, cell, columnsOf, foldedPieces, type Line, linesOf, seg, type Tone, wrapPieces} from './line.js'
import {TONE_OF_STATUS, untilText} from './overview-panel.js'

const NAME_WIDTH = 12
const SHARD_GAUGE_WIDTH = 10
const GAP = '  '
const INDENT = 6

export function detailLines(frame: Frame): Line[] {
  const {state, data, levelsAtMs, nowMs, settings, size} = frame
  const reading = state.detailId === undefined ? undefined : data.readings.get(state.detailId)
  if (!reading) return [[seg('This bucket no longer exists. Esc goes back.', 'near')]]
  const detail = data.detail?.id === reading.id ? data.detail : undefined
  const parents = detail ? latestParents(detail, data) : []
  const find = (id: string) => data.readings.get(id) ?? parents.find(parent => parent.id === id)
  const row = rowAt(reading, levelsAtMs, find)
  const {glyphs} = settings
  const drawn = {glyphs, units: detail?.units ?? data.units}
  const space = {...limitWidths(row.view.limits, size.columns), ...drawn}
  return [
    ...titleLines(
      row,
      chargedTo(reading, find),
      data.names.get(row.entity),
      agoText(reading.readAtMs, nowMs),
      size.columns,
      glyphs,
    ),
    ...section('Limits', limitLines(row, reading, levelsAtMs, size.columns, space)),
    [
      seg('  in use, last polls  ', 'dim'),
      seg(sparkline(row.used, Math.min(60, size.columns - 24), glyphs), 'history'),
    ],
    ...drainLines(row, data, glyphs),
    ...section('Shards', shardLines(row.view.shards, reading.writePressures, size.columns, space)),
    ...(detail
      ? [...parents.flatMap(each => parentLines(each, levelsAtMs, size.columns, drawn)), ...loadedLines(detail, frame)]
      : [[], [seg('Loading details.', 'dim')]]),
  ]
}

/** Polls may have read the parents since the detail was loaded. */
const latestParents = ({parents}: Detail, {readings}: WatchData): Reading[] =>
  parents.map(parent => {
    const polled = readings.get(parent.id)
    return polled && polled.readAtMs > parent.readAtMs ? polled : parent
  })

function limitWidths(limits: readonly LiveLevel[], columns: number): Pick<LimitSpace, 'nameWidth' | 'gaugeWidth'> {
  const spare = Math.max(0, columns - 72 - LEAST_GAUGE_WIDTH)
  const names = limits.map(({name}) => textWidth(name))
  const longest = columns < NORMAL ? Math.max(...names) : Math.max(NAME_WIDTH, ...names)
  const nameWidth = Math.min(longest, NAME_WIDTH + spare)
  return {nameWidth, gaugeWidth: Math.max(LEAST_GAUGE_WIDTH, Math.min(40, columns - 72 - (nameWidth - NAME_WIDTH)))}
}

const LEAST_GAUGE_WIDTH = 8
const NORMAL = 80

const agoText = (atMs: number, nowMs: number): string => `read ${formatShortSpan(nowMs - atMs)} ago`

function section(title: string, lines: readonly Line[], age?: string): Line[] {
  if (lines.length === 0) return []
  return [[], [seg(title, 'title'), ...(age === undefined ? [] : [seg(`  ${age}`, 'dim')])], ...lines]
}

function titleLines(
  row: Row,
  charged: ReturnType<typeof chargedTo>,
  name: string | undefined,
  age: string,
  columns: number,
  glyphs: GlyphSet,
): Line[] {
  const {view, status, shardCount, refusedBy} = row
  const [account] = row.requests.accounts?.keys() ?? []
  const by = refusedBy === 'provider' && account !== undefined ? account.replace('#', ` ${glyphs.dot} `) : undefined
  const facts = [
    formatPlural(shardCount, 'shard'),
    charged.length > 0 ? `also charged to ${formatList(charged.map(({entity}) => entity))}` : undefined,
    isByOther(refusedBy) ? `refused by ${by ?? REFUSED_BY[refusedBy]}` : undefined,
    switchWord(view),
    age,
  ].filter(fact => fact !== undefined)
  const [until, tone] = untilText(row, glyphs)
  const mark = seg(`${glyphs.status[status]} `, TONE_OF_STATUS[status])
  const title = seg(`${row.entity}${name === undefined ? '' : ` (${name})`} ${glyphs.dot} ${row.resource}`, 'title')
  const rest = [seg(`  ${facts.join(', ')}  `), seg(until, tone)]
  if (columnsOf([mark, title, ...rest]) <= columns) return [[mark, title, ...rest]]
  const parts = textParts(title.text, columns - columnsOf([mark]))
  const below = columnsOf(rest) <= columns ? [rest] : foldedPieces([...linesOf(facts), [seg(until, tone)]], columns)
  return [...parts.map((part, at): Line => [at === 0 ? mark : seg('  '), seg(part, 'title')]), ...below]
}

function textParts(text: string, width: number): string[] {
  const start = textStart(text, Math.max(1, width))
  return start === text || start === '' ? [text] : [start, ...textParts(text.slice(start.length), width)]
}

interface Drawn {
  readonly glyphs: GlyphSet
  readonly units: Detail['units']
}

interface LimitSpace extends Drawn {
  readonly nameWidth: number
  readonly gaugeWidth: number
}

function limitLines(
  {view: {limits}}: Row,
  reading: Reading,
  levelsAtMs: number,
  columns: number,
  space: LimitSpace,
): Line[] {
  return limits.flatMap(limit => {
    const rate = reading.ratePerSecond.get(limit.name)
    const unit = space.units.get(limit.name)
    const used = rate === undefined ? '' : `, used ${amountText(rate, unit, formatShortNumber)}/s`
    const refill = seg(`${refillText(limit, unit, levelsAtMs)}${used}`, 'dim')
    return foldedPieces([levelPieces(limit, space), [refill]], columns)
  })
}

function refillText(limit: LiveLevel, unit: string | undefined, nowMs: number): string {
  const {quota, resetsAt, refillPerSecond, inFlight} = limit
  if (inFlight) return 'slots free'
  if (!quota) return `refills ${amountText(refillPerSecond, unit, formatRate)}/s`
  if (resetsAt !== undefined) return `resets in ${formatShortSpan(Date.parse(resetsAt) - nowMs)}`
  return 'starts with the next use'
}

function levelPieces({name, level, capacity, debt, soft}: LiveLevel, space: LimitSpace): Line {
  const {glyphs, nameWidth, gaugeWidth, units} = space
  const unit = units.get(name)
  const amount = (tokens: number) => amountText(tokens, unit, formatNumber)
  const word = soft ? 'overdrawn' : 'in debt'
  const debtPart = debt > 0 ? [seg(` ${glyphs.belowZero} ${amount(debt)} ${word}`, soft ? 'near' : 'over')] : []
  return [
    seg(`  ${cell(name, nameWidth, glyphs.ellipsis)} `),
    seg(gauge(level, capacity, gaugeWidth, glyphs), levelTone(level, soft)),
    seg(` ${amountText(level, unit, tokens => formatNumber(tokens, 'down'))} of ${amount(capacity)}`),
    ...debtPart,
  ]
}

function parentLines(parent: Reading, atMs: number, columns: number, drawn: Drawn): Line[] {
  const {entity, view} = rowAt(parent, atMs)
  const space = {...limitWidths(view.limits, columns), ...drawn}
  return section(
    `Parent ${entity}`,
    view.limits.map(limit => levelPieces(limit, space)),
  )
}

const MOST_CHILDREN = 8

/** Smaller shares are differences of buckets that were read at different instants. */
const LEAST_SHOWN = 0.01

function drainLines({id, tightest}: Row, data: WatchData, glyphs: GlyphSet): Line[] {
  if (!tightest) return []
  const {basis, children, others} = drainOf(data, id, tightest.name)
  const lines = children.map(({entity, share, ratePerSecond}): Line => {
    const name = data.names.get(entity)
    const rate = ratePerSecond === null ? glyphs.dash : formatShortNumber(ratePerSecond)
    return [
      seg(`  ${formatShortPercent(share).padStart(4)} `),
      seg(gauge(share, 1, SHARD_GAUGE_WIDTH, glyphs), 'history'),
      seg(` ${entity}`),
      seg(`${name === undefined ? '' : ` ${name}`}  ${rate}/s`, 'dim'),
    ]
  })
  const since = basis === 'rate' ? 'used now' : 'used so far'
  const rest = `  ${formatShortPercent(others).padStart(4)} by itself, or by children that moved or were deleted`
  return section(`Children, share of ${tightest.name} ${since}`, [
    ...firstItems(lines, MOST_CHILDREN, more => [seg(`  and ${formatCount(more)} more`, 'dim')]),
    ...(lines.length > 0 && others >= LEAST_SHOWN ? [[seg(rest, 'dim')]] : []),
  ])
}

function loadedLines({limits, inFlight, units, usage, audit, problems, loadedAtMs}: Detail, frame: Frame): Line[] {
  const {glyphs} = frame.settings
  const {columns} = frame.size
  const age = agoText(loadedAtMs, frame.nowMs)
  return [
    ...section(
      'Limits in force',
      limits.flatMap(({name, text, source}) =>
        foldedPieces([[seg(`  ${name} ${text}`)], [seg(source, 'dim')]], columns),
      ),
      age,
    ),
    ...section(
      'Slots',
      inFlight.flatMap(level => slotLines(level, frame.nowMs)),
      age,
    ),
    ...section(
      'Usage',
      [
        ...usageChart(usage, units, frame),
        ...usage
          .slice(0, LISTED_HOURS)
          .flatMap(each =>
            foldedPieces([[seg(`  ${each.start}`, 'dim')], ...linesOf(usageTexts(each, units))], columns),
          ),
      ],
      age,
    ),
    ...section(
      'Changes',
      audit.flatMap(({timestamp, action, principal}) => {
        const event = seg(`${action}${principal === undefined ? '' : ` by ${principal}`}`)
        return foldedPieces([[seg(`  ${timestamp}`, 'dim')], [event]], columns)
      }),
      age,
    ),
    ...problems.map((problem): Line => [seg(`${glyphs.status.near} ${problem}`, 'near')]),
  ]
}

const LISTED_HOURS = 6

const MOST_HOLDERS = 8

function slotLines(level: Detail['inFlight'][number], nowMs: number): Line[] {
  const {limit, holders} = level
  const texts = holders.map(holder => slotHoldersText([holder], nowMs))
  const shown = firstItems(texts, MOST_HOLDERS, more => `and ${formatCount(more)} more`)
  return [[seg(`  ${limit} ${inFlightText(level)}`)], ...shown.map((text): Line => [seg(`    ${text}`, 'dim')])]
}

function usageTexts({counters, requests, refused}: Detail['usage'][number], units: Detail['units']): string[] {
  const amounts = Object.entries(counters).map(
    ([name, amount]) => `${name} ${amountText(amount, units.get(name), formatNumber)}`,
  )
  const counted = requests === null ? [] : [formatPlural(requests, 'request')]
  return [...amounts, ...counted, ...(refused > 0 ? [`${formatCount(refused)} refused`] : [])]
}

function shardLines(
  shards: LiveView['shards'],
  writePressures: Reading['writePressures'],
  columns: number,
  drawn: Drawn,
): Line[] {
  return shards.flatMap(view => {
    const number = `${formatCount(view.shard).padStart(INDENT - 1)} `
    if (view.isGhost) return [[seg(`${number}left over from a refund to a deleted shard`, 'dim')]]
    const pieces = shardPieces(view, writePressures.get(view.shard), drawn)
    return wrapPieces(pieces, columns - INDENT, GAP).map((line, at) => [
      seg(at === 0 ? number : ' '.repeat(INDENT)),
      ...line,
    ])
  })
}

function shardPieces(
  {limits, incomplete}: LiveView['shards'][number],
  pressure: number | undefined,
  drawn: Drawn,
): Line[] {
  const tightestFirst = limits.toSorted((a, b) => fractionLeft(a) - fractionLeft(b))
  return [
    ...tightestFirst.map(limit => shardLevel(limit, drawn)),
    incomplete.length === 0 ? [] : [seg(`without parameters: ${incomplete.join(', ')}`, 'near')],
    [seg(`writes ${pressure === undefined ? drawn.glyphs.dash : formatShortPercent(pressure)}`, 'dim')],
  ]
}

const fractionLeft = ({level, capacity}: LiveLevel): number => (capacity > 0 ? level / capacity : Number.MAX_VALUE)

const levelTone = (level: number, soft: true | undefined) => (level >= 1 ? 'ok' : soft ? 'near' : 'over')

function shardLevel({name, level, capacity, soft}: LiveLevel, {glyphs, units}: Drawn): Line {
  const unit = units.get(name)
  const left = amountText(level, unit, tokens => formatShortNumber(tokens, 'down'))
  return [
    seg(`${name} `, 'dim'),
    seg(gauge(level, capacity, SHARD_GAUGE_WIDTH, glyphs), levelTone(level, soft)),
    seg(` ${left}/${amountText(capacity, unit, formatShortNumber)}`),
  ]
}

/** Shares of the parent's consumption; of the total since the buckets exist if nothing is consumed now. */
export function drainOf({readings}: Pick<WatchData, 'readings'>, parentId: string, limit: string) {
  const children = [...readings.values()].filter(({chargedTo, isGone}) => chargedTo === parentId && !isGone)
  const rates = children.map(({ratePerSecond}) => Math.max(0, ratePerSecond.get(limit) ?? 0))
  const isConsuming = rates.some(rate => rate > 0)
  const amounts = isConsuming ? rates : children.map(child => consumedOf(child, limit))
  const parent = readings.get(parentId)
  const charged = isConsuming ? parent?.ratePerSecond.get(limit) : parent && consumedOf(parent, limit)
  const ofChildren = amounts.reduce((total, each) => total + each, 0)
  const sum = Math.max(ofChildren, charged ?? 0)
  const drain = children.map(({bucket, ratePerSecond}, at) => ({
    entity: bucket.entity,
    share: sum > 0 ? (amounts[at] ?? 0) / sum : 0,
    ratePerSecond: ratePerSecond.get(limit) ?? null,
  }))
  const used = drain.filter(({share}) => share > 0)
  used.sort((a, b) => b.share - a.share || (a.entity < b.entity ? -1 : 1))
  return {basis: isConsuming ? 'rate' : 'total', children: used, others: sum > 0 ? 1 - ofChildren / sum : 0}
}

function consumedOf({bucket}: Reading, limit: string): number {
  const consumed = recordsOf(bucket).map(({state}) => Number(state.limits.get(limit)?.consumedMilli ?? 0n))
  const sum = consumed.reduce((total, each) => total + each, 0)
  return Math.max(0, sum)
}

const HOUR_MS = 3_600_000
const ROOMY = 100

/** The last 24 hours, oldest on the left, scaled to the busiest hour. */
function usageChart(usage: Detail['usage'], units: Detail['units'], {nowMs, size, settings}: Frame): Line[] {
  const hour = Math.floor(nowMs / HOUR_MS)
  const recent = usage.flatMap(each => {
    const at = USAGE_HOURS - 1 - (hour - Math.floor(Date.parse(each.start) / HOUR_MS))
    return at >= 0 && at < USAGE_HOURS ? [{...each, at}] : []
  })
  const names = [...new Set(recent.flatMap(({counters}) => Object.keys(counters)))].sort()
  const {glyphs} = settings
  const perHour = size.columns >= ROOMY ? 2 : 1
  const chartLines = (name: string, tone: Tone, countOf: (hour: (typeof recent)[number]) => number): Line[] => {
    const values = new Map(recent.map(each => [each.at, countOf(each)]))
    const amount = (tokens: number) =>
      amountText(tokens, tone === 'history' ? units.get(name) : undefined, formatShortNumber)
    const most = Math.max(0, ...values.values())
    const total = [...values.values()].reduce((sum, each) => sum + each, 0)
    const shares = Array.from({length: USAGE_HOURS}, (_, at) => (most > 0 ? (values.get(at) ?? 0) / most : 0))
    const wide = shares.flatMap(share => Array.from({length: perHour}, () => share))
    const chart = [
      seg(`  ${cell(name, NAME_WIDTH, glyphs.ellipsis)} `),
      seg(sparkline(wide, wide.length, glyphs), tone),
    ]
    return foldedPieces([chart, [seg(`${amount(total)} in 24 h, at most ${amount(most)}/h`, 'dim')]], size.columns)
  }
  const lines = names.flatMap(name => chartLines(name, 'history', ({counters}) => counters[name] ?? 0))
  const isRefused = recent.some(({refused}) => refused > 0)
  return isRefused ? [...lines, ...chartLines('refused', 'over', ({refused}) => refused)] : lines
}
