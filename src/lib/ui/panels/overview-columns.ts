import {SHORT_NUMBER_WIDTH, SHORT_SPAN_WIDTH} from '../../core/text.js'
import type {SortKey} from '../../watch/model.js'
import {type ColumnPlan, type ColumnRule, fitColumns, type PanelColumn} from './columns.js'

export type OverviewKey =
  | 'entity'
  | 'resource'
  | 'gauge'
  | 'level'
  | 'limit'
  | 'rate'
  | 'history'
  | 'shards'
  | 'pressure'
  | 'eta'

/** A column of the overview as it is drawn. */
export interface OverviewColumn extends PanelColumn<OverviewKey> {
  readonly sort?: SortKey
}

const NORMAL = 80
const WIDE = 120

/** Level and capacity with a slash between them. */
export const LEVEL_WIDTH = 2 * SHORT_NUMBER_WIDTH + 1
/** An arrow and a span. */
const ETA_WIDTH = SHORT_SPAN_WIDTH + 1
/** The cursor, the status, a space. */
export const MARGIN = 3

const PLAN: ColumnPlan<OverviewKey, ColumnRule<OverviewKey> & Pick<OverviewColumn, 'sort'>> = {
  rules: [
    {key: 'entity', title: 'ENTITY', sort: 'entity', least: 10},
    {key: 'resource', title: 'RESOURCE', sort: 'resource', least: 8},
    {key: 'gauge', title: 'LEVEL', least: 8},
    {key: 'level', title: 'LEFT/CAP', sort: 'left', least: LEVEL_WIDTH},
    {key: 'limit', title: 'LIMIT', least: 5},
    {key: 'rate', title: 'USED/S', sort: 'rate', least: SHORT_NUMBER_WIDTH + 1, from: NORMAL},
    {key: 'history', title: 'IN USE', least: 12, from: WIDE},
    {key: 'shards', title: 'SHARDS', sort: 'shards', least: 7, from: NORMAL},
    {key: 'pressure', title: 'WRITES', sort: 'pressure', least: 7, from: WIDE},
    {key: 'eta', title: 'UNTIL', sort: 'empty', least: ETA_WIDTH},
  ],
  importance: ['entity', 'resource', 'level', 'gauge', 'eta', 'rate', 'limit', 'shards', 'pressure', 'history'],
  growth: [
    ['entity', 16],
    ['resource', 12],
    ['history', 24],
    ['entity', 24],
    ['gauge', 12],
    ['resource', 20],
    ['history', 60],
    ['limit', 10],
    ['entity', 36],
    ['gauge', 24],
  ],
  margin: MARGIN,
}

/** As much of the names as there is room for, up to the longest that can be; some columns are not worth it. */
const WIDE_NAMES_PLAN: typeof PLAN = {
  ...PLAN,
  importance: ['entity', 'resource', 'level', 'eta', 'rate'],
  growth: [
    ['entity', 40],
    ['resource', 64],
    ['entity', 256],
  ],
}

/** The columns of the overview on a screen. */
export const overviewColumns = (screenWidth: number, isWide: boolean): OverviewColumn[] =>
  fitColumns(isWide ? WIDE_NAMES_PLAN : PLAN, screenWidth)
