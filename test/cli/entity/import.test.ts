import {expect, it} from 'vitest'
import {importedLines} from '../../../src/lib/cli/entity/import.js'
import {ZaelError} from '../../../src/lib/core/errors.js'

it('prints equal failures once, with some of the entities and their number', () => {
  const failed = (entity: string, message: string) => ({entity, error: new ZaelError('failed', 'x', message)})
  const failures = [
    ...Array.from({length: 50}, (_, at) => failed(`c${at}`, 'DynamoDB did not answer.')),
    failed('d', 'Another client changed it.'),
  ]
  const result = {created: 1, updated: 0, limitsSet: 0, kept: [], failures, left: 0}
  const plan = {listed: 52, entities: [], limits: [], unchanged: 0}
  const lines = importedLines(plan, {result, isInterrupted: false, exitCode: 1})
  expect(lines.slice(1, -1)).toEqual([
    '  c0, c1, c2, c3, c4 and 45 more: DynamoDB did not answer.',
    '  d: Another client changed it.',
  ])
  expect(lines.at(-1)).toBe('51 failed, 0 not tried. Run the command again to continue.')
})
