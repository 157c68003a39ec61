import type {PartName} from '../../infra/health/parts.js'

export const PART_NAMES: Readonly<Record<PartName, string>> = {
  cloudFormation: 'stack',
  table: 'table',
  aggregator: 'aggregator',
  mapping: 'mapping',
  traffic: 'metrics',
  deadLetters: 'dead letters',
  alarms: 'alarms',
  versions: 'versions',
  drift: 'drift',
}

/** `UPDATE_COMPLETE` → `update complete`. */
export const constantWords = (constant: string): string => constant.toLowerCase().replaceAll('_', ' ')

interface NamedResource {
  readonly logicalId: string
  readonly physicalId: string | null
  readonly type: string
}

/** `AggregatorFunction prod-aggregator (Lambda Function)`: logical id, name on AWS, and type. */
export function resourceName({logicalId, physicalId, type}: NamedResource): string {
  const name = physicalId === null || physicalId === logicalId ? '' : ` ${lastPart(physicalId)}`
  return `${logicalId}${name} (${type.split('::').slice(1).join(' ')})`
}

/** ARNs and URLs end in the name. */
function lastPart(id: string): string {
  return /^(arn:|https:)/.test(id) ? (id.split(/[/:]/).at(-1) ?? id) : id
}
