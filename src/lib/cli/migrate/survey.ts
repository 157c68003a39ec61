import {ZaelError} from '../../core/errors.js'
import type {Survey} from '../../migrations/survey.js'
import type {Table} from '../../repository/table/table.js'
import {interruptible} from '../output/interrupt.js'
import {progressCount} from '../output/progress.js'

/** Looks at the whole table, shows how far it is, and can be stopped with Ctrl-C. */
export async function surveyWithProgress(table: Table, ourVersion: string): Promise<Survey> {
  const {surveyTable} = await import('../../migrations/survey.js')
  const progress = progressCount('Looking at items')
  try {
    return await interruptible(
      signal => surveyTable(table, {ourVersion, signal, onProgress: items => progress.update(items)}),
      () => new ZaelError('interrupted', 'migrate.interrupted', 'Interrupted. Nothing was written.'),
    )
  } finally {
    progress.end()
  }
}
