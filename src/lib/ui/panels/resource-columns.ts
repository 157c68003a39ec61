import {SHORT_NUMBER_WIDTH} from '../../core/text.js'
import {type ColumnPlan, fitColumns, type PanelColumn} from './columns.js'
import {LEVEL_WIDTH} from './overview-columns.js'

export type ResourceKey = 'resource' | 'entities' | 'gauge' | 'level' | 'limit' | 'rate' | 'over' | 'near' | 'top'

/** The cursor and a space. */
const MARGIN = 2
/** A mark and a count. */
const MARK_WIDTH = 6
/** Of a name enough to know it by, and its rate. */
const TOP_WIDTH = 20

const PLAN: ColumnPlan<ResourceKey> = {
  rules: [
    {key: 'resource', title: 'RESOURCE', least: 10},
    {key: 'entities', title: 'ENTITIES', least: 8},
    {key: 'gauge', title: 'LEVEL', least: 8},
    {key: 'level', title: 'LEFT/CAP', least: LEVEL_WIDTH},
    {key: 'limit', title: 'LIMIT', least: 5},
    {key: 'rate', title: 'USED/S', least: SHORT_NUMBER_WIDTH + 1},
    {key: 'over', title: 'OVER', least: MARK_WIDTH},
    {key: 'near', title: 'NEAR', least: MARK_WIDTH},
    {key: 'top', title: 'MOST USED BY', least: TOP_WIDTH},
  ],
  importance: ['resource', 'level', 'over', 'near', 'rate', 'limit', 'top', 'gauge', 'entities'],
  growth: [
    ['resource', 14],
    ['top', 36],
    ['gauge', 10],
    ['resource', 18],
    ['top', 60],
    ['limit', 10],
    ['resource', 40],
    ['top', 100],
    ['gauge', 24],
  ],
  margin: MARGIN,
}

/** The columns of the resources on a screen. */
export const resourceColumns = (screenWidth: number): PanelColumn<ResourceKey>[] => fitColumns(PLAN, screenWidth)
