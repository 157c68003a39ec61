import type {PartName} from '../../infra/health/parts.js'

/** The parts of a stack's health, for people. */
export const PART_NAMES: Readonly<Record<PartName, string>> = {
  cloudFormation: 'stack',
  table: 'table',
  aggregator: 'aggregator',
  mapping: 'mapping',
  traffic: 'metrics',
  deadLetters: 'dead letters',
  alarms: 'alarms',
  versions: 'versions',
}

/** `UPDATE_COMPLETE` → `update complete`. */
export const constantWords = (constant: string): string => constant.toLowerCase().replaceAll('_', ' ')
