import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'

/** Logical ids in the template of the resources that the code has to find. */
export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

/** The text of the template in this package. */
export function loadStackTemplate(): Promise<string> {
  return readFile(packageFile('templates/stack.yaml'), 'utf8')
}
