import {readFile} from 'node:fs/promises'

/** Logical ids in the template of the resources that the code has to find. */
export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

/** Names of the table's indexes in the template, by what they find. */
export const INDEX_NAME = {children: 'GSI1', resources: 'GSI2', entities: 'GSI3', namespaces: 'GSI4'} as const

/** The text of the template in this package. */
export function loadStackTemplate(): Promise<string> {
  return readFile(new URL('../../../../templates/stack.yaml', import.meta.url), 'utf8')
}
