import {printableText} from '../output/text-table.js'

interface NamedResource {
  readonly logicalId: string
  readonly physicalId: string | null
  readonly type: string
}

/** `AggregatorFunction prod-aggregator (Lambda Function)`: what the template calls it, what AWS does, and what it is. */
export function resourceName({logicalId, physicalId, type}: NamedResource): string {
  const name = physicalId === null || physicalId === logicalId ? '' : ` ${lastPart(physicalId)}`
  return `${logicalId}${name} (${type.split('::').slice(1).join(' ')})`
}

/** ARNs and addresses end in the name that people know. */
function lastPart(id: string): string {
  return printableText(/^(arn:|https:)/.test(id) ? (id.split(/[/:]/).at(-1) ?? id) : id)
}
