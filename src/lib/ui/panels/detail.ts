import {gauge, sparkline} from '../../core/gauge.js'
import {formatNumber, formatPlural, formatRate, formatShortNumber, formatShortSpan} from '../../core/text.js'
import type {LimitLevel} from '../../repository/buckets/view.js'
import type {Detail, Knowledge, Reading, Row} from '../../watch/model.js'
import {rowAt} from '../../watch/rows.js'
import type {GlyphSet} from '../draw/glyphs.js'
import {cell, type Line, seg} from '../draw/line.js'
import type {Scene} from '../model/scene.js'
import {TONE_OF_STATUS, untilText} from './overview.js'
import {shardLines} from './shards.js'

const NAME_WIDTH = 12

/** Everything about one bucket; longer than the screen, it is scrolled. */
export function detailLines(scene: Scene): Line[] {
  const {state, knowledge, levelsAtMs, nowMs, settings, size} = scene
  const reading = state.detailId === undefined ? undefined : knowledge.readings.get(state.detailId)
  if (!reading) return [[seg('This bucket is not there any more; esc goes back.', 'near')]]
  const row = rowAt(reading, levelsAtMs)
  const {glyphs} = settings
  const detail = knowledge.detail?.id === row.id ? knowledge.detail : undefined
  const width = gaugeWidth(size.columns)
  return [
    titleLine(row, agoText(reading.readAtMs, nowMs), glyphs),
    ...section('Limits', limitLines(row.view.limits, reading, width, glyphs)),
    [
      seg('  in use, last polls  ', 'dim'),
      seg(sparkline(row.used, Math.min(60, size.columns - 24), glyphs), 'history'),
    ],
    ...section('Shards', shardLines(row.view.shards, reading.writePressures, size.columns, glyphs)),
    ...(detail
      ? [
          ...parentLines(withFreshParent(detail, knowledge), levelsAtMs, width, glyphs),
          ...loadedLines(detail, nowMs, glyphs),
        ]
      : [[], [seg('Reading the rest.', 'dim')]]),
  ]
}

/** Polls read the parent too, after the detail was loaded. */
function withFreshParent(detail: Detail, {readings}: Knowledge): Detail {
  const polled = detail.parent && readings.get(detail.parent.id)
  return polled && polled.readAtMs > (detail.parent?.readAtMs ?? 0) ? {...detail, parent: polled} : detail
}

const gaugeWidth = (columns: number): number => Math.max(8, Math.min(40, columns - 72))

const agoText = (atMs: number, nowMs: number): string => `read ${formatShortSpan(nowMs - atMs)} ago`

/** `age`: how old its lines are, where that is not told elsewhere. */
function section(title: string, lines: readonly Line[], age?: string): Line[] {
  if (lines.length === 0) return []
  return [[], [seg(title, 'title'), ...(age === undefined ? [] : [seg(`  ${age}`, 'dim')])], ...lines]
}

function titleLine(row: Row, age: string, glyphs: GlyphSet): Line {
  const {view, status, shardCount} = row
  const charged = view.cascade && view.parent !== null ? `, charged to ${view.parent} too` : ''
  const [until, tone] = untilText(row, glyphs)
  return [
    seg(`${glyphs.status[status]} `, TONE_OF_STATUS[status]),
    seg(`${row.entity} ${glyphs.dot} ${row.resource}`, 'title'),
    seg(`  ${formatPlural(shardCount, 'shard')}${charged}, ${age}  `),
    seg(until, tone),
  ]
}

function limitLines(limits: readonly LimitLevel[], reading: Reading, width: number, glyphs: GlyphSet): Line[] {
  return limits.map(limit => {
    const rate = reading.ratePerSecond.get(limit.name)
    const used = rate === undefined ? '' : `, used ${formatShortNumber(rate)}/s`
    return [...levelPieces(limit, width, glyphs), seg(`  refills ${formatRate(limit.refillPerSecond)}/s${used}`, 'dim')]
  })
}

function levelPieces({name, level, capacity, debt}: LimitLevel, width: number, glyphs: GlyphSet): Line {
  const owed = debt > 0 ? [seg(` ${glyphs.belowZero} ${formatNumber(debt)} in debt`, 'over')] : []
  return [
    seg(`  ${cell(name, NAME_WIDTH, glyphs.ellipsis)} `),
    seg(gauge(level, capacity, width, glyphs), level < 1 ? 'over' : 'ok'),
    seg(` ${formatNumber(level, 'down')} of ${formatNumber(capacity)}`),
    ...owed,
  ]
}

function parentLines({parent}: Detail, atMs: number, width: number, glyphs: GlyphSet): Line[] {
  if (!parent) return []
  const {entity, view} = rowAt(parent, atMs)
  return section(
    `Parent ${entity}`,
    view.limits.map(limit => levelPieces(limit, width, glyphs)),
  )
}

/** What polls do not read. */
function loadedLines({limits, usage, audit, problems, loadedAtMs}: Detail, nowMs: number, glyphs: GlyphSet): Line[] {
  const age = agoText(loadedAtMs, nowMs)
  return [
    ...section(
      'Limits in force, and where they come from',
      limits.map(({name, text, source}) => [seg(`  ${name} ${text}`), seg(`  ${source}`, 'dim')]),
      age,
    ),
    ...section(
      'Usage',
      usage.map(({start, counters, requests}) => [seg(`  ${start}  `, 'dim'), seg(usageText(counters, requests))]),
      age,
    ),
    ...section(
      'Changes',
      audit.map(({timestamp, action, principal}) => [
        seg(`  ${timestamp}  `, 'dim'),
        seg(`${action}${principal === undefined ? '' : ` by ${principal}`}`),
      ]),
      age,
    ),
    ...problems.map((problem): Line => [seg(`${glyphs.status.near} ${problem}`, 'near')]),
  ]
}

function usageText(counters: Readonly<Record<string, number>>, requests: number | null): string {
  const amounts = Object.entries(counters).map(([name, amount]) => `${name} ${formatNumber(amount)}`)
  return [...amounts, ...(requests === null ? [] : [formatPlural(requests, 'request')])].join(', ')
}
