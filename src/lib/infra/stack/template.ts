import {readFile} from 'node:fs/promises'
import {packageFile} from '../../files/package-file.js'

export const LOGICAL_ID = {
  table: 'Table',
  function: 'AggregatorFunction',
  mapping: 'AggregatorEventSourceMapping',
  archive: 'AuditArchiveBucket',
} as const

export function loadStackTemplate(): Promise<string> {
  return readFile(packageFile('templates/stack.yaml'), 'utf8')
}
