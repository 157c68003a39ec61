import {readFile} from 'node:fs/promises'

/** Names in the template of what the code has to find again. */
export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

/** The template that comes with zael, as text. */
export function loadStackTemplate(): Promise<string> {
  return readFile(new URL('../../../../templates/stack.yaml', import.meta.url), 'utf8')
}
