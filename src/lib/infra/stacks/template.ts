import {readFile} from 'node:fs/promises'

/** Logical ids in the template of the resources that the code has to find. */
export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

/** The text of the template in this package. */
export function loadStackTemplate(): Promise<string> {
  return readFile(new URL('../../../../templates/stack.yaml', import.meta.url), 'utf8')
}
